"""Settings, data, networks and training of `dnarch.py`."""

import dataclasses
import functools
import math
import os
from collections.abc import Callable

import fitting
import keras
import numpy as np
import reporting
from datasets import cosmic, images, listops, long_range, pathfinder, pde
from datasets.batches import BORDER, Batches, ImageBatches, normalize

import keras_xd
from experiments.xd import cifar10, pde_experiment

METHODS = ("plain", "K", "KR", "KRWD")
# Those of widths and depth are the same for all tasks of the paper.
WIDTH_TEMPERATURE, DEPTH_TEMPERATURE = (
    keras_xd.recipes.paper("dnarch", "cifar10")[f"{kind}_temperature"]
    for kind in ("width", "depth")
)
COMPLEXITY_WEIGHT = 5.0  # with 0.1, as in the paper, so short a search ends far below the target
LENGTHS = (30, 128)  # of ListOps: the fewest tokens, and the length of all sequences
MNIST_MEAN, MNIST_DEVIATION, MNIST_SIZE = 0.1307, 0.3081, 28
DARCY_SAMPLES = (1000, 100)
MARGIN = 0.25  # of dynamic rendering, so that masks can grow between its updates
LARGEST_BATCH = 100  # of the evaluation
# The paper's four blocks begin with 71 taps each, of images of 32 × 32 in a row; two blocks see as
# many rows with twice of them.
ROWS = 2 * 71 / 32


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Settings of one experiment: those of the paper, and sizes for two cores."""

    title: str
    blocks: int
    channels: int
    epochs: int
    subset: int | None
    batch_size: int
    learning_rate: float
    dropout: float
    weight_decay: float
    temperature: float  # of the masks on frequencies
    warmup: float  # share of the epochs
    size: int | None = None  # points of a side


def _experiment(title, task, blocks, epochs, subset=None, size=None):
    """Return an experiment with the paper's settings of a task."""
    paper = keras_xd.recipes.paper("dnarch", task)
    names = ("batch_size", "learning_rate", "dropout", "weight_decay")
    return Experiment(
        title,
        blocks,
        24,
        epochs,
        subset,
        *[paper[name] for name in names],
        temperature=paper["resolution_temperature"],
        warmup=paper["learning_rate_warmup_epochs"] / paper["epochs"],
        size=size,
    )


EXPERIMENTS = {
    "cifar10": _experiment("CIFAR-10", "cifar10", 2, 20, 10000, 32),
    # The paper's pixels in a row are those of CIFAR-10.
    "mnist": _experiment("sequential MNIST", "image", 2, 10, size=14),
    "listops": _experiment("ListOps", "listops", 4, 10, 50000),
    "darcy": _experiment("Darcy flow", "darcy", 2, 30, size=43),
    "cosmic": _experiment("cosmic rays", "cosmic", 2, 30, size=cosmic.CROP),
    "cifar100": _experiment("CIFAR-100", "cifar100", 2, 20, 10000, 32),
    "image": _experiment("grey CIFAR-10 in a row", "image", 2, 10, 10000, 32),
    "pathfinder": _experiment("PathFinder", "pathfinder", 2, 10, 2000, 32),
    "path_x": _experiment("Path-X", "path_x", 2, 10, 2000, 128),
    "text": _experiment("reviews by characters", "text", 2, 10, size=long_range.TEXT_LENGTH),
    "retrieval": _experiment(
        "pairs of texts", "retrieval", 2, 10, size=long_range.RETRIEVAL_LENGTH
    ),
}
ERRORS = {"darcy": "relative L2 error", "cosmic": "1 − AUROC"}  # others: accuracy
FROM_TFDS = ("cifar10", "cifar100", "image", "mnist")


def complete(options):
    """Set what is not given to what the experiment has."""
    experiment = EXPERIMENTS[options.experiment]
    for name in dataclasses.asdict(experiment):
        if getattr(options, name, None) is None:
            setattr(options, name, getattr(experiment, name))
    if options.experiment in ("image", "mnist"):
        taps = min(round(ROWS * options.size), options.size**2)
        options.kernel_size = options.kernel_size or taps
    if options.data_dir is None and options.experiment in FROM_TFDS:
        options.data_dir = os.environ.get("TFDS_DATA_DIR")


@dataclasses.dataclass(frozen=True)
class Data:
    """Samples, and what a network for them is trained by."""

    batches: Callable
    inputs: np.ndarray
    targets: np.ndarray
    classes: int
    loss: keras.losses.Loss
    score: Callable
    number: int
    vocabulary: int | None = None
    dense: bool = False
    decoding: keras.layers.Layer | None = None
    other_scores: dict[str, Callable] = dataclasses.field(default_factory=dict)


def load(options):
    """Return the `Data` of an experiment."""
    kinds = {"mnist": _mnist, "listops": _listops, "darcy": _darcy, "image": _image}
    kinds |= {"text": _texts, "retrieval": _texts, "pathfinder": _pathfinder}
    kinds |= {"path_x": _pathfinder, "cifar10": _cifar, "cifar100": _cifar, "cosmic": _cosmic}
    return kinds[options.experiment](options)


def _cifar(options):
    (x, y), (others, labels) = cifar10.load_data(options, options.experiment)
    border = BORDER * options.size // x.shape[1]
    x, others = (averaged(pixels, options.size) for pixels in (x, others))

    def batches(seed):
        return ImageBatches(x, y, options.batch_size, seed, augment=True, border=border)

    classes = 100 if options.experiment == "cifar100" else 10
    return _classes(batches, len(x), normalize(others), labels, classes)


def averaged(pixels, size):
    """Return uint8 images with squares of pixels averaged, so that a side has `size` of them."""
    side = pixels.shape[1]
    if side % size:
        raise ValueError(f"`size` must divide {side}. Received: size={size}")
    return np.round(images.block_means(pixels, side // size)).astype("uint8")


def _mnist(options):
    train, (others, labels) = cifar10.load_data(options, "mnist")
    inputs = sequences(train[0], options.size)
    batches = _batches(options, inputs, train[1])
    return _classes(batches, len(inputs), sequences(others, options.size), labels)


def sequences(pixels, size):
    """Return MNIST's uint8 images as their pixels in a row, `(number, size², 1)`, normalized."""
    if MNIST_SIZE % size:
        raise ValueError(f"`size` must divide {MNIST_SIZE}. Received: size={size}")
    means = images.block_means(pixels.astype("float32") / 255, MNIST_SIZE // size)
    return ((means - MNIST_MEAN) / MNIST_DEVIATION).reshape(-1, size * size, 1)


def _image(options):
    train, _, (others, labels) = long_range.image(options.data_dir, options.subset, options.size)
    return _classes(_batches(options, *train), len(train[0]), others, labels)


def _pathfinder(options):
    if options.size != (32 if options.experiment == "pathfinder" else 128):
        raise ValueError(f"PathFinder has 32, Path-X 128 pixels. Received: size={options.size}")
    numbers = [min(number, options.subset or number) for number in pathfinder.SAMPLES]
    train, _, (others, labels) = pathfinder.load(numbers, options.size)
    inputs, others = train[0][..., None], others[..., None]
    return _classes(_batches(options, inputs, train[1]), len(inputs), others, labels, 2)


def _texts(options):
    load = getattr(long_range, options.experiment)
    train, *_, (others, labels), vocabulary = load(options.data_dir, options.size, options.subset)
    batches = _batches(options, *train)
    return _classes(batches, len(train[0]), others, labels, 2, vocabulary)


def _listops(options):
    numbers = [min(number, options.subset or number) for number in listops.SAMPLES]
    train, _, (inputs, labels) = listops.load(numbers, *LENGTHS)
    batches = _batches(options, *train)
    vocabulary = len(listops.TOKENS)
    return _classes(batches, len(train[0]), inputs, labels, listops.CLASSES, vocabulary)


def _darcy(options):
    numbers = [min(number, options.subset or number) for number in DARCY_SAMPLES]
    train, evaluation = pde.darcy(options.size, options.data_dir, *numbers)
    encoding, decoding = pde_experiment.normalizations(*train)
    inputs, others = (
        keras.ops.convert_to_numpy(encoding(values)) for values in (train[0], evaluation[0])
    )
    loss, targets = keras_xd.losses.RelativeL2(), evaluation[1]
    return Data(
        _batches(options, inputs, train[1]),
        others,
        targets,
        targets.shape[-1],
        loss,
        lambda outputs: float(loss(targets, outputs)),
        len(train[0]),
        dense=True,
        decoding=decoding,
    )


def _cosmic(options):
    if options.size != cosmic.CROP:
        raise ValueError(f"Cosmic's images have 128 pixels. Received: size={options.size}")
    train, _, test = cosmic.load(options.data_dir, options.subset)
    mean, deviation = train.inputs.mean(), train.inputs.std()
    inputs, others = ((part.inputs - mean) / deviation for part in (train, test))
    return Data(
        _batches(options, inputs, train.outputs, train.weights),
        others,
        test.outputs,
        1,
        keras.losses.BinaryCrossentropy(from_logits=True),
        functools.partial(cosmic.decided_auroc_error, test.outputs),
        len(inputs),
        dense=True,
        other_scores={
            "false_negatives": functools.partial(cosmic.false_negative_rate, test.outputs)
        },
    )


def _batches(options, *arrays):
    # Without a last batch of few samples, whose statistics would be poor.
    return lambda seed: Batches(*arrays, batch_size=options.batch_size, seed=seed, incomplete=False)


def _classes(batches, number, inputs, labels, classes=10, vocabulary=None):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Data(
        batches,
        inputs,
        labels,
        classes,
        loss,
        lambda outputs: float(np.mean(outputs.argmax(axis=-1) == labels)),
        number,
        vocabulary,
    )


def network(method, data, seed, options):
    """Return the network of a method: that of `KRWD` has twice the blocks and the channels."""
    twice = 2 if method == "KRWD" else 1
    pairs = options.experiment == "retrieval"
    model = keras_xd.models.ccnn(
        twice * options.blocks,
        twice * options.channels,
        data.inputs.shape[2 if pairs else 1 :],
        data.classes,
        learn="" if method == "plain" else method,
        dense=data.dense,
        vocabulary=data.vocabulary,
        temperatures=(options.temperature, WIDTH_TEMPERATURE, DEPTH_TEMPERATURE),
        dropout=options.dropout,
        rendering="dynamic",
        initial_kernel_size=options.kernel_size,
        seed=seed,
    )
    if pairs:
        return of_pairs(model, data.classes, seed)
    return pde_experiment.decoded(model, data.decoding)


def of_pairs(model, classes, seed):
    """Return a network for pairs that reads `[a, b, a · b, a - b]` of their features."""
    features = keras.Model(model.input, model.get_layer("decoder").input, name="features")
    inputs = keras.Input((2, *model.input_shape[1:]), dtype=model.input.dtype)
    first, second = (features(inputs[:, place]) for place in (0, 1))
    parts = [first, second, first * second, first - second]
    draw = keras.initializers.GlorotUniform(seed)
    x = keras.layers.Dense(first.shape[-1], "relu", kernel_initializer=draw)(
        keras.layers.Concatenate()(parts)
    )
    return keras.Model(inputs, keras.layers.Dense(classes, kernel_initializer=draw)(x))


def separable(shape, classes, channels, blocks, taps, dropout, seed, dense=False):
    """Return a network like `models.ccnn`, with the depthwise convolutions of Keras."""
    linear, draw = keras.layers.Dense, keras.initializers.HeUniform
    rank = len(shape) - 1
    convolution = {1: keras.layers.DepthwiseConv1D, 2: keras.layers.DepthwiseConv2D}[rank]
    pooling = {1: keras.layers.GlobalAveragePooling1D, 2: keras.layers.GlobalAveragePooling2D}[rank]
    inputs = keras.Input(shape)
    x = linear(channels, kernel_initializer=keras.initializers.GlorotUniform(seed))(inputs)
    x = keras.layers.Activation("gelu")(keras.layers.BatchNormalization()(x))
    for index in range(blocks):
        start = seed + 10 * index
        kernel = keras.initializers.RandomNormal(stddev=taps ** (-rank / 2), seed=start)
        y = keras.layers.BatchNormalization()(x)
        y = convolution(taps, padding="same", depthwise_initializer=kernel)(y)
        y = linear(channels, activation="gelu", kernel_initializer=draw(start + 1))(y)
        y = keras.layers.Dropout(dropout, seed=start)(y)
        y = linear(channels, activation="gelu", kernel_initializer=draw(start + 2))(y)
        x = keras.layers.Add()([x, y])
    return keras.Model(inputs, linear(classes)(x if dense else pooling()(x)))


def schedule(rate, steps, warmup):
    """Return a rate that rises linearly in a share of the steps and falls to 0 along a cosine."""
    rising = max(1, round(warmup * steps))
    return keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - rising), warmup_target=rate, warmup_steps=rising
    )


def run(method, data, seed, options):
    """Train one network, and prune what was searched; return what was measured."""
    keras.utils.set_random_seed(seed)
    target = float(keras_xd.complexity(network("plain", data, seed, options)))
    model = network(method, data, seed, options)
    batches = data.batches(seed)
    steps = options.epochs * len(batches)
    given = (options.learning_rate, options.architecture_rate)
    rates = [schedule(rate, steps, options.warmup) for rate in given]
    optimizers = [keras.optimizers.AdamW(rates[0], weight_decay=options.weight_decay)]
    callbacks = [keras_xd.callbacks.TerminateOnNonFinite()]
    settings = {"loss": data.loss, "jit_compile": False}
    if method != "plain":
        optimizers.append(keras.optimizers.Adam(rates[1]))
        callbacks.append(keras_xd.callbacks.DynamicRendering(options.rendering_epochs, MARGIN))
        if method == "KRWD":
            settings |= {"complexity_target": target, "complexity_weight": COMPLEXITY_WEIGHT}
    model = fitting.compiled(model, *optimizers, **settings)
    clock = reporting.EpochClock()
    model.fit(batches, epochs=options.epochs, callbacks=[*callbacks, clock], verbose=2)
    return {
        "method": method,
        "kind": options.experiment,
        "seed": seed,
        **pruned(model, data, target),
        "target": target,
        "seconds": clock.seconds,
    }


def score_text(score, experiment):
    """Return an accuracy or an error as text."""
    name = ERRORS.get(experiment)
    return f"{name} {score:.4f}" if name else f"accuracy {100 * score:.2f} %"


def outputs(model, inputs):
    """Return the outputs of a model, in batches of about one size: they depend on the batch."""
    parts = math.ceil(len(inputs) / LARGEST_BATCH)
    return model.predict(inputs, batch_size=math.ceil(len(inputs) / parts), verbose=0)


def pruned(model, data, target):
    """Return what was found by a training, and what is left of it once it is pruned."""
    # Dynamic rendering is what lies under the masks now; the pruned network is the same.
    keras_xd.layers.ccnn.rendering.update_rendering(model)
    space = getattr(model, "model", model)
    final = keras_xd.finalize(space)
    before, after = (outputs(network, data.inputs) for network in (space, final))
    counted = float(keras_xd.complexity(final))
    return {
        "score": data.score(after),
        "searched_score": data.score(before),
        **{name: score(after) for name, score in data.other_scores.items()},
        "difference": float(np.abs(before - after).max() / np.abs(before).max()),
        "parameters": reporting.count(final.trainable_variables),
        "searched_parameters": reporting.count(space.trainable_variables),
        "complexity": float(keras_xd.complexity(space)) / target,
        "multiply_adds": counted,
        "pruned_complexity": counted / target,
        "blocks": [_sizes(x) for x in _blocks(space)],
    }


def _blocks(model):
    """Return the blocks of a model and of those inside it."""
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _blocks(layer)
        elif isinstance(layer, keras_xd.layers.CCNNBlock):
            yield layer


def _sizes(block):
    """Return the sizes of a block, and the largest that they could be."""
    found, rank = block.describe(), len(block.largest_size)
    return {
        "depth": found["depth"],
        "taps": [round(found[f"taps/{axis}"]) for axis in range(rank)],
        "resolution": [round(found[f"resolution/{axis}"]) for axis in range(rank)],
        "channels": [round(found[f"channels/{place}"]) for place in ("input", "middle", "output")],
        "largest": [*block.input.shape[1:-1], block.input.shape[-1]],
    }
