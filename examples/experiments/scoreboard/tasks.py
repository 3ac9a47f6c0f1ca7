"""The eight tasks of the scoreboard: data, backbone, expert, loss and error of each.

Data are those of `examples/datasets`, made smaller; with `small` they are made up and tiny.
"""

import dataclasses
import functools
import os
from collections.abc import Callable

import keras
import numpy as np
from datasets import images, music, pde, permutation, spherical, text, unseen
from keras import ops

import keras_xd
from experiments.scoreboard import networks

VALIDATION_SHARE = 10  # of the training samples of an equation, one of so many validates
WINDOW = 24  # steps of a piece of music that the next one is told from
WORDS = 32  # of a sentence
CHUNK = 200  # samples that are predicted at a time


@dataclasses.dataclass(frozen=True)
class Data:
    """Samples of a task."""

    train: tuple
    validation: tuple
    test: tuple
    classes: int = 1
    vocabulary: int = 0
    decoding: keras.layers.Layer | None = None

    @property
    def shape(self):
        """Shape of one input."""
        return self.train[0].shape[1:]


class NatsPerStep(keras.losses.Loss):
    """Binary cross-entropy summed over the keys, mean over the samples."""

    def call(self, y_true, y_pred):
        return ops.sum(ops.binary_crossentropy(y_true, y_pred, from_logits=True), axis=-1)


def wrong(targets, outputs):
    """Return the share of wrong classes, in percent."""
    return 100 * float(np.mean(outputs.argmax(axis=-1) != targets))


def nats(targets, outputs):
    """Return the cross-entropy of the keys of a step, in nats."""
    outputs = outputs.astype("float64")
    return float(np.mean(np.sum(np.logaddexp(0, outputs) - outputs * targets, axis=-1)))


def relative_l2(targets, outputs):
    """Return the relative L2 error, the mean over the samples, in percent."""
    return 100 * float(keras_xd.losses.RelativeL2()(targets, outputs))


ERRORS = {
    "error, %": (wrong, lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True)),
    "relative L2, %": (relative_l2, keras_xd.losses.RelativeL2),
    "nats per step": (nats, NatsPerStep),
}


@dataclasses.dataclass(frozen=True)
class Task:
    """One task."""

    title: str
    load: Callable
    backbone: Callable
    expert: Callable | None
    expert_name: str
    recipe: str | None
    metric: str
    updates: int
    batch_size: int
    text: str

    def network(self, data, expert=False):
        """Return the backbone, or the expert's network."""
        model = (self.expert if expert else self.backbone)(data)
        if data.decoding is None:
            return model
        return keras.Model(model.input, data.decoding(model.output), name=model.name)

    def error(self, model, part):
        """Return the error of a model on a part of the data."""
        inputs, targets = part
        outputs = [
            model.predict_on_batch(inputs[start : start + CHUNK])
            for start in range(0, len(inputs), CHUNK)
        ]
        return ERRORS[self.metric][0](targets, np.concatenate(outputs))

    def loss(self):
        """Return a new loss."""
        return ERRORS[self.metric][1]()


# Data


def permuted_cifar10(seed, small):
    """Return images of 16 × 16 pixels whose rows and columns are permuted, by the seed."""
    parts = _cifar10(small)
    return Data(*((permutation.permute(x, seed), y) for x, y in parts), classes=10)


@functools.lru_cache(1)
def _cifar10(small):
    if small:
        return _made_up((8, 8, 3), 10)
    parts = images.load("cifar10", os.environ.get("TFDS_DATA_DIR"), 10_000)
    mean, deviation = unseen.CIFAR_MEAN, unseen.CIFAR_DEVIATION
    parts = [((images.block_means(x, 2) - mean) / deviation, y) for x, y in parts]
    return _cut(parts)


@functools.lru_cache(1)
def spherical_digits(seed, small):
    """Return digits on an upright sphere, read at 15 × 15 angles."""
    if small:
        return Data(*_made_up((8, 8, 1), 10), classes=10)
    parts = spherical.load(False, os.environ.get("TFDS_DATA_DIR"), 10_000)
    parts = [(images.block_means(x.astype("float32") / 255, 4), y) for x, y in parts]
    return Data(*_cut(parts), classes=10)


@functools.lru_cache(1)
def addnist(seed, small):
    """Return images of 14 × 14 pixels and the sum of the digits in their three channels."""
    if small:
        return Data(*_made_up((8, 8, 3), 20), classes=20)
    parts = unseen.load("addnist", images_dir=os.environ.get("TFDS_DATA_DIR"), subset=20_000)
    parts = [(images.block_means(x, 2), y) for x, y in parts]
    return Data(*_cut(parts), classes=20)


def permuted_mnist(seed, small):
    """Return sequences of 196 pixels of digits, in an order drawn by the seed."""
    parts, order = _mnist(small), np.random.default_rng(seed)
    order = order.permutation(parts[0][0].shape[1])
    return Data(*((x[:, order], y) for x, y in parts), classes=10)


@functools.lru_cache(1)
def _mnist(small):
    if small:
        return _made_up((36, 1), 10)
    parts = images.load("mnist", os.environ.get("TFDS_DATA_DIR"), 10_000)
    mean, deviation = unseen.MNIST_MEAN, unseen.MNIST_DEVIATION
    parts = [((images.block_means(x, 2) - mean) / deviation, y) for x, y in parts]
    return _cut([(x.reshape(len(x), -1, 1), y) for x, y in parts])


@functools.lru_cache(1)
def burgers(seed, small):
    """Return functions on 128 points and the solutions of Burgers' equation."""
    return Data(*_equation(pde.burgers, *((16, 20, 8) if small else (128, 1000, 200))))


@functools.lru_cache(1)
def darcy(seed, small):
    """Return coefficients on 15 × 15 points and the pressures; normalized at each point."""
    train, validation, test = _equation(pde.darcy, *((8, 20, 8) if small else (15, 1000, 100)))
    encoding = keras_xd.layers.PointNormalization(channels=1)
    encoding.adapt(train[0])
    decoding = keras_xd.layers.PointNormalization(invert=True, trainable=False, name="decoding")
    decoding.adapt(train[1])
    parts = [(ops.convert_to_numpy(encoding(x)), y) for x, y in (train, validation, test)]
    return Data(*parts, decoding=decoding)


def _equation(load, resolution, train, test):
    """Return three parts; the last of the training samples validate."""
    train, test = load(resolution, train=train, test=test)
    border = len(train[0]) - len(train[0]) // VALIDATION_SHARE
    return tuple(x[:border] for x in train), tuple(x[border:] for x in train), test


@functools.lru_cache(1)
def chorales(seed, small):
    """Return windows of the last steps of a piece, and the keys of the next step."""
    pieces = music.synthetic() if small else music.load()
    parts = []
    for part in pieces:
        inputs, targets, _ = music.windows(part, 8 if small else WINDOW)
        parts.append((inputs.astype("float32"), targets[:, 0].astype("float32")))
    return Data(*parts, classes=music.KEYS)


@functools.lru_cache(1)
def sentences(seed, small):
    """Return sentences of SST-2 and their sentiments."""
    if small:
        rng = np.random.default_rng(0)
        labels = [rng.integers(2, size=number) for number in (24, 12, 12)]
        parts = [((rng.integers(9, size=(len(y), 12)) + 9 * y[:, None]), y) for y in labels]
        return Data(*((x.astype("int32"), y) for x, y in parts), classes=2, vocabulary=18)
    found = text.load("sst2")
    parts = [(x[:, :WORDS], y) for x, y in (found.train, found.validation, found.test)]
    return Data(*parts, classes=found.classes, vocabulary=len(found.words))


def _cut(parts, validation=1000, test=5000):
    """Return the parts with at most so many samples for validation and testing."""
    sizes = (None, validation, test)
    return [
        (x[:size].astype("float32"), y[:size]) for (x, y), size in zip(parts, sizes, strict=True)
    ]


def _made_up(shape, classes, sizes=(24, 12, 12)):
    """Return tiny parts: each class has a pattern of its own, to which noise is added."""
    rng = np.random.default_rng(0)
    patterns, parts = rng.normal(size=(classes, *shape)), []
    for size in sizes:
        labels = rng.integers(classes, size=size)
        noise = rng.normal(size=(size, *shape))
        parts.append(((patterns[labels] + noise).astype("float32"), labels))
    return parts


WIDE, TCN, FNO = "wide residual network", "dilated TCN", "Fourier neural operator"
WRONG, FIELD, NATS = ERRORS
# fmt: off
TASKS = {
    "cifar10": Task(
        "CIFAR-10, permuted", permuted_cifar10, networks.image, networks.wide_resnet, WIDE,
        "unordered", WRONG, 400, 64,
        "means of 2 × 2 pixels, rows and columns permuted by the seed; LeNet",
    ),
    "spherical": Task(
        "spherical digits", spherical_digits, networks.image, networks.wide_resnet, WIDE,
        "images", WRONG, 300, 64,
        "MNIST on an upright sphere, means of 4 × 4 pixels; LeNet",
    ),
    "addnist": Task(
        "AddNIST", addnist, networks.image, networks.wide_resnet, WIDE,
        "images", WRONG, 1500, 32,
        "made by the recipe of the Unseen NAS data, means of 2 × 2 pixels; LeNet",
    ),
    "burgers": Task(
        "Burgers", burgers, networks.field, networks.fourier, FNO,
        "fields", FIELD, 400, 20,
        "relative L2; the Fourier neural operator's network with convolutions",
    ),
    "darcy": Task(
        "Darcy flow", darcy, networks.field, networks.fourier, FNO,
        "fields", FIELD, 300, 20,
        "relative L2; the Fourier neural operator's network with convolutions",
    ),
    "chorales": Task(
        "JSB chorales", chorales, networks.music, networks.music_tcn, TCN,
        "sequences", NATS, 300, 64,
        "the keys of the next step from the last 24; TCN without dilation",
    ),
    "mnist": Task(
        "MNIST, permuted pixels", permuted_mnist, networks.sequence, networks.sequence_tcn, TCN,
        "unordered", WRONG, 400, 64,
        "means of 2 × 2 pixels as one sequence, its order drawn by the seed; LeNet in 1-D",
    ),
    "sentences": Task(
        "sentences, SST-2", sentences, networks.sentence, None, "",
        None, WRONG, 300, 50,
        "the first 32 words of a sentence; Kim's network, which is the expert's too",
    ),
}
# fmt: on
