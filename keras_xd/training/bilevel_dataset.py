"""Bilevel datasets: training and architecture batches in one stream."""

import itertools
import random
import types

import keras
import numpy as np
import tensorflow as tf

from keras_xd.core.validation import boolean, positive_integer


def _largest_size(sizes, lengths, replicas):
    """Return the batch size, which must be that of both data and fit the devices."""
    largest = max(sizes.values())
    for name, size in sizes.items():
        # One batch may be smaller if it is the only one.
        if size != largest and lengths[name] != 1:
            raise ValueError(
                "Training and architecture data must have the same batch size. "
                f"Received: {sizes['training']} and {sizes['architecture']} samples in a batch"
            )
    if largest % replicas:
        raise ValueError(
            "In the bilevel modes the batch size must be a multiple of the number of devices. "
            f"Received: {largest} samples in a batch, {replicas} devices"
        )
    return largest


def _known_steps(generators, lengths):
    """Return the batches of an epoch beside a generator, if the training data tell."""
    if "training" in generators or lengths["training"] < 1:
        raise ValueError(
            "`fit` needs `steps_per_epoch` where the training data are a generator, or of unknown "
            "length beside a generator. Received: steps_per_epoch=None, a generator as "
            f"{' and '.join(sorted(generators))} data"
        )
    return lengths["training"]


def with_steps(
    training, architecture, steps, *, batch_size=None, shuffle=True, replicas=1, ahead=1
):
    """Return a dataset of alternating samples, the batches of an epoch, and the generators."""
    if batch_size is not None:
        batch_size = positive_integer(batch_size, "batch_size")
    boolean(shuffle, "shuffle")
    given = {"training": training, "architecture": architecture}
    found, samples, sizes, generators = {}, {}, {}, {}
    for name in sorted(given, key=lambda name: not is_batched(given[name])):
        if isinstance(given[name], types.GeneratorType):
            generators[name] = GeneratorBatches(given[name], name, ahead)
            found[name], sizes[name] = generators[name].dataset(), generators[name].size
        else:
            found[name], size, samples[name] = _batches(
                given[name], name, batch_size or 32, shuffle
            )
            sizes[name] = size or _first_size(found[name], name)
        if is_batched(given[name]):
            batch_size = batch_size or sizes[name]
    lengths = {name: int(dataset.cardinality()) for name, dataset in found.items()}
    specs = {name: (samples.get(name) or found[name]).element_spec for name in found}
    _check_alike(specs)
    largest = _largest_size(sizes, lengths, replicas)
    if generators and steps is None:
        steps = _known_steps(generators, lengths)
    if list(generators) == ["architecture"]:
        found["training"] = found["training"].repeat()
        lengths["training"] = int(found["training"].cardinality())
    longer, shorter = "training", "architecture"
    if 0 <= lengths["training"] < lengths["architecture"]:
        longer, shorter = shorter, longer
    endless = found[shorter] if shorter in generators else found[shorter].repeat()
    endless = endless.rebatch(largest)
    pairs = tf.data.Dataset.zip({longer: found[longer], shorter: endless})
    parallel = None if generators else tf.data.AUTOTUNE

    # There is no control flow to convert, which would take most of the time of tracing it.
    @tf.autograph.experimental.do_not_convert
    def alternate(pair):
        # Arrays are read here, because one function of a pipeline costs less than three.
        batches = {
            name: samples[name].at(batch) if samples.get(name) else batch
            for name, batch in pair.items()
        }
        return _alternate(batches, replicas)

    pairs = pairs.map(alternate, num_parallel_calls=parallel)
    if lengths[longer] != tf.data.UNKNOWN_CARDINALITY and not generators:
        pairs = pairs.apply(tf.data.experimental.assert_cardinality(lengths[longer]))
    if replicas > 1:
        # Every worker computes all batches, in the same order, and takes its part of each.
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
        pairs = pairs.with_options(options)
    if not generators:
        return pairs.prefetch(tf.data.AUTOTUNE), steps, ()
    options = tf.data.Options()
    # Batches that are drawn ahead are lost when training ends, or when Keras starts over.
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    return pairs.with_options(options), steps, tuple(generators.values())


def is_batched(data):
    """Return whether data are a dataset of batches rather than arrays."""
    return isinstance(data, (types.GeneratorType, tf.data.Dataset, keras.utils.PyDataset))


def split(data, share, name):
    """Split arrays into the first samples and the last ones."""
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1:
        raise ValueError(f"`{name}` must be a number between 0 and 1. Received: {name}={share!r}")
    arrays = _arrays(data, f"`{name}` divides")
    count = len(keras.tree.flatten(arrays)[0])
    place = int(np.floor(count * (1 - share)))
    if not 0 < place < count:
        raise ValueError(
            f"`{name}` must leave samples in both parts. Received: {name}={share!r} of "
            f"{count} samples"
        )
    return (
        keras.tree.map_structure(lambda leaf: leaf[:place], arrays),
        keras.tree.map_structure(lambda leaf: leaf[place:], arrays),
    )


def _batches(data, name, batch_size, shuffle):
    """Return a dataset of batches, the size of the first one, and the samples of arrays."""
    if isinstance(data, tf.data.Dataset):
        return data, None, None
    if isinstance(data, keras.utils.PyDataset):
        return _batches_of_py_dataset(data, shuffle), None, None
    arrays = _arrays(
        data, f"The {name} data have to be a tf.data.Dataset, a PyDataset, a generator or"
    )
    count = len(keras.tree.flatten(arrays)[0])
    places = tf.data.Dataset.range(count)
    if shuffle:
        places = places.shuffle(max(count, 1))
    return places.batch(batch_size), min(count, batch_size), _Samples(arrays)


class _Samples:
    """Samples of arrays, and the specification of a batch of them."""

    def __init__(self, arrays):
        with tf.device("CPU"):
            self.arrays = keras.tree.map_structure(tf.convert_to_tensor, arrays)
        self.element_spec = _specification(self.arrays)

    def at(self, places):
        """Return the batch of the samples at some places."""
        return keras.tree.map_structure(lambda leaf: tf.gather(leaf, places), self.arrays)


def _specification(batch):
    """Return the specification of batches like one, of any size."""
    return keras.tree.map_structure(
        lambda leaf: tf.TensorSpec((None, *leaf.shape[1:]), leaf.dtype), batch
    )


class GeneratorBatches:
    """The batches of a Python generator as a dataset, from the first one on."""

    def __init__(self, generator, name, ahead=1):
        rule = f"The {name} data must have at least one batch of samples. Received: a generator"
        try:
            first = _item(next(generator), "generator")
        except StopIteration:
            raise ValueError(f"{rule} that yields nothing") from None
        self.size = len(keras.tree.flatten(first)[0])
        if not self.size:
            raise ValueError(f"{rule} whose first batch is empty")
        self._signature = _specification(first)
        self._taken, self._ahead = [first], ahead
        self._rest = (_item(item, "generator") for item in generator)
        self._waiting = []

    def dataset(self):
        """Return a `tf.data.Dataset` of the batches, of unknown length."""
        return tf.data.Dataset.from_generator(self._batches, output_signature=self._signature)

    def ended(self):
        """Return whether the generator has no more batches; it is asked for one to find out."""
        if not self._waiting:
            self._waiting = list(itertools.islice(self._rest, 1))
        return not self._waiting

    def _batches(self):
        yield from tuple(self._taken)
        while not self.ended():
            batch = self._waiting.pop()
            # Once training has begun no batch comes again.
            begun = not 0 < len(self._taken) < self._ahead
            self._taken = [] if begun else [*self._taken, batch]
            yield batch
        self._taken = []


def _batches_of_py_dataset(data, shuffle):
    """Return the batches of a `keras.utils.PyDataset` as a dataset."""

    def batch(number):
        return _item(data[number], "PyDataset")

    length = data.num_batches
    if length == 0:
        return tf.data.Dataset.range(0).batch(1)

    def one_pass():
        data.on_epoch_begin()
        order = itertools.count() if length is None else list(range(length))
        if shuffle and length is not None:
            random.shuffle(order)
        for number in order:
            yield batch(number)
        data.on_epoch_end()

    dataset = tf.data.Dataset.from_generator(one_pass, output_signature=_specification(batch(0)))
    known = tf.data.INFINITE_CARDINALITY if length is None else length
    return dataset.apply(tf.data.experimental.assert_cardinality(known))


def _item(item, kind):
    """Return a batch of a `PyDataset` or generator as a tuple of arrays."""
    item = tuple(item) if isinstance(item, list) else item
    return _arrays(item, f"The batches of a {kind} have to be")


def _arrays(data, what):
    """Return `(x, y, sample_weight)` without what is missing at its end, as NumPy arrays."""
    data = data if isinstance(data, tuple) else (data,)
    while data and data[-1] is None:
        data = data[:-1]
    message = f"{what} arrays `(x, y)` or `(x, y, sample_weight)` of one length."
    leaves = keras.tree.flatten(data)
    if not 0 < len(data) < 4 or not all(hasattr(leaf, "__array__") for leaf in leaves):
        raise ValueError(f"{message} Received: {[type(leaf).__name__ for leaf in leaves]}")
    arrays = keras.tree.map_structure(_array, data)
    shapes = [leaf.shape for leaf in keras.tree.flatten(arrays)]
    if len({shape[:1] for shape in shapes}) != 1 or not shapes[0]:
        raise ValueError(f"{message} Received: shapes {shapes}")
    return arrays


def _array(value):
    """Return a NumPy array, one of real numbers in Keras' default precision."""
    value = np.asarray(value)
    return value.astype(keras.config.floatx()) if value.dtype.kind == "f" else value


def _first_size(dataset, name):
    """Return the number of samples in a dataset's first batch."""
    for batch in dataset.take(1):
        shape = keras.tree.flatten(batch)[0].shape
        if len(shape) and shape[0]:
            return int(shape[0])
    raise ValueError(
        f"The {name} data must have at least one batch of samples. Received: {dataset.element_spec}"
    )


def _check_alike(specs):
    """Raise `ValueError` if batches of two specifications cannot be parts of one."""
    one, other = (keras.tree.flatten(spec) for spec in specs.values())
    try:
        keras.tree.assert_same_structure(*specs.values())
        alike = all(
            a.dtype == b.dtype and a.shape[1:].is_compatible_with(b.shape[1:])
            for a, b in zip(one, other, strict=True)
        )
    except (ValueError, TypeError):
        alike = False
    if not alike:
        raise ValueError(
            "Training and architecture data must have the same structure, types and shapes. "
            f"Received: {specs['training']} and {specs['architecture']}"
        )


def _alternate(pair, replicas):
    """Return one batch of alternating samples, no more of one kind than there are of the other."""
    first = [keras.tree.flatten(batch)[0] for batch in pair.values()]
    count = tf.minimum(*[tf.shape(leaf)[0] for leaf in first])
    if replicas > 1:
        rule = f"Every batch must have a multiple of {replicas} samples, the number of devices."
        with tf.control_dependencies([tf.debugging.assert_equal(count % replicas, 0, rule)]):
            count = tf.identity(count)

    def join(training, architecture):
        joined = tf.stack([training[:count], architecture[:count]], axis=1)
        joined = tf.reshape(joined, tf.concat([[2 * count], tf.shape(training)[1:]], axis=0))
        return tf.ensure_shape(joined, [None, *training.shape[1:]])

    return keras.tree.map_structure(join, pair["training"], pair["architecture"])
