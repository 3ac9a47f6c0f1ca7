"""Time, memory and nodes of the graph of the first step of a search of cells, and of later steps.

    python benchmarks/nos.py [--sizes 3,8,64 8,16,16] [--edge-layers 3,8,64] [--xla 3,8,64]
        [--relaxations 3,8,64] [--darts ../darts/cnn --darts-sizes 3,8,64] [--dry-run]

A search network of as many cells and channels of the first cell, for 32×32 images and with all
eleven operations, takes first-order steps: one pass for the architecture and one for the weights,
each with a batch of the given size. Every size is measured in a process of its own, bound to one
core. With `--edge-layers` the same is measured for cells that have a layer for each operation on
each edge, as version 0.1 had them, and with `--xla` for a step that XLA compiles; both take
minutes. The graph's nodes are those of one step,
and of the functions that it calls, each counted once. A second table has ordinary training steps,
one pass for weights and architecture together, by each relaxation, and those of derived networks,
averaged over random genotypes; below it is what a selection by perturbation takes: evaluations on
held-out images, one for each operation of each edge of both kinds of cells and one more, of which a
few are measured. With `--darts`, the folder of model_search.py in a checkout of
quark0/darts, and torch in the same environment, its search network takes the same first-order
steps: eight operations, cells of 14 edges and no second tier, as it stands, but for tensors that
stay on the CPU. The tables are written to benchmarks/nos.md, or nowhere with `--dry-run`.

The floor of a step: its multiply–adds, those of all operations in two passes, each of which goes
forward once and backward once, which takes twice as many; and its bytes. Of the latter are counted
the features that the separable and the dilated operations of an edge cannot do without: eight of
the size of the edge's outputs, and their weighted sum, 4 bytes an entry, written and read on the
way forward, read once more on the way back, and their gradients written and read. The seconds of
the floor are those of as many multiply–adds in a matrix product, and of as many bytes in a copy,
measured in the same process after the steps.
"""

import json
import os
import pathlib
import resource
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import timing

LATER_STEPS = 3
# What is drawn differs from step to step, and so do random genotypes.
DRAWN_STEPS, GENOTYPES = 20, 5
DERIVED = "derived network"
PERTURBATION = "perturbation"
HELD_OUT, EVALUATIONS = 256, 5
DARTS = "PyTorch"
# Kinds of `measure`, and what the table calls them.
XLA = "XLA"
KINDS = {False: "all edges", True: "each operation", XLA: "all edges, compiled by XLA"}
STEP_FORMS = {
    **{"variables": ".0f", "nodes": ",", "nodes in functions": ",", "build and trace": ".0f"},
    **{"first step": ".0f", "later step": ".1f", "memory": ".1f"},
    **{"multiply-adds": ".1f", "bytes": ".1f"},
}
FORMED, MOVES, BYTES, PASSES = 9, 5, 4, 2
# Of the matrix product and of the copy that tell the rates of a core, and how often they are done.
ROWS, COPIED, REPEATED = 1536, 2**27, 5
# Of each cell: blocks, whose outputs are its channels, and edges of the first tier.
BLOCKS, FIRST_TIER = 4, 14
SHAPE, CLASSES = (32, 32, 3), 10


def processor_seconds():
    """Return the seconds of the processor that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def gibibytes():
    """Return the largest memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def with_edge_layers(model):
    """Return a search network with a layer for each operation on each edge."""
    import keras

    import keras_xd

    shared = {}

    def clone(layer):
        if not isinstance(layer, keras_xd.layers.HeterogeneousCell):
            return layer.__class__.from_config(layer.get_config())
        config = {**layer.get_config(), "edge_layers": True}
        config["weights"] = shared.setdefault(
            layer.reduction,
            layer.architecture.__class__.from_config(layer.architecture.get_config()),
        )
        return layer.__class__(**config)

    return keras.models.clone_model(model, clone_function=clone)


def measure(cells, channels, batch_size, kind, shape=SHAPE):
    """Return what is measured of a size and one of `KINDS`, a dictionary."""
    import keras
    import numpy as np
    import tensorflow as tf

    import keras_xd

    start = processor_seconds()
    model = keras_xd.models.nos_search_network(cells, channels, shape, CLASSES)
    if kind is True:
        model = with_edge_layers(model)
    floor = {
        # Shares are equal, so what is expected is the mean over the operations.
        "multiply-adds": 3 * PASSES * batch_size * 11 * float(keras_xd.complexity(model)),
        "bytes": PASSES * batch_size * FORMED * MOVES * BYTES * _entries(model),
    }
    search = keras_xd.SearchModel(model)
    search.compile(
        keras.optimizers.SGD(0.025, momentum=0.9, global_clipnorm=5.0),
        keras.optimizers.Adam(6e-4, beta_1=0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        mode="first_order",
        jit_compile=False,
    )
    rng = np.random.default_rng(0)
    # Every other sample is one of the architecture.
    images = rng.normal(size=(2 * batch_size, *shape)).astype("float32")
    data = tf.constant(images), tf.constant(rng.integers(CLASSES, size=2 * batch_size))
    step = tf.function(
        lambda x, y: search.train_step((x, y)), autograph=False, jit_compile=kind == XLA
    )
    graph = step.get_concrete_function(*data).graph.as_graph_def()
    traced = processor_seconds()
    step(*data)
    first = processor_seconds()
    found = {
        "build and trace": traced - start,
        "first step": first - start,
        "nodes": len(graph.node),
        "nodes in functions": sum(len(f.node_def) for f in graph.library.function),
        "variables": len(model.weights),
    }
    for _ in range(LATER_STEPS):
        step(*data)
    found["later step"] = (processor_seconds() - first) / LATER_STEPS
    return {**found, **floor, "memory": gibibytes(), **rates()}


def rates():
    """Return the multiply–adds a second of a matrix product, and the bytes of a copy."""
    import numpy as np
    import tensorflow as tf

    matrix = tf.random.normal((ROWS, ROWS))
    source = np.ones(COPIED, "uint8")
    target = np.zeros_like(source)

    def seconds(function):
        function()
        start = processor_seconds()
        for _ in range(REPEATED):
            function()
        return (processor_seconds() - start) / REPEATED

    return {
        "multiply-adds a second": ROWS**3 / seconds(lambda: tf.matmul(matrix, matrix)),
        "bytes a second": 2 * COPIED / seconds(lambda: np.copyto(target, source)),
    }


def floor_line(size, found):
    """Return the sentence on how far a step is from its floor."""
    least = [found[name] / found[f"{name} a second"] for name in ("multiply-adds", "bytes")]
    return (
        f"The floor of a step of {size[0]} cells and {size[1]} channels, batch {size[2]}: "
        f"{least[0]:.2f} s by its multiply–adds at the rate of a matrix product "
        f"({found['multiply-adds a second'] / 1e9:.0f} · 10⁹ a second), {least[1]:.2f} s by its "
        f"bytes at that of a copy ({found['bytes a second'] / 1e9:.1f} GB a second). A step takes "
        f"{found['later step'] / max(least):.1f} times the larger, "
        f"{found['later step'] / sum(least):.1f} times the sum."
    )


def _entries(model):
    """Return the entries of the outputs of all first-tier edges of a network, of one image."""
    import keras_xd

    total = 0
    for layer in model.layers:
        if isinstance(layer, keras_xd.layers.HeterogeneousCell):
            _, *sizes, channels = layer.output.shape
            total += FIRST_TIER * sizes[0] * sizes[1] * channels // BLOCKS
    return total


def measure_darts(cells, channels, batch_size, kind):
    """Return what is measured of the search network of a checkout of quark0/darts."""
    _, folder = kind
    sys.path.insert(0, folder)
    start = processor_seconds()
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
    first = processor_seconds()
    for _ in range(LATER_STEPS):
        step()
    later = (processor_seconds() - first) / LATER_STEPS
    return {"first step": first - start, "later step": later, "memory": gibibytes()}


def measure_relaxation(cells, channels, batch_size, relaxation, shape=SHAPE):
    """Return what is measured of training steps by a relaxation, or of derived networks."""
    import keras
    import numpy as np
    import tensorflow as tf

    import keras_xd
    from keras_xd.layers.cells.relaxation import PATHS

    rng = np.random.default_rng(0)
    images = tf.constant(rng.normal(size=(batch_size, *shape)).astype("float32"))
    labels = tf.constant(rng.integers(CLASSES, size=batch_size))
    size, firsts, later = (cells, channels, shape, CLASSES), [], []
    for _ in range(GENOTYPES if relaxation == DERIVED else 1):
        start = processor_seconds()
        if relaxation == DERIVED:
            genotype = keras_xd.genotypes.random_genotype(rng)
            model = keras_xd.models.nos_network(genotype, *size, auxiliary=False, drop_path=0.0)
        else:
            model = keras_xd.models.nos_search_network(*size, seed=1, relaxation=relaxation)
        model.compile(
            keras.optimizers.SGD(0.025, momentum=0.9, global_clipnorm=5.0),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=False,
        )
        step = tf.function(lambda x, y, model=model: model.train_step((x, y)), autograph=False)
        step(images, labels)
        firsts.append(processor_seconds() - start)
        for _ in range(DRAWN_STEPS if relaxation in PATHS else LATER_STEPS):
            start = processor_seconds()
            step(images, labels)
            later.append(processor_seconds() - start)
    memory = gibibytes()
    selection = measure_selection(model, batch_size, shape) if relaxation == PERTURBATION else {}
    mean, error = np.mean(later), np.std(later) / len(later) ** 0.5
    found = {"first step": np.mean(firsts), "later step": mean, "error": error}
    return {**{name: float(value) for name, value in found.items()}, "memory": memory, **selection}


def measure_selection(model, batch_size, shape):
    """Return what a selection by perturbation takes: evaluations, and the seconds of one."""
    import numpy as np

    rng = np.random.default_rng(1)
    images = rng.normal(size=(HELD_OUT, *shape)).astype("float32")
    labels = rng.integers(CLASSES, size=HELD_OUT)
    logits = [v for v in model.trainable_variables if v.name == "logits"]
    # The first one traces the function.
    for number in range(EVALUATIONS + 1):
        if number == 1:
            start = processor_seconds()
        model.evaluate(images, labels, batch_size=batch_size, verbose=0)
    return {
        "evaluations": 1 + sum(int(np.prod(v.shape)) for v in logits),
        "evaluation": (processor_seconds() - start) / EVALUATIONS,
    }


def selection_line(size, found):
    """Return the sentence on what a selection by perturbation takes."""
    count, seconds = found["evaluations"], found["evaluation"]
    return (
        f"One selection by perturbation, {size[0]} cells, {size[1]} channels: {count} evaluations "
        f"of {HELD_OUT} held-out images in batches of {size[2]}, {seconds:.2f} s each, "
        f"{count * seconds:,.0f} s of the processor in all; {EVALUATIONS} of them were measured."
    )


def relaxation_table(sizes):
    """Return the lines of the table of relaxations."""
    from keras_xd.layers.cells.relaxation import RELAXATIONS

    lines = [
        "",
        "Training steps of one pass, after which gradients move weights and architecture. The last "
        f"column is the standard error over the steps; derived networks are {GENOTYPES} of random "
        "genotypes.",
        "",
        *timing.head(
            *("cells", "channels", "batch", "relaxation", "first step, s", "later step, s"),
            *("of a derived network's", "memory, GiB", "± s"),
        ),
    ]
    selections = []
    for text in sizes:
        size, derived = [int(number) for number in text.split(",")], None
        for kind in (DERIVED, *RELAXATIONS):
            found = timing.apart(__file__, [*size, kind])
            later = found["later step"]
            derived = derived or later
            cells = [*size, kind, f"{found['first step']:.0f}", f"{later:.2f}"]
            cells += [f"{later / derived:.2f}", f"{found['memory']:.1f}", f"{found['error']:.2f}"]
            lines.append(timing.row(*cells))
            if kind == PERTURBATION:
                selections += ["", selection_line(size, found)]
    print(*selections, sep="\n", flush=True)
    return lines + selections


def measured(cells, channels, batch_size, kind):
    """Return what is measured of one kind of step, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    function = measure_relaxation
    if isinstance(kind, list):
        function = measure_darts
    elif kind in KINDS:
        function = measure
    return function(cells, channels, batch_size, kind)


def step_cells(size, name, found):
    """Return the cells of a row of the table of steps; what was not measured is a dash."""
    cells = [*size, name]
    for key, form in STEP_FORMS.items():
        scale = 1e9 if key in ("multiply-adds", "bytes") else 1
        cells.append(f"{found[key] / scale:{form}}" if key in found else "–")
    return cells


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    form = {"nargs": "*", "metavar": "CELLS,CHANNELS,BATCH"}
    parser.add_argument("--sizes", default=["3,8,64", "8,16,16"], **form)
    parser.add_argument("--edge-layers", default=[], **form)
    parser.add_argument("--xla", default=[], **form)
    parser.add_argument("--relaxations", default=["3,8,64"], **form)
    parser.add_argument("--darts", help="folder of model_search.py of quark0/darts")
    parser.add_argument("--darts-sizes", default=["3,8,64"], **form)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measured(*options.measure)))
        return None
    shown = sys.argv[1:] if arguments is None else arguments
    command = " ".join(["python benchmarks/nos.py", *(w for w in shown if w != "--dry-run")])
    lines = [
        "# Steps of a search of cells",
        "",
        f"Written by `{command}`; {timing.versions()}, one core, float32, 32×32, eleven "
        "operations, first order, without XLA but where it is named. Seconds of the processor; "
        "the first step is that with building and tracing the model.",
        "",
        *timing.head(
            *("cells", "channels", "batch", "weights of", "variables", "nodes", "in functions"),
            *("build and trace, s", "first step, s", "later step, s", "memory, GiB"),
            *("multiply–adds, 10⁹", "least GB moved"),
        ),
    ]
    floors = []
    given = (options.sizes, options.edge_layers, options.xla)
    runs = [(size, kind) for kind, sizes in zip(KINDS, given, strict=True) for size in sizes]
    if options.darts:
        runs += [(size, [DARTS, options.darts]) for size in options.darts_sizes]
    for text, kind in runs:
        size = [int(number) for number in text.split(",")]
        found = timing.apart(__file__, [*size, kind])
        peer = isinstance(kind, list)
        name = f"{DARTS}: DARTS, eight operations" if peer else KINDS[kind]
        lines.append(timing.row(*step_cells(size, name, found)))
        if not kind:
            floors += ["", floor_line(size, found)]
    lines += floors
    lines += relaxation_table(options.relaxations) if options.relaxations else []
    return timing.write(options, lines)


if __name__ == "__main__":
    main()
