"""Time series of the UCR and UEA archives: a backbone, its searches, and ROCKET beside them.

    pip install aeon
    python examples/experiments/xd/series.py

The backbone is `models.fcn`, narrower than published; XD and DASH begin with it and have the same
number of updates, of DASH a third for the search. The rate of a set is the one of two with which
the backbone of the first seed has the least loss on a quarter of the training samples, held out;
the searches take it too, and rates of architectures from their recipes. Files are those that aeon's
wheel bundles, or those in `--data`; the published accuracies are in the wheel too. Finished runs
are kept in the results and not repeated.
"""

import collections
import csv
import importlib.util
import os
import pathlib
import statistics
import sys
import time
import types

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import numpy as np
from datasets import series

SETS = (
    *("ACSF1", "ArrowHead", "BasicMotions", "GunPoint", "ItalyPowerDemand", "JapaneseVowels_eq"),
    "OSULeaf",
)
METHODS = {
    "backbone": "FCN",
    "xd": "XD",
    "dash": "DASH",
    "auto": '`search(to="auto")`',
    "rocket": "ROCKET",
    "minirocket": "MiniROCKET",
}
ROCKETS = {"rocket": "RocketClassifier", "minirocket": "MiniRocketClassifier"}
EPOCHS = 30  # equal parts of the updates, for the choice among search spaces
PUBLISHED = {"InceptionTime": "InceptionTime", "HC2": "HIVE-COTE 2"}
RATES = (1e-3, 5e-3)  # of Adam, whose published one is the first
HELD_OUT = 4  # one of so many samples of each class
NUMBERS = {
    "updates": (300, "updates of every training"),
    "batch_size": (16, "series of an update"),
    "filters": (16, "channels of the first and the last convolution; the second has twice as many"),
    "steps": (256, "most steps of a series; longer ones are averaged by a whole number"),
}


def folder_of_aeon(*parts):
    """Return a folder of aeon's package, without importing it; `None` if there is none."""
    found = importlib.util.find_spec("aeon")
    path = found and pathlib.Path(found.origin).parent.joinpath(*parts)
    return path if path and path.is_dir() else None


def parse(arguments):
    import parsing
    import reporting

    parser = reporting.parser(__doc__)
    parsing.add_runs(parser, range(5), METHODS)
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names of problems")
    parser.add_argument("--data", type=pathlib.Path, help="folder of .ts files; aeon's by default")
    parsing.add(parser, parsing.positive, **NUMBERS)
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    missing = set(ROCKETS) & set(options.methods) and not folder_of_aeon()
    options.data = options.data or folder_of_aeon("datasets", "data")
    if missing or not options.data:
        parser.error("ROCKET and the bundled series need: pip install aeon")
    settings = {name: getattr(options, name) for name in NUMBERS}
    shown = ["sets", "methods", "seeds", *NUMBERS]
    options.command = reporting.command("xd/series.py", parser, options, shown)
    key = ("set", "method", "seed", "rate", "part")
    return options, reporting.open_results(
        parser, options, "series", page, settings, options.command, key=key
    )


def shortened(inputs, most):
    """Return series of at most so many steps, means of as many steps each."""
    factor = -(-inputs.shape[1] // most)
    steps = inputs.shape[1] // factor
    inputs = inputs[:, : steps * factor].reshape(len(inputs), steps, factor, -1)
    return inputs.mean(axis=2)


def prepared(train, test, most):
    """Return shortened series of mean 0 and deviation 1 in each channel of the training set."""
    train, test = (shortened(inputs, most) for inputs in (train, test))
    mean, deviation = train.mean(axis=(0, 1)), train.std(axis=(0, 1))
    return [((inputs - mean) / (deviation + 1e-8)).astype("float32") for inputs in (train, test)]


def split(inputs, targets, seed):
    """Return two parts of samples, the second with one of `HELD_OUT` of each class."""
    rng, held = np.random.default_rng(seed), np.zeros(len(targets), bool)
    for label in np.unique(targets):
        own = rng.permutation(np.flatnonzero(targets == label))
        held[own[: -(-len(own) // HELD_OUT)]] = True
    return (inputs[~held], targets[~held]), (inputs[held], targets[held])


def run(name, method, seed, rate, part, options):
    """Return the record of one training, judged by a part: held out samples or the test set."""
    train, test = series.load(options.data, name)
    shape, classes = train[0].shape[1:], int(train[1].max()) + 1
    if part == "validation":
        train, test = split(*train, seed)
    begin = time.process_time()
    if method in ROCKETS:
        found = rocket(method, train, test, seed)
    else:
        found = network(train, test, classes, method, seed, rate, options)
    return {
        **{"set": name, "method": method, "seed": seed, "rate": rate, "part": part},
        **found,
        "samples": [len(train[0]), len(test[0])],
        "shape": list(shape),
        "classes": classes,
        "seconds": [round(time.process_time() - begin, 2)],
        "command": options.command,
    }


def rocket(method, train, test, seed):
    """Return the accuracy of a classifier of aeon's, on series of all their steps."""
    from aeon.classification import convolution_based

    # aeon has the channels before the steps.
    model = getattr(convolution_based, ROCKETS[method])(random_state=seed)
    model.fit(train[0].swapaxes(1, 2), train[1])
    outputs = model.predict(test[0].swapaxes(1, 2))
    return {"accuracy": float(np.mean(outputs == test[1]))}


def network(train, test, classes, method, seed, rate, options):
    """Return the accuracy and the loss of a network, and the kernels of its convolutions."""
    import keras

    import keras_xd
    from experiments.scoreboard.methods import Training

    keras.utils.set_random_seed(seed)
    inputs, others = prepared(train[0], test[0], options.steps)
    filters = (options.filters, 2 * options.filters, options.filters)
    model = keras_xd.models.fcn(inputs.shape[1:], classes, filters)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    task = types.SimpleNamespace(
        batch_size=options.batch_size, recipe="sequences", loss=lambda: loss
    )
    data, more = types.SimpleNamespace(train=(inputs, train[1])), {}
    if method == "auto":
        data.train, held = split(*data.train, seed)
        training = Training(task, data, seed, options.updates)
        final, more["kept"] = choose(model, training, held, rate)
    else:
        final = Training(task, data, seed, options.updates).run(method, model, rate)
    logits = final.predict(others, batch_size=64, verbose=0)
    kernels = [
        [layer.kernel_size[0], layer.dilation_rate[0]]
        for layer in final.layers
        if isinstance(layer, keras.layers.Conv1D)
    ]
    return {
        "accuracy": float(np.mean(logits.argmax(axis=-1) == test[1])),
        "loss": float(loss(test[1], logits)),
        "parameters": final.count_params(),
        "kernels": kernels,
        **more,
    }


def choose(model, training, held, rate):
    """Return the network that `keras_xd.search` keeps by samples held out, and its name."""
    import fitting
    import keras

    import keras_xd

    epochs = min(EPOCHS, training.updates)
    steps = training.updates // epochs
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps * epochs)
    result = keras_xd.search(
        model,
        training.batches(steps * epochs).repeat(),
        to="auto",
        epochs=epochs,
        steps_per_epoch=steps,
        validation_data=held,
        optimizer=keras.optimizers.Adam(schedule),
        loss=training.task.loss(),
        metrics=[fitting.accuracy_metric()],
        seed=training.seed,
        shuffle=False,
        validation_freq=epochs,
        compile_options={"jit_compile": False},
        verbose=0,
    )
    return result.model, result.report.kept


def published(name):
    """Return the accuracies of the split into the two files that aeon's wheel holds, by method."""
    folder = folder_of_aeon("testing", "example_results_files", "classification", "accuracy")
    found = {}
    for method in PUBLISHED if folder else ():
        with (folder / f"{method}_accuracy.csv").open() as lines:
            rows = {row[0]: row[1:] for row in csv.reader(lines)}
        if name in rows:
            found[method] = float(rows[name][0])
    return found


def chosen(runs, name):
    """Return the rate of a set, that of the least loss of samples held out; `None` without runs."""
    own = [run for run in runs if run["set"] == name and run["part"] == "validation"]
    return min(own, key=lambda run: run["loss"])["rate"] if own else None


def page(settings, runs, written):
    """Return the page of results."""
    import reporting

    seeds = sorted({run["seed"] for run in runs})
    tested = [run for run in runs if run["part"] == "test"]
    methods = reporting.present(tested, "method", METHODS)
    rows, means, sizes = [], {}, []
    for name in reporting.unique(tested, "set"):
        own = reporting.select(tested, set=name)
        steps, channels = own[0]["shape"]
        samples = "{} / {}".format(*own[0]["samples"])
        row = [name, samples, f"{steps} × {channels}", str(own[0]["classes"])]
        found = {
            method: {run["seed"]: 100 * run["accuracy"] for run in own if run["method"] == method}
            for method in methods
        }
        published = own[0]["published"]
        rows.append(
            row
            + [reporting.cell(found[method], seeds, 1) for method in methods]
            + [f"{100 * published[m]:.1f}" if m in published else "–" for m in PUBLISHED]
        )
        if published and all(found.values()):
            scores = {method: statistics.mean(found[method].values()) for method in methods}
            for method, score in (*scores.items(), *published.items()):
                means.setdefault(method, []).append(100 * score if method in published else score)
        rate = chosen(runs, name)
        sizes.append([name, "–" if rate is None else f"{rate:g}", *_costs(own, methods)])
    if means:
        names = [*methods, *PUBLISHED]
        number = len(means[names[0]])
        rows.append(
            [f"mean of the {number} with published figures", "", "", ""]
            + [f"{statistics.mean(means[name]):.1f}" for name in names]
        )
    titles = [METHODS[method] for method in methods]
    networks = [METHODS[method] for method in methods if method not in ROCKETS]
    costs = [f"{title}, {what}" for title in networks for what in ("parameters", "s")]
    return "\n".join(
        [
            "# Time series of the UCR and UEA archives",
            "",
            f"Written by {reporting.commands(runs)}; {written['versions']}; one thread.",
            "",
            f"Accuracy on the test files in percent, {reporting.over(seeds)}. Published figures "
            "are those of aeon's wheel for the same files (resample 0); InceptionTime is an "
            "ensemble of five networks of 1,500 epochs, HIVE-COTE 2 one of four kinds of "
            "classifiers.",
            "",
            *reporting.table(
                ["set", "samples", "steps × channels", "classes", *titles, *PUBLISHED.values()],
                rows,
            ),
            f"FCN is `models.fcn` with {settings['filters']}, {2 * settings['filters']} and "
            f"{settings['filters']} channels instead of 128, 256 and 128, and "
            f"{settings['updates']} updates of {settings['batch_size']} series by Adam, whose rate "
            "falls to 0 along a cosine, instead of 2,000 epochs; it is far from converged on the "
            "larger sets. Networks read means of whole numbers of steps, at most "
            f"{settings['steps']} of them, ROCKET and MiniROCKET all steps. XD and DASH begin with "
            "the same network and have as many updates; DASH searches in a third of them, and the "
            "others train the found network from scratch."
            + _choices(reporting.select(tested, method="auto")),
            "",
            f"The rate of the weights is the one of {' and '.join(f'{r:g}' for r in RATES)} with "
            "which the FCN of the first seed has the least loss on a quarter of the training "
            "samples, held out; all networks take it. Rates of architectures are those of "
            "`recipes.recipe`. Nothing was chosen on test samples.",
            "",
            "Seconds of the processor, a median, with tracing and testing:",
            "",
            *reporting.table(["set", "rate", *costs], sizes),
        ]
    )


def _choices(runs):
    """Return a sentence on what was kept by the choice among search spaces."""
    kept = collections.Counter(run["kept"] for run in runs)
    counts = ", ".join(f"{name} {count}" for name, count in kept.most_common())
    return (
        f" The choice by `search` takes one of {HELD_OUT} samples of each class to choose by, and "
        f"does not train on them; times kept: {counts}."
        if runs
        else ""
    )


def _costs(runs, methods):
    """Return parameters and seconds of the networks of a set, as texts."""
    texts = []
    for method in methods:
        own = [run for run in runs if run["method"] == method]
        if method not in ROCKETS:
            sizes = sorted({run["parameters"] for run in own})
            texts.append("–".join(f"{size:,}" for size in dict.fromkeys(sizes[:1] + sizes[-1:])))
            seconds = [run["seconds"][0] for run in own]
            texts.append(f"{statistics.median(seconds):.0f}" if seconds else "–")
    return texts


def main(arguments=None):
    options, results = parse(arguments)

    def obtain(*key):
        record = results.obtain(key, measured, *key)
        print(*key, record["accuracy"], record["seconds"], flush=True)

    def measured(name, method, seed, rate, part):
        record = run(name, method, seed, rate, part, options)
        return {**record, "published": published(name)}

    networks = [method for method in options.methods if method not in ROCKETS]
    for name in options.sets if networks else ():
        for rate in RATES:
            obtain(name, "backbone", options.seeds[0], rate, "validation")
    for seed in options.seeds:
        for name in options.sets:
            for method in options.methods:
                rate = chosen(results.runs, name) if method in networks else None
                obtain(name, method, seed, rate, "test")
    return results


if __name__ == "__main__":
    main()
