"""Compare LeNet, ResNet-20 or a wide ResNet, their XD search and baselines on CIFAR-10.

    python examples/experiments/xd/cifar10.py --output small
    python examples/experiments/xd/cifar10.py --kinds permuted plain --epochs 6 --subset 50000 \\
        --methods backbone xd linear k_layer --seeds 0 1 2
    python examples/experiments/xd/cifar10.py --backbone wide_resnet --paper --output paper

Two kinds of data: the images as they are, and with their rows and their columns permuted, in the
same way for all images. Convolutions are wrong for the second; an operation that undoes the
permutation is in the search space. Every method trains for the same number of epochs:

- `backbone`: LeNet, ResNet-20 or a wide ResNet;
- `xd`: the same, its convolutions made searchable, LeNet's poolings too, which are averages there;
- `darts`: the same, each convolution a mixture of the operations of DARTS, measured as mixtures;
- `expert`: of permuted images: the backbone of one who knows the order and undoes it;
- `linear`: a dense layer in place of each convolution of LeNet with its pooling, as in "Searching
  for Convolutions and a More Ambitious NAS"; it has as many units as these have outputs;
- `k_layer`: a K-matrix (`keras_xd.layers.k.k_dense.KDense`) in place of each of these dense layers.

Few images, one seed and, of wide ResNets, few layers, unless others are given; `--paper` takes what
is not given from the paper, WRN-40-4 too, and is for GPUs. Finished runs are kept in the results
and not repeated; several processes may share the work.
"""

import itertools
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import fitting
import keras
import parsing
import reporting
from datasets import images, permutation
from datasets.batches import ImageBatches, normalize
from parsing import positive
from reporting import count, present, select, spread

import keras_xd
from keras_xd.layers.k.k_dense import KDense

IMAGE_SHAPE = (32, 32, 3)
CLASSES = 10
POOLED_SIZES = (6 * 14 * 14, 16 * 5 * 5)  # what LeNet holds after its first and second pooling


BACKBONES = {"lenet": "LeNet", "resnet20": "ResNet-20", "wide_resnet": "WRN"}
DATA = {"plain": "cifar10", "permuted": "permuted_cifar10"}
KINDS = tuple(DATA)
NAMES = {
    "backbone": "backbone: {}",
    "xd": "XD: {}, searched",
    "darts": "DARTS operations: {}, searched",
    "expert": "expert: {}, rows and columns in order",
    "linear": "linear layers",
    "k_layer": "K-layers",
}
SEARCHES = ("xd", "darts")
OF_LENET = ("linear", "k_layer")
SMALL = {
    "lenet": {"epochs": 3, "subset": 2000},
    "resnet20": {"epochs": 1, "subset": 256},
    "wide_resnet": {"epochs": 1, "subset": 256},
}


def settings_of_paper(backbone, kind, method="xd"):
    """Return the paper's settings. What it does not say of WRN-40-4 is that of ResNet-20."""
    same = "resnet20" if backbone == "wide_resnet" else backbone
    found = keras_xd.recipes.paper(
        "xd", f"{same}_{DATA[kind]}" + "_darts_operations" * (method == "darts")
    )
    if backbone == "wide_resnet" and method != "darts":
        found |= keras_xd.recipes.paper("xd", f"wide_resnet40_4_{DATA[kind]}")
    return found


LENET = settings_of_paper("lenet", "plain")
MOMENTUM, WEIGHT_DECAY = LENET["momentum"], LENET["weight_decay"]  # of all backbones


def backbone(options, **more):
    """Return the network that is compared."""
    if options.backbone == "wide_resnet":
        more |= {"depth": options.layers, "width": options.width}
    return getattr(keras_xd.models, options.backbone)(IMAGE_SHAPE, CLASSES, **more)


def searched(options, kind):
    """Return the backbone whose convolutions are searched, and of LeNet the poolings."""
    settings = settings_of_paper(options.backbone, kind)
    given = {"depth": options.depth or settings["depth"]}
    given |= {name: settings[name] for name in ("frequency_bias", "channel_gates")}
    if options.backbone == "lenet":
        network = backbone(options, pooling="average")
        return keras_xd.rewrite(network, operations=("convolution", "pooling"), **given)
    return keras_xd.rewrite(backbone(options), kernel_size=settings["largest_kernel"], **given)


def make(method, kind, options):
    """Return the untrained network of a method."""
    if method == "xd":
        return searched(options, kind)
    if method == "darts":
        settings = settings_of_paper(options.backbone, kind, method)
        return keras_xd.rewrite(backbone(options), "darts", other_weight=settings["other_weight"])
    if method in OF_LENET:
        layers = {"linear": keras.layers.Dense, "k_layer": KDense}
        return without_convolutions(layers[method])
    return backbone(options)


def without_convolutions(layer_class, shape=IMAGE_SHAPE, classes=CLASSES, sizes=POOLED_SIZES):
    """Return LeNet with a layer of the whole image in place of each convolution and its pooling."""
    inputs = keras.Input(shape, name="image")
    x = keras.layers.Flatten(name="flatten")(inputs)
    for index, units in enumerate(sizes, start=1):
        x = layer_class(units, activation="relu", name=f"units{index}")(x)
    x = keras.layers.Dense(120, activation="relu", name="dense1")(x)
    x = keras.layers.Dense(84, activation="relu", name="dense2")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x))


def page(settings, runs, written):
    """Return the page of results."""
    kinds, seeds = present(runs, "kind", KINDS), sorted({run["seed"] for run in runs})
    network = settings.get("network", "LeNet")
    return reporting.markdown(
        f"{network} on CIFAR-10, plain and permuted",
        f"Written by `{written['command']}`; {written['versions']}.",
        f"Accuracy in percent on {settings['evaluation_images']:,} test "
        f"images after {reporting.plural(settings['epochs'], 'epoch')} on "
        f"{settings['training_images']:,} training images, the same for every method; "
        f"{reporting.over(seeds)}; no model is chosen by "
        "its accuracy on these images. XD is measured after `keras_xd.finalize`. Seconds are "
        "those of the fastest epoch, because other programs ran on the machine, on "
        f"{reporting.plural(written['threads'], 'core')}; all epochs together took "
        f"{reporting.hours(runs)}.",
        _table(runs, kinds, seeds, network),
        *_differences(runs, kinds),
        "## Settings",
        reporting.points(settings["text"]),
    )


def _accuracies(runs, **wanted):
    """Return the accuracy in percent by seed."""
    return {run["seed"]: 100 * run["accuracy"] for run in select(runs, **wanted)}


def _table(runs, kinds, seeds, network):
    rows = []
    for method in present(runs, "method", NAMES):
        own = select(runs, method=method)
        cells = [NAMES[method].format(network)]
        cells += [
            reporting.cell(
                _accuracies(own, kind=kind),
                seeds,
                1,
                "–" if (method, kind) == ("expert", "plain") else "not run",
            )
            for kind in kinds
        ]
        cells += [f"{own[0]['parameters']:,}", f"{own[0]['architecture_parameters']:,}"]
        cells.append(f"{min(seconds for run in own for seconds in run['seconds']):.1f}")
        rows.append(cells)
    head = ["method", *kinds, "trained parameters", "of them architecture", "s / epoch"]
    return reporting.table(head, rows)


def _differences(runs, kinds):
    """Return lines on how far searches are from the backbone, seed by seed."""
    lines = []
    for method, name in (("xd", "XD"), ("darts", "DARTS operations")):
        for kind in kinds:
            one, other = (_accuracies(runs, method=m, kind=kind) for m in (method, "backbone"))
            points = reporting.gains(one, other)
            if points:
                number = reporting.plural(len(points), "seed")
                found = f"{spread(points, 1)} points ({number})"
                lines.append(f"{name} minus backbone, {kind}: {found}.")
    return lines


XLA = ("k_layer",)  # on a CPU the steps of the other methods are slower with XLA than without


def schedule(rate, steps, settings=LENET):
    """Return a rate that falls at the same shares of the steps as the paper's, and as much."""
    borders = [steps * epoch // settings["epochs"] for epoch in settings["schedule"]]
    factors = [value / settings["learning_rate"] for value in settings["schedule"].values()]
    rates = [rate, *(rate * factor for factor in factors)]
    return keras.optimizers.schedules.PiecewiseConstantDecay(borders, rates)


def compiled(method, kind, steps, options):
    """Return the model of a method, ready to train."""
    settings = settings_of_paper(options.backbone, kind, method)
    # Keras' weight decay passes by the momentum, which multiplies by 1 / (1 - momentum).
    optimizer = keras.optimizers.SGD(
        schedule(settings["learning_rate"], steps, settings),
        momentum=MOMENTUM,
        weight_decay=WEIGHT_DECAY / (1 - MOMENTUM),
    )
    arguments = {
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "metrics": ["accuracy"],
        "jit_compile": method in XLA,
    }
    architecture = None
    if method in SEARCHES:
        rate = schedule(settings["architecture_rate"], steps, settings)
        architecture = keras.optimizers.Adam(rate)
        arguments["warmup_epochs"] = warmup(settings, options.epochs)
    return fitting.compiled(make(method, kind, options), optimizer, architecture, **arguments)


def warmup(settings, epochs):
    """Return the epochs of warm-up, as large a share of all as in the paper."""
    return settings["warmup_epochs"] * epochs // settings["epochs"]


def run(method, kind, seed, train, evaluation, options):
    """Train one model; return what was measured."""
    keras.utils.set_random_seed(seed)
    augment = kind == "plain" or method == "expert"
    batches = ImageBatches(*train, options.batch_size, seed, augment=augment)
    model = compiled(method, kind, options.epochs * len(batches), options)
    clock = reporting.EpochClock()
    model.fit(batches, epochs=options.epochs, callbacks=[clock], verbose=0)
    architecture = keras_xd.architecture_variables(model) if method in SEARCHES else []
    found = keras_xd.finalize(model) if method == "xd" else model
    return {
        "method": method,
        "kind": kind,
        "seed": seed,
        "accuracy": fitting.accuracy(found, normalize(evaluation[0]), evaluation[1]),
        "parameters": count(model.trainable_variables),
        "architecture_parameters": count(architecture),
        "seconds": clock.seconds,
    }


def load_data(options, name="cifar10"):
    """Return training images and those for the evaluation, as uint8, with their labels."""
    return images.load_bytes(name, options.data_dir, options.subset)


def describe(options, train, evaluation):
    """Return what all runs of a results file have in common."""
    kinds = {kind: settings_of_paper(options.backbone, kind) for kind in KINDS}
    mixed = {kind: settings_of_paper(options.backbone, kind, "darts") for kind in KINDS}
    paper = kinds["plain"]
    falls = ", ".join(
        f"{value:g} after {epoch / paper['epochs']:.0%}"
        for epoch, value in paper["schedule"].items()
    )
    extras = "frequency bias and channel gates" if paper["channel_gates"] else "no bias, no gates"
    size = f", kernels of {paper['largest_kernel']}" * (options.backbone != "lenet")
    depth = options.depth or paper["depth"][0]
    text = [
        f"Weights: SGD, momentum {MOMENTUM}, rate {paper['learning_rate']:g}, {falls} of "
        f"the epochs; weight decay {WEIGHT_DECAY:g}; batches of {options.batch_size}.",
        f"Architecture: Adam, rate {_each(kinds, 'architecture_rate')}, the same schedule, no "
        f"weight decay; warm-up {_warmups(kinds, options)}; K-matrices of depth {depth}, {extras}"
        f"{size}.",
        f"DARTS operations: Adam, rate {_each(mixed, 'architecture_rate')}; warm-up "
        f"{_warmups(mixed, options)}; other operations begin with {_each(mixed, 'other_weight')}.",
        "Images: ImageNet's mean and deviation taken out; random crops and flips of plain images "
        "and of the expert's; permuted: one permutation of the rows and one of the columns, drawn "
        "from the seed.",
    ]
    if options.backbone == "lenet":
        text += [
            "Linear layers: 1,176 and 400 units with ReLU in place of the two convolutions with "
            "their poolings, then LeNet's three dense layers. K-layers: `KDense`, depth 2, of as "
            "many units.",
        ]
    if options.backbone == "wide_resnet":
        text += ["What the paper does not say of wide ResNets is as with ResNet-20."]
    number = f"-{options.layers}-{options.width}" * (options.backbone == "wide_resnet")
    return {
        "network": f"{BACKBONES[options.backbone]}{number}",
        "epochs": options.epochs,
        "batch_size": options.batch_size,
        "training_images": len(train[0]),
        "evaluation_images": len(evaluation[0]),
        "text": text,
    }


def _each(kinds, name):
    return ", ".join(f"{settings[name]:g} {kind}" for kind, settings in kinds.items())


def _warmups(kinds, options):
    found = {kind: {"n": warmup(settings, options.epochs)} for kind, settings in kinds.items()}
    return _each(found, "n")


def paper(options):
    """Return the options of the paper."""
    settings = settings_of_paper(options.backbone, "plain")
    found = {name: settings[name] for name in ("epochs", "batch_size")}
    return found | {"seeds": list(range(settings["seeds"])), "layers": 40, "width": 4}


def parse(arguments):
    parser = reporting.parser(__doc__)
    parser.add_argument("--backbone", choices=BACKBONES, default="lenet")
    parsing.add_runs(parser, [0], (), NAMES)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parsing.add(parser, positive, epochs=None, batch_size=128)
    parsing.add(parser, positive, layers=(10, "of a wide ResNet"), width=(1, "of a wide ResNet"))
    parsing.add(parser, positive, depth=(None, "of K-matrices; by default that of the paper"))
    parsing.add(parser, positive, subset=(None, "images of each split"))
    parsing.add_data_folder(parser)
    reporting.add_arguments(parser)
    options = parsing.with_paper(parser, arguments, paper, lambda given: SMALL[given.backbone])
    shown = ("paper", "backbone", "methods", "kinds", "seeds", "epochs", "batch_size", "layers")
    shown += ("width", "depth", "subset")
    command = reporting.command("xd/cifar10.py", parser, options, shown)
    allowed = [name for name in NAMES if options.backbone == "lenet" or name not in OF_LENET]
    options.methods = options.methods or allowed
    if not set(options.methods) <= set(allowed):
        parser.error(f"--methods of {options.backbone} are {', '.join(allowed)}")
    if set(options.methods) == {"expert"} and options.kinds == ["plain"]:
        parser.error("--methods expert is of permuted images")
    with reporting.refusing(parser):
        train, evaluation = load_data(options)
    settings = describe(options, train, evaluation)
    name = "cifar10" if options.backbone == "lenet" else f"cifar10_{options.backbone}"
    results = reporting.open_results(parser, options, name, page, settings, command)
    return options, train, evaluation, results


def main(arguments=None):
    options, *pair, results = parse(arguments)

    def measured(method, kind, seed):
        parts = pair
        if kind == "permuted" and method != "expert":
            parts = [(permutation.permute(inputs, seed), labels) for inputs, labels in pair]
        return run(method, kind, seed, *parts, options)

    def line(record):
        found = f"{100 * record['accuracy']:.2f} %, trained in {sum(record['seconds']):.0f} s"
        return f"{record['kind']}, seed {record['seed']}, {record['method']}: {found}"

    every = itertools.product(options.kinds, options.seeds, options.methods)
    keys = [(m, kind, seed) for kind, seed, m in every if (m, kind) != ("expert", "plain")]
    return reporting.run_all(results, keys, measured, line)


if __name__ == "__main__":
    main()
