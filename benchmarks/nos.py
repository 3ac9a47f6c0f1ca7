"""Time and memory of the first step of a search of cells, and of later steps.

    python benchmarks/nos.py [--sizes 3,8,64 8,16,16] [--relaxations 3,8,64]
        [--darts ../darts/cnn --darts-sizes 3,8,64] [--dry-run]

A search network of as many cells and channels of the first cell, for 32×32 images and with all
eleven operations, takes first-order steps: one pass for the architecture and one for the weights,
each with a batch of the given size, in a process bound to one core. A second table has ordinary
training steps, one pass for weights and architecture together, by each relaxation, and those of
derived networks, averaged over random genotypes. With `--darts`, the folder of model_search.py in a
checkout of quark0/darts, its search network in torch takes the same first-order steps.
"""

import json
import os
import pathlib
import resource
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
import tensorflow as tf
import timing

import keras_xd
from keras_xd.layers.cells.relaxation import PATHS, RELAXATIONS

LATER_STEPS = 3
# What is drawn differs from step to step, and so do random genotypes.
DRAWN_STEPS, GENOTYPES = 20, 5
SEARCH, DERIVED = "search", "derived network"
DARTS = "PyTorch: DARTS, eight operations"
SHAPE, CLASSES = (32, 32, 3), 10


def gibibytes():
    """Return the largest memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def mean_seconds(step, count):
    """Return the mean seconds of the processor of a step."""
    start = time.process_time()
    for _ in range(count):
        step()
    return (time.process_time() - start) / count


def compiled(model, *optimizers, **options):
    """Return a network or a search, compiled as in the paper's search."""
    weights = keras.optimizers.SGD(0.025, momentum=0.9, global_clipnorm=5.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(weights, *optimizers, loss, jit_compile=False, **options)
    return model


def samples(number, shape):
    """Return random images and classes as tensors."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(number, *shape)).astype("float32")
    return tf.constant(images), tf.constant(rng.integers(CLASSES, size=number))


def measure(cells, channels, batch_size, shape=SHAPE):
    """Return what is measured of first-order steps, a dictionary."""
    start = time.process_time()
    model = keras_xd.models.nos_search_network(cells, channels, shape, CLASSES)
    found = {"variables": len(model.weights)}
    adam = keras.optimizers.Adam(6e-4, beta_1=0.5)
    search = compiled(keras_xd.SearchModel(model), adam, mode="first_order")
    data = samples(2 * batch_size, shape)  # every other sample is one of the architecture
    step = tf.function(lambda x, y: search.train_step((x, y)), autograph=False)
    graph = step.get_concrete_function(*data).graph.as_graph_def()
    found["nodes"] = len(graph.node)
    found["nodes in functions"] = sum(len(f.node_def) for f in graph.library.function)
    found["build and trace"] = time.process_time() - start
    step(*data)
    found["first step"] = time.process_time() - start
    found["later step"] = mean_seconds(lambda: step(*data), LATER_STEPS)
    return {**found, "memory": gibibytes()}


def measure_darts(cells, channels, batch_size, folder):
    """Return what is measured of the search network of a checkout of quark0/darts."""
    sys.path.insert(0, folder)
    start = time.process_time()
    import torch

    torch.set_num_threads(1)
    torch.Tensor.cuda = lambda tensor, *_: tensor
    import model_search

    criterion = torch.nn.CrossEntropyLoss()
    model = model_search.Network(channels, CLASSES, cells, criterion)
    weights = torch.optim.SGD(model.parameters(), 0.025, momentum=0.9, weight_decay=3e-4)
    architecture = torch.optim.Adam(model.arch_parameters(), lr=6e-4, betas=(0.5, 0.999))
    images = torch.randn(2, batch_size, 3, *SHAPE[:2])
    labels = torch.randint(CLASSES, (2, batch_size))

    def step():
        for optimizer, x, y in zip((architecture, weights), images, labels, strict=True):
            architecture.zero_grad()
            weights.zero_grad()
            model._loss(x, y).backward()
            if optimizer is weights:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()

    step()
    first = time.process_time() - start
    later = mean_seconds(step, LATER_STEPS)
    return {"first step": first, "later step": later, "memory": gibibytes()}


def measure_relaxation(cells, channels, batch_size, relaxation, shape=SHAPE):
    """Return what is measured of training steps by a relaxation, or of derived networks."""
    rng, data = np.random.default_rng(0), samples(batch_size, shape)
    size, firsts, later = (cells, channels, shape, CLASSES), [], []
    for _ in range(GENOTYPES if relaxation == DERIVED else 1):
        start = time.process_time()
        if relaxation == DERIVED:
            genotype = keras_xd.genotypes.random_genotype(rng)
            model = keras_xd.models.nos_network(genotype, *size, auxiliary=False, drop_path=0.0)
        else:
            model = keras_xd.models.nos_search_network(*size, seed=1, relaxation=relaxation)
        compiled(model)
        step = tf.function(lambda x, y, model=model: model.train_step((x, y)), autograph=False)
        step(*data)
        firsts.append(time.process_time() - start)
        for _ in range(DRAWN_STEPS if relaxation in PATHS else LATER_STEPS):
            later.append(mean_seconds(lambda step=step: step(*data), 1))
    found = {"first step": np.mean(firsts), "later step": np.mean(later)}
    found |= {"error": np.std(later) / len(later) ** 0.5, "memory": gibibytes()}
    return {name: float(value) for name, value in found.items()}


def table_of_steps(options):
    """Return the lines of the table of first-order steps."""
    head = ["cells", "channels", "batch", "weights of", "variables", "nodes", "in functions"]
    lines = timing.head(*head, "build and trace, s", "first step, s", "later step, s", "GiB")
    runs = [(size, SEARCH) for size in options.sizes]
    runs += [(size, options.darts) for size in options.darts_sizes if options.darts]
    for text, kind in runs:
        size = [int(number) for number in text.split(",")]
        found = timing.apart(__file__, [*size, kind])
        cells = [*size, "all edges" if kind == SEARCH else DARTS]
        cells += [found.get(name, "–") for name in ("variables", "nodes", "nodes in functions")]
        cells.append(f"{found['build and trace']:.0f}" if kind == SEARCH else "–")
        cells += [f"{found['first step']:.0f}", f"{found['later step']:.1f}"]
        lines.append(timing.row(*cells, f"{found['memory']:.1f}"))
    return lines


def table_of_relaxations(sizes):
    """Return the lines of the table of relaxations."""
    head = ["cells", "channels", "batch", "relaxation", "first step, s", "later step, s"]
    lines = timing.head(*head, "of a derived network's", "memory, GiB", "± s")
    for text in sizes:
        size, derived = [int(number) for number in text.split(",")], None
        for kind in (DERIVED, *RELAXATIONS):
            found = timing.apart(__file__, [*size, kind])
            later = found["later step"]
            derived = derived or later
            cells = [*size, kind, f"{found['first step']:.0f}", f"{later:.2f}"]
            cells += [f"{later / derived:.2f}", f"{found['memory']:.1f}", f"{found['error']:.2f}"]
            lines.append(timing.row(*cells))
    return lines


def measured(*size, kind):
    """Return what is measured of one kind of step, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if kind == SEARCH:
        return measure(*size)
    if kind in (DERIVED, *RELAXATIONS):
        return measure_relaxation(*size, kind)
    return measure_darts(*size, kind)


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    form = {"nargs": "*", "metavar": "CELLS,CHANNELS,BATCH"}
    parser.add_argument("--sizes", default=["3,8,64", "8,16,16"], **form)
    parser.add_argument("--relaxations", default=["3,8,64"], **form)
    parser.add_argument("--darts", help="folder of model_search.py of quark0/darts")
    parser.add_argument("--darts-sizes", default=["3,8,64"], **form)
    options = parser.parse_args(arguments)
    if options.measure:
        *size, kind = options.measure
        print(json.dumps(measured(*size, kind=kind)))
        return None
    peer = " --darts …" if options.darts else ""
    lines = timing.page(
        "Steps of a search of cells",
        f"Written by `python benchmarks/nos.py{peer}`; {timing.versions()}, one core, float32, "
        "32×32, eleven operations, first order, without XLA. Seconds of the processor; the first "
        "step is that with building and tracing the model.",
        table_of_steps(options),
        "Training steps of one pass, after which gradients move weights and architecture. The last "
        f"column is the standard error over the steps; derived networks are {GENOTYPES} of random "
        "genotypes.",
        table_of_relaxations(options.relaxations),
    )
    return timing.write(options, lines)


if __name__ == "__main__":
    main()
