"""Real tasks whose networks are trained in a few seconds on one core, for real_searches.py.

`cells`: a cell of NAS-Bench-201 on CIFAR-10 of 16 × 16 pixels. `hierarchical`: a whole network,
from its macro topology to the parts of its convolutions, on AddNIST of 14 × 14 pixels. A network is
trained once, from a seed that follows from it, for 18 seconds of the processor at most, by Adam
whose rate falls to zero, and its validation loss or error is kept in a file.
"""

import dataclasses
import hashlib
import json
import math
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import keras_tuner as kt
import numpy as np
import tensorflow as tf
import timing
from datasets import images, unseen
from reporting import plural

from keras_xd import grammar
from keras_xd.grammar import primitives, spaces

OPERATIONS = ("id", "zero", "conv3x3", "conv1x1", "avg_pool")
DIRECT = 3  # the edge of a cell from its input to its output
# Hierarchical NAS-Bench-201 with the levels it has, but fewer and smaller cells: its networks of 26
# cells take 5 seconds of one core to trace, and 0.17 to train on a batch.
SMALL_HIERARCHICAL = grammar.Grammar(
    """
    D2 -> Linear3 D1 D1 D0 | Linear3 D0 D1 D1 | Linear3 D1 D0 D1
    D1 -> Linear1 DOWN | Linear2 CELL DOWN | Residual2 CELL DOWN DOWN
    D0 -> Linear1 CELL | Linear2 CELL CELL | Residual2 CELL CELL CELL
    DOWN -> Linear1 resBlock | Linear2 CELL resBlock
    CELL -> Linear2 OPS OPS | Residual2 OPS OPS OPS | Diamond2 OPS OPS OPS OPS
    OPS -> id | zero | Linear1 CONVBLOCK [2] | avg_pool
    CONVBLOCK -> Linear3 ACT CONV NORM
    ACT -> relu | hardswish | mish
    CONV -> conv3x3o | conv1x1o | dconv3x3o
    NORM -> batch | instance | layer
    """,
    constraints=[grammar.Connected()],
)
BETAS, EPSILON = (0.9, 0.999), 1e-7


@dataclasses.dataclass(frozen=True)
class Task:
    """One search: a grammar, and how a network is trained."""

    space: grammar.Grammar
    dataset: str
    shape: tuple[int, int, int]
    training: int
    validation: int
    epochs: int
    batch: int = 64
    rate: float = 1e-2
    seconds: float = 0.0  # of the processor, that every search uses at least
    test: int = 0  # images; a task that has some is scored by its error, not by its loss

    def words(self):
        """Return what a page says of the task."""
        test = f", {self.test} to test" if self.test else ""
        terms = f"{self.space.count(constrained=True):.2g} terms; " if self.test else ""
        return (
            f"{terms}{self.training} images for training, {self.validation} to score{test}; "
            f"{plural(self.epochs, 'epoch')} of Adam, batches of {self.batch}, rate {self.rate:g}"
        )


# The seconds of a search are about those of 30 trials that Bayesian search chooses.
TASKS = {
    "cells": Task(
        spaces.nas_bench_201_cell(), "cifar10", (16, 16, 3), 2048, 2000, 5, seconds=105.0
    ),
    "hierarchical": Task(
        SMALL_HIERARCHICAL,
        "addnist",
        (14, 14, 3),
        6144,
        2000,
        1,
        batch=32,
        test=4000,
    ),
}

CHANCE = math.log(10)
BATCH = 64  # of which a call is timed
SECONDS = 18.0  # of the processor, to build, trace and train a network


def cell_text(operations):
    """Return the text of a cell of NAS-Bench-201."""
    return f"(CELL Cell {' '.join(f'(OPS {name})' for name in operations)})"


def _residual_network():
    """ResNet of this size: three blocks of two convolutions, and two that halve the image."""
    convolution = "(OPS Linear1 (CONVBLOCK Linear3 (ACT relu) (CONV conv3x3o) (NORM batch)))"
    block = f"(CELL Residual2 {convolution} (OPS id) {convolution})"
    halved = f"(D1 Linear2 {block} (DOWN Linear1 resBlock))"
    return f"(D2 Linear3 {halved} {halved} (D0 Linear1 {block}))"


# By hand: the block of ResNet, a ResNet.
BY_HAND = {
    "cells": {"term": cell_text(["conv3x3", "zero", "zero", "id", "conv3x3", "zero"])},
    "hierarchical": {"term": _residual_network()},
}


def data(name, data_dir, *counts):
    """Return images and labels of so many samples of each part, one after the other, as tensors."""
    subset = max(counts)
    if name == "addnist":
        parts = unseen.load(name, images_dir=data_dir, subset=subset)
    else:
        parts = images.load(name, data_dir, subset)
    parts = [(images.block_means(x, 2), y) for x, y in parts]
    mean, deviation = parts[0][0].mean(), parts[0][0].std()
    found = []
    for (inputs, labels), count in zip(parts, counts, strict=False):
        found.append(tf.constant((inputs[:count] - mean) / deviation, tf.float32))
        found.append(tf.constant(labels[:count], tf.int32))
    return tuple(found)


def network(name, term, shape):
    """Return the model of a term, for images of this shape."""
    table = primitives.nas_bench_201()
    head = primitives.head(unseen.CLASSES["addnist"] if name == "hierarchical" else 10)
    return grammar.build(term, keras.Input(shape), table, stem=halving_stem, head=head)


def halving_stem(inputs):
    """Stem of cells and of whole networks: a convolution of stride 2 and batch normalization."""
    convolution = keras.layers.Conv2D(
        8, 3, 2, padding="same", use_bias=False, name="stem_convolution"
    )
    normalization = keras.layers.BatchNormalization(momentum=0.9, name="stem_normalization")
    return normalization(convolution(inputs))


def identity(task, values):
    """Return the text by which the score of values is kept: the same for the same network."""
    term = task.space.parse(values["term"])
    try:
        return grammar.graphs.network_digest(term)
    except ValueError:  # a term that is no graph
        return hashlib.sha256(str(term).encode()).hexdigest()[:16]


def trained(name, task, values, tensors):
    """Train the network of these values; return its error and loss on other images.

    The error is 1 if it diverged. A task that has test images is scored by the error alone.
    """
    started = time.process_time()
    x, y, other_x, other_y = tensors
    seed = int(hashlib.sha256(identity(task, values).encode()).hexdigest()[:7], 16)
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = network(name, task.space.parse(values["term"]), tuple(x.shape[1:]))
    rng = np.random.default_rng(seed)
    order = [rng.permutation(task.training) for _ in range(task.epochs)]
    order = np.concatenate(order).reshape(-1, task.batch).astype("int32")
    train = compiled_loop(model, x, y, task.rate, len(order))
    train(tf.constant(order), tf.constant(started + SECONDS, tf.float64))
    logits = [
        model(other_x[start : start + 1000], training=False).numpy()
        for start in range(0, len(other_x), 1000)
    ]
    logits, labels = np.concatenate(logits), other_y.numpy()
    finite = np.isfinite(logits).all()
    error = round(float(np.mean(logits.argmax(-1) != labels)), 5) if finite else 1.0
    if task.test:
        return {"error": error}
    loss = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return {"error": error, "loss": round(float(np.mean(loss)), 5) if finite else None}


def objective(row):
    """Return what a search minimises: the error, or the loss, that of guessing at most."""
    if "loss" not in row:
        return row["error"]
    return CHANCE if row["loss"] is None else min(row["loss"], CHANCE)


def size(name, task, values, other):
    """Return the parameters of a network, and milliseconds of its calls and of another one's."""
    keras.utils.clear_session()
    models = [network(name, task.space.parse(v["term"]), task.shape) for v in (values, other)]
    times = timing.milliseconds(models, task.shape, (BATCH,))[str(BATCH)]
    return {"parameters": models[0].count_params(), "milliseconds": times}


def compiled_loop(model, x, y, rate, steps):
    """Return the function that trains a model on rows of indices, until a time of the processor.

    It is traced already: one graph, not one a step.

    Adam is TensorFlow's own operation, one a variable. That of Keras is a dozen a variable, which
    would take as long to trace as the network.
    """
    variables = [variable.value for variable in model.trainable_variables]
    means, squares = ([tf.Variable(tf.zeros_like(v)) for v in variables] for _ in range(2))

    def step(number, order):
        chosen, done = order[number], tf.cast(number, tf.float32)
        with tf.GradientTape() as tape:
            logits = model(tf.gather(x, chosen), training=True)
            labels = tf.gather(y, chosen)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, variables)
        common = {
            "beta1_power": BETAS[0] ** (done + 1),
            "beta2_power": BETAS[1] ** (done + 1),
            "lr": rate * (1 - done / steps),
            "beta1": BETAS[0],
            "beta2": BETAS[1],
            "epsilon": EPSILON,
        }
        for variable, mean, square, gradient in zip(
            variables, means, squares, gradients, strict=True
        ):
            if gradient is not None:
                handles = {"var": variable.handle, "m": mean.handle, "v": square.handle}
                tf.raw_ops.ResourceApplyAdam(**handles, **common, grad=gradient)
        return number + 1, order

    signature = [tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((), tf.float64)]

    @tf.function(input_signature=signature, autograph=False)
    def train(order, end):
        def unfinished(number, order):
            now = tf.numpy_function(time.process_time, [], tf.float64)
            return (number < steps) & (now < end)

        tf.while_loop(unfinished, step, (0, order))

    return train.get_concrete_function()


class Scores:
    """Trains what was not trained before, and keeps it: a line of JSON for each network."""

    def __init__(self, path, data_dir=None, tasks=None):
        self.path, self.data_dir, self.tasks = pathlib.Path(path), data_dir, tasks or TASKS
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        rows = map(json.loads, lines)
        self.rows = {(row["task"], row["network"]): row for row in rows}
        self._data = {}

    def __call__(self, name, values):
        """Return the row of these values: network, term, error, loss, seconds of the processor."""
        task = self.tasks[name]
        key = name, identity(task, values)
        if key not in self.rows:
            tensors = self._tensors(name)
            started = time.process_time()
            found = trained(name, task, values, tensors[:4])
            seconds = round(time.process_time() - started, 2)
            row = {"task": name, "network": key[1], **values, **found, "seconds": seconds}
            self._keep(key, row)
        return self.rows[key]

    def _tensors(self, name):
        """The images and labels of a task, loaded once."""
        if name not in self._data:
            task = self.tasks[name]
            counts = (task.training, task.validation, task.test)
            self._data[name] = data(task.dataset, self.data_dir, *filter(None, counts))
        return self._data[name]

    def _keep(self, key, row):
        self.rows[key] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def by_hand(self, name):
        """Return the row of the network by hand."""
        row = self(name, BY_HAND[name])
        return self.measured(name, row["network"], row)

    def measured(self, name, network, other):
        """Return the row of a network with its size, and its times beside those of another one.

        Where there are test images, it is trained again, from the same seed, for its test error.
        """
        row, task = self.rows[name, network], self.tasks[name]
        if "milliseconds" not in row:
            row = {**row, **size(name, task, row, other)}
            if task.test:
                tensors = self._tensors(name)
                again = trained(name, task, row, (*tensors[:2], *tensors[4:]))
                row["test_error"] = again["error"]
            self._keep((name, network), row)
        return self.rows[name, network]


def hyperparameters():
    """Return KerasTuner's hyperparameters of a cell: a choice an edge."""
    found = kt.HyperParameters()
    for edge in range(6):
        found.Choice(f"edge{edge}", OPERATIONS)
    return found


def decoded(task, given):
    """Return the values, a term, of KerasTuner's hyperparameters of a cell.

    A cell that does not connect gets the identity from its input to its output.
    """
    operations = [given[f"edge{edge}"] for edge in range(6)]
    term = task.space.parse(cell_text(operations))
    try:
        task.space.check(term)
    except ValueError:
        operations[DIRECT] = "id"
        term = task.space.parse(cell_text(operations))
    return {"term": str(term)}


def given(values):
    """Return KerasTuner's hyperparameters for the values of a cell."""
    edges = grammar.parse(values["term"]).arguments
    return {f"edge{number}": edge.operator for number, edge in enumerate(edges)}
