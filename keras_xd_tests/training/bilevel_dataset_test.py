"""Streams of alternating samples: which samples, in which order, how often."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd.training.bilevel_dataset import split, with_steps

TRAINING, HELD_OUT = np.arange(10.0), 100 + np.arange(4.0)


class Batches(keras.utils.PyDataset):
    """Batches of the numbers in an array and their negatives; counts its epochs."""

    def __init__(self, values, size, **kwargs):
        super().__init__(**kwargs)
        self.values, self.size, self.ended = values, size, 0

    @property
    def num_batches(self):
        return -(-len(self.values) // self.size)

    def __getitem__(self, index):
        x = self.values[index * self.size : (index + 1) * self.size]
        return x, -x

    def on_epoch_end(self):
        self.ended += 1


def interleave(training, architecture, **options):
    return with_steps(training, architecture, None, **options)[0]


def arrays(values):
    return values, -values


def dataset(values, size):
    return tf.data.Dataset.from_tensor_slices(arrays(values.astype("float32"))).batch(size)


def unknown_length(values, size):
    return dataset(values, size).filter(lambda x, y: True)


def halves(stream):
    """Return the training and the architecture samples of each batch, which must alternate."""
    batches = [(x.numpy(), y.numpy()) for x, y in stream]
    assert all(np.array_equal(x, -y) and len(x) % 2 == 0 for x, y in batches)
    return tuple([x[start::2].tolist() for x, _ in batches] for start in (0, 1))


KINDS = {
    "arrays": lambda values, size: arrays(values),
    "dataset": dataset,
    "PyDataset": Batches,
}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("arrays", "arrays"),
        ("dataset", "dataset"),
        ("PyDataset", "arrays"),
        ("dataset", "PyDataset"),
    ],
)
def test_the_shorter_starts_again(first, second):
    training, held_out = KINDS[first](TRAINING, 3), KINDS[second](HELD_OUT, 3)
    options = {"batch_size": 3, "shuffle": False}
    stream = interleave(training, held_out, **options)
    assert int(stream.cardinality()) == 4
    for _ in range(2):
        ours, theirs = halves(stream)
        assert ours == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
        assert theirs == [[100, 101, 102], [103, 100, 101], [102, 103, 100], [101]]
    stream = interleave(held_out, training, **options)
    assert int(stream.cardinality()) == 4
    theirs, ours = halves(stream)
    assert ours == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert theirs == [[100, 101, 102], [103, 100, 101], [102, 103, 100], [101]]


def test_unknown_and_endless_lengths():
    options = {"shuffle": False}
    training = unknown_length(TRAINING, 5)
    assert len(halves(interleave(training, dataset(TRAINING, 5), **options))[0]) == 2
    assert len(halves(interleave(dataset(TRAINING, 5), training, **options))[0]) == 2
    endless = dataset(HELD_OUT, 4).repeat()
    stream = interleave(dataset(TRAINING, 4), endless, **options)
    assert halves(stream)[1] == [[100, 101, 102, 103]] * 2 + [[100, 101]]
    stream = interleave(endless, dataset(TRAINING, 4), **options)
    assert stream.cardinality() == tf.data.INFINITE_CARDINALITY
    assert halves(stream.take(3))[1] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]


def test_shuffling_covers_every_sample_in_a_new_order():
    stream = interleave(arrays(TRAINING), arrays(HELD_OUT), batch_size=2)
    orders = [sum(halves(stream)[0], []) for _ in range(2)]
    assert all(sorted(order) == TRAINING.tolist() for order in orders)
    assert orders[0] != orders[1] and orders[0] != TRAINING.tolist()
    data = Batches(TRAINING, 2)
    stream = interleave(data, arrays(HELD_OUT))
    ended = data.ended
    orders = [halves(stream)[0] for _ in range(2)]
    assert all(sorted(sum(order, [])) == TRAINING.tolist() for order in orders)
    assert orders[0] != orders[1]
    assert all(pair[1] == pair[0] + 1 for order in orders for pair in order)
    assert data.ended == ended + 2


def test_batch_size_is_that_of_the_dataset():
    stream = interleave(dataset(TRAINING, 5), arrays(HELD_OUT), shuffle=False)
    assert [len(batch) for batch in halves(stream)[0]] == [5, 5]
    stream = interleave(arrays(HELD_OUT), arrays(TRAINING), shuffle=False)
    assert halves(stream)[1] == [TRAINING[:4].tolist()]
    stream = interleave(arrays(np.arange(40.0)), arrays(np.arange(40.0)))
    assert [len(batch) for batch in halves(stream)[0]] == [32, 8]


def test_split_takes_the_last_samples():
    x = {"a": np.arange(10), "b": np.ones((10, 2))}
    first, last = split((x, -np.arange(10), None), 0.35, "architecture_validation_split")
    assert first[0]["a"].tolist() == [0, 1, 2, 3, 4, 5] and len(first) == 2
    assert last[0]["a"].tolist() == [6, 7, 8, 9] and last[0]["b"].shape == (4, 2)
    assert last[1].tolist() == [-6, -7, -8, -9]


@pytest.mark.parametrize("share", [0, 1, 1.5, -0.1, True, "half", None, 0.99])
def test_split_out_of_range(share):
    with pytest.raises(ValueError, match="`validation_split` must.*Received: validation_split="):
        split(arrays(np.arange(4)), share, "validation_split")


@pytest.mark.parametrize(
    ("held_out", "options", "message"),
    [
        (dataset(TRAINING, 2), {"batch_size": 3}, "same batch size. Received: 3 and 2 samples"),
        (dataset(TRAINING[:0], 2), {}, "architecture data must have at least one batch"),
        (Batches(TRAINING[:0], 2), {}, "architecture data must have at least one batch"),
        (arrays(TRAINING[:0]), {}, "architecture data must have at least one batch"),
        ((TRAINING, TRAINING[:4]), {}, r"of one length. Received: shapes \[\(10,\), \(4,\)\]"),
        ((TRAINING, None, TRAINING), {}, "architecture data have to be a tf.data.Dataset"),
        (iter([1]), {}, r"architecture data have to be a tf.data.Dataset.*iterator"),
        (("text", "label"), {}, r"Received: \['str', 'str'\]"),
        ((np.float32(1), np.float32(2)), {}, r"Received: shapes \[\(\), \(\)\]"),
        ((TRAINING,), {}, "same structure, types and shapes"),
        ((TRAINING, TRAINING[:, None]), {}, "same structure, types and shapes"),
        ((TRAINING, np.arange(10)), {}, "same structure, types and shapes"),
        (arrays(HELD_OUT), {"batch_size": 0}, "`batch_size` must be.*batch_size=0"),
        (arrays(HELD_OUT), {"shuffle": "batch"}, "`shuffle` must be.*shuffle='batch'"),
    ],
)
def test_bad_input(held_out, options, message):
    with pytest.raises(ValueError, match=message):
        interleave(arrays(TRAINING), held_out, **options)


def test_batches_can_be_divided_among_devices():
    stream = interleave(arrays(TRAINING), arrays(HELD_OUT), batch_size=4, shuffle=False, replicas=2)
    ours, theirs = halves(stream)
    assert ours == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert theirs == [[100, 101, 102, 103], [100, 101, 102, 103], [100, 101]]
    with pytest.raises(ValueError, match="multiple of the number of devices.*5 samples.*2 devices"):
        interleave(arrays(TRAINING), arrays(HELD_OUT), batch_size=5, replicas=2)
    odd = interleave(arrays(TRAINING[:7]), arrays(HELD_OUT), batch_size=4, replicas=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a multiple of 2 samples"):
        list(odd)
