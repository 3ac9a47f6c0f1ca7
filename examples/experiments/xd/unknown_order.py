"""Signals and columns in an unknown order: searches beside what one would take instead.

    python examples/experiments/xd/unknown_order.py
    python examples/experiments/xd/unknown_order.py --tasks mnist1d --methods cnn xd --seeds 0 1

MNIST-1D is made by `pip install mnist1d` (no download), the image segments come with `pip install
river`, the other data with scikit-learn. Each seed draws weights, batches and the order; of columns
the samples for testing too. Every method has the same updates of a task and one small search: three
settings, each tried with the first seed for a third of the updates, of which the best accuracy on a
fifth of the training samples counts. Then it is trained on all training samples. Finished runs are
kept in the results and not repeated.
"""

import dataclasses
import functools
import importlib
import itertools
import math
import os
import pathlib
import statistics
import sys
import time
import types

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import numpy as np

NAME = "unknown_order"
SEEDS = (0, 1, 2, 3, 4)
CHOICE = "settings"  # in place of a seed, of the record of the small search of settings
KIND = "unordered"  # of the recipe of XD
SHARE = 1 / 3  # of the updates, for each trial of a setting
FITTED = {"logistic": ("C", (0.1, 1.0, 10.0)), "boosting": ("learning_rate", (0.03, 0.1, 0.3))}
RATES = ("rate", (3e-3, 1e-2, 3e-2))
TAPS = (5, 3, 3)  # of the convolutions of the CNN
TITLES = {
    "logistic": "logistic regression",
    "boosting": "gradient boosting",
    "mlp": "MLP",
    "gru": "GRU",
    "transformer": "transformer without positions",
    "cnn": "CNN",
    "wide": "wide CNN",
    "dash": "DASH of the CNN",
    "k_operation": "K-operations of the CNN",
    "xd": "XD of the CNN",
    "auto": '`search(to="auto")` of the CNN',
}
COLORS = dict(zip(TITLES, "C7 C8 C0 C9 C6 C1 C5 C4 C2 C3 k".split(), strict=True))
SEARCHES = ("dash", "k_operation", "xd", "auto")
OF_COLUMNS = ("logistic", "boosting", "mlp", "cnn", "dash", "k_operation", "xd", "auto")


@dataclasses.dataclass(frozen=True)
class Task:
    """Samples of classes, and how long methods are trained on them."""

    title: str
    load: object  # of a seed: the samples `(x, y)` for training and those for testing
    shuffled: bool = True
    methods: tuple = tuple(TITLES)
    epochs: int = 40
    batch_size: int = 100
    module: str | None = None  # of a package that is in no extra and has the samples


# Data


@functools.lru_cache(1)
def mnist1d(seed):
    """Return the 4,000 and 1,000 signals of 40 points."""
    from mnist1d.data import get_dataset_args, make_dataset

    data = make_dataset(get_dataset_args())
    return (data["x"], data["y"]), (data["x_test"], data["y_test"])


def digits(seed):
    """Return scikit-learn's 8 × 8 digits as 64 points."""
    from datasets import digits

    train, validation, test = ((x.reshape(-1, 64), y) for x, y in digits.load())
    return tuple(np.concatenate(pair) for pair in zip(train, validation, strict=True)), test


def segments():
    """Return 18 numbers on each of 2,310 segments of images, and what it shows, of 7 classes."""
    from river import datasets

    rows, names = zip(*datasets.ImageSegments(), strict=True)
    return np.array([list(row.values()) for row in rows]), np.unique(names, return_inverse=True)[1]


def columns(name, seed):
    """Return samples with a quarter, which the seed draws, for testing."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    if name == "segments":
        x, y = segments()
    else:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    y = (y > np.median(y)).astype(int) if name == "diabetes" else y
    x, test, y, labels = train_test_split(x, y, test_size=0.25, stratify=y, random_state=seed)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    return ((x - mean) / deviation, y), ((test - mean) / deviation, labels)


def _columns(name, title, **more):
    load = functools.partial(columns, name)
    return Task(title, load, True, OF_COLUMNS, batch_size=32, **more)


TASKS = {
    "mnist1d": Task("MNIST-1D, shuffled", mnist1d, module="mnist1d.data"),
    "mnist1d_ordered": Task("MNIST-1D, in order", mnist1d, False, module="mnist1d.data"),
    "digits": Task("digits, 64 pixels, shuffled", digits),
    "breast_cancer": _columns("breast_cancer", "breast cancer, 30 columns"),
    "wine": _columns("wine", "wine, 13 columns"),
    "diabetes": _columns("diabetes", "diabetes above the median, 10 columns"),
    "segments": _columns("segments", "image segments, 18 columns", module="river"),
}


def parts(task, seed):
    """Return the samples for training and testing, of shape `(n, points, 1)`, in their order."""
    (x, y), (test, labels) = task.load(seed)
    order = np.arange(x.shape[1])
    if task.shuffled:
        order = np.random.default_rng(seed).permutation(order)
    x, test = (part[:, order, None].astype("float32") for part in (x, test))
    return (x, y), (test, labels)


def validation_parts(train, seed):
    """Return four fifths of the training samples, and a fifth."""
    from sklearn.model_selection import train_test_split

    x, y = train
    x, other, y, labels = train_test_split(x, y, test_size=0.2, stratify=y, random_state=seed)
    return (x, y), (other, labels)


# Networks


def cnn(shape, classes, filters=25):
    """Return the CNN of MNIST-1D's authors."""
    import keras

    model = keras.Sequential([keras.Input(shape)])
    for index, size in enumerate(TAPS, start=1):
        options = {"padding": "same", "activation": "relu", "name": f"conv{index}"}
        model.add(keras.layers.Conv1D(filters, size, 2, **options))
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(classes, name="classifier"))
    return model


def mlp(shape, classes, units=16):
    """Return the form of the authors' MLP: two hidden layers."""
    import keras

    hidden = [keras.layers.Dense(units, "relu", name=f"dense{i}") for i in (1, 2)]
    layers = [keras.Input(shape), keras.layers.Flatten(), *hidden]
    return keras.Sequential([*layers, keras.layers.Dense(classes, name="classifier")])


def gru(shape, classes):
    """Return the authors' GRU, of both directions."""
    import keras

    recurrent = keras.layers.GRU(6, return_sequences=True)
    layers = [keras.Input(shape), keras.layers.Bidirectional(recurrent), keras.layers.Flatten()]
    return keras.Sequential([*layers, keras.layers.Dense(classes)])


def transformer(shape, classes, width=16, blocks=2):
    """Return a transformer without positions, which sees a set of values."""
    import keras

    inputs = keras.Input(shape)
    x = keras.layers.Dense(width)(inputs)
    for _ in range(blocks):
        y = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(4, width // 4)(y, y)
        y = keras.layers.Dense(2 * width, "gelu")(keras.layers.LayerNormalization()(x))
        x = x + keras.layers.Dense(width)(y)
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization()(x))
    return keras.Model(inputs, keras.layers.Dense(classes)(x))


def searched_size(method, model):
    """Return how many numbers a search of a model trains."""
    import reporting

    import keras_xd

    recipe = keras_xd.recipes.recipe(method, KIND if method == "xd" else None)
    space = keras_xd.rewrite(model, to=method, **recipe.rewrite_options)
    return reporting.count(space.trainable_variables)


def network(method, shape, classes):
    """Return the network of a method; of searches their backbone."""
    from experiments.scoreboard import networks

    if method in ("gru", "transformer"):
        return {"gru": gru, "transformer": transformer}[method](shape, classes)
    model = (mlp if method == "mlp" else cnn)(shape, classes)
    if method in ("mlp", "wide"):
        return networks.wide(model, searched_size("xd", cnn(shape, classes)))
    return model


# Runs


def trained(task, method, data, seed, share=1.0, **setting):
    """Return a function from samples to labels, and the numbers trained and in the result."""
    import fitting
    import keras

    import keras_xd
    from experiments.scoreboard import methods

    x, y = data
    keras.utils.set_random_seed(seed)
    if method in FITTED:
        return fitted(method, x[..., 0], y, seed, share, **setting)
    model = network(method, x.shape[1:], 1 + int(y.max()))
    updates = round(share * task.epochs * -(-len(x) // task.batch_size))
    plan = types.SimpleNamespace(
        recipe=KIND,
        batch_size=task.batch_size,
        loss=lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    samples = types.SimpleNamespace(train=data)
    training = methods.Training(plan, samples, seed, updates, together=True)
    if method == "auto":
        epochs = round(share * task.epochs)
        steps = epochs * math.ceil(0.8 * len(x) / task.batch_size)  # a fifth validates
        schedule = keras.optimizers.schedules.CosineDecay(setting["rate"], steps)
        found = keras_xd.search(
            model,
            x,
            y,
            to="auto",
            epochs=epochs,
            batch_size=task.batch_size,
            optimizer=keras.optimizers.Adam(schedule),
            loss=plan.loss(),
            metrics=[fitting.accuracy_metric()],
            seed=seed,
            verbose=0,
        ).model
        count = found.count_params()
    elif method in SEARCHES:
        count = searched_size(method, model)
        found = training.run(method, model, **setting)
    else:
        count = model.count_params()
        found = training.fit(model, updates, **setting)
    return lambda x: found.predict(x, 500, verbose=0).argmax(axis=-1), count, found.count_params()


def fitted(method, x, y, seed, share, **setting):
    """Do as `trained` with a model of scikit-learn; the numbers of trees are their nodes."""
    from sklearn import ensemble, linear_model

    if method == "logistic":
        model = linear_model.LogisticRegression(max_iter=1000, **setting).fit(x, y)
        numbers = model.coef_.size + model.intercept_.size
    else:
        steps = round(100 * share)
        model = ensemble.HistGradientBoostingClassifier(
            max_iter=steps, random_state=seed, **setting
        ).fit(x, y)
        numbers = sum(len(tree.nodes) for trees in model._predictors for tree in trees)
    return lambda x: model.predict(x[..., 0]), numbers, numbers


def accuracy(predict, part):
    return round(100 * float(np.mean(predict(part[0]) == part[1])), 3)


def choose(name, method, seed):
    """Return the record of the small search of a method's setting."""
    task, begin = TASKS[name], time.process_time()
    train, validation = validation_parts(parts(task, seed)[0], seed)
    argument, values = FITTED.get(method, RATES)
    found = []
    for value in values:
        predict, *_ = trained(task, method, train, seed, SHARE, **{argument: value})
        found.append(accuracy(predict, validation))
    return {
        "task": name,
        "method": method,
        "seed": CHOICE,
        "setting": {argument: values[found.index(max(found))]},
        "accuracies": found,
        "cpu_seconds": round(time.process_time() - begin, 2),
    }


def run(name, method, seed, setting):
    """Train with the chosen setting on all training samples; return what was measured."""
    task, begin = TASKS[name], time.process_time()
    train, test = parts(task, seed)
    predict, count, final = trained(task, method, train, seed, **setting)
    return {
        "task": name,
        "method": method,
        "seed": seed,
        "accuracy": accuracy(predict, test),
        "parameters": count,
        "finalized_parameters": final,
        "samples": [len(train[0]), len(test[0])],
        "cpu_seconds": round(time.process_time() - begin, 2),
    }


def parse(arguments):
    import parsing
    import reporting

    parser = reporting.parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parsing.add_runs(parser, SEEDS, TITLES)
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    for module in filter(None, (TASKS[name].module for name in options.tasks)):
        try:
            importlib.import_module(module)
        except ImportError:
            package = module.partition(".")[0]
            parser.error(f"a package has the samples: `pip install {package}`")
    settings = {
        "seeds": list(SEEDS),
        "share": SHARE,
        "tasks": {
            name: {"title": task.title, "epochs": task.epochs, "batch_size": task.batch_size}
            for name, task in TASKS.items()
        },
    }
    command = "python examples/experiments/xd/unknown_order.py"
    return options, reporting.open_results(
        parser, options, NAME, page, settings, command, key=("task", "method", "seed")
    )


def page(settings, records, written):
    """Return the page of results."""
    import reporting

    runs = [run for run in records if run["seed"] != CHOICE]
    tasks = [name for name in settings["tasks"] if reporting.select(runs, task=name)]
    methods = reporting.present(runs, "method", TITLES)
    seeds = settings["seeds"]
    titles = [settings["tasks"][name]["title"] for name in tasks]
    samples = [reporting.select(runs, task=name)[0]["samples"] for name in tasks]

    def rows(entry):
        return [[TITLES[method], *(entry(name, method) for name in tasks)] for method in methods]

    def accuracies(name, method):
        found = reporting.select(runs, task=name, method=method)
        return {run["seed"]: run["accuracy"] for run in found}

    def means(name):
        found = {method: accuracies(name, method) for method in methods}
        return {method: statistics.mean(f.values()) for method, f in found.items() if f}

    best = {name: max(means(name), key=means(name).get) for name in tasks}

    def accuracy(name, method):
        text = reporting.cell(accuracies(name, method), seeds, 1)
        return f"**{text}**" if method == best[name] else text

    def numbers(name, method):
        found = reporting.select(runs, task=name, method=method)
        pairs = [[run[key] for run in found] for key in ("parameters", "finalized_parameters")]
        texts = [f"{round(statistics.mean(pair)):,}" for pair in pairs if pair]
        return " / ".join(dict.fromkeys(texts)) or "–"

    def choice(name, method):
        found = reporting.select(records, task=name, method=method, seed=CHOICE)
        if not found:
            return "–"
        (value,) = found[0]["setting"].values()
        return f"{value:g}: {max(found[0]['accuracies']):.1f}"

    def seconds(name, method):
        found = reporting.select(runs, task=name, method=method)
        return f"{statistics.median(r['cpu_seconds'] for r in found):.1f}" if found else "–"

    head = ["method", *titles]
    total = sum(record["cpu_seconds"] for record in records) / 60
    parts = "; ".join(
        f"{title}: {train:,} and {test:,}, {settings['tasks'][name]['epochs']} epochs, batches of "
        f"{settings['tasks'][name]['batch_size']}"
        for name, title, (train, test) in zip(tasks, titles, samples, strict=True)
    )
    return "\n".join(
        [
            "# Signals and columns in an unknown order",
            "",
            f"Written by `{written['command']}`; {written['versions']}, "
            f"{reporting.plural(written['threads'], 'core')}, {total:.0f} minutes of it.",
            "",
            f"Accuracy on test samples in percent, {reporting.over(seeds)}. Each seed draws the "
            "order and the weights, of columns also the quarter of the samples for testing.",
            "",
            *reporting.table(head, rows(accuracy)),
            "![Accuracy and number of parameters](unknown_order.png)",
            "",
            "MNIST-1D's authors have, shuffled: logistic regression 32, MLP of 15,210 parameters "
            "68, GRU 57, CNN 56, people about 30; in order 32, 68, 91, 94 and 96. CNN, GRU and the "
            "form of the MLP are theirs. MLP and wide CNN have at least as many parameters as XD "
            "trains.",
            "",
            "Samples for training and testing: " + parts + ".",
            "",
            "## Parameters",
            "",
            "Trained, and of the network that is found. Of boosting: nodes of the trees.",
            "",
            *reporting.table(head, rows(numbers)),
            "## Settings",
            "",
            "Chosen setting, and its accuracy on a fifth of the training samples, with seed "
            f"{seeds[0]}, after {settings['share']:.2g} of the epochs. {tried()} The rate of the "
            "weights, by Adam, falls to 0 along a cosine; that of the architecture is the "
            "recipe's. DASH searches for a third of the updates and trains what it finds anew for "
            "the others; `auto` chooses on a fifth of the samples for training, on which it does "
            "not train. Rates of 0.001, 0.003 and 0.01 were tried before on MNIST-1D, shuffled; "
            "all networks took the largest, so the rates are higher now. "
            "Test accuracies of seed 0 of MLP, CNN and wide CNN had been seen by then.",
            "",
            *reporting.table(head, rows(choice)),
            "## Seconds",
            "",
            "Processor seconds of a training with its tracing, median over seeds.",
            "",
            *reporting.table(head, rows(seconds)),
        ]
    )


def tried():
    """Return a sentence on the settings that are tried."""
    texts = [
        f"{name} {', '.join(f'{value:g}' for value in values)} of {of}"
        for of, (name, values) in (
            ("networks", RATES),
            ("boosting", FITTED["boosting"]),
            ("logistic regression", FITTED["logistic"]),
        )
    ]
    return f"Three were tried for every method: {'; '.join(texts)}."


def draw(runs, folder):
    """Draw accuracy against the numbers of parameters, of MNIST-1D shuffled and in order."""
    import reporting
    from matplotlib.figure import Figure

    runs = [run for run in runs if run["seed"] != CHOICE]
    names = reporting.present(runs, "task", ("mnist1d", "mnist1d_ordered"))
    if not names:
        return
    figure = Figure((2.5 + 3.3 * len(names), 3.8), layout="constrained")
    panels = figure.subplots(1, len(names), sharex=True, sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        for method in TITLES:
            own = reporting.select(runs, task=name, method=method)
            if not own:
                continue
            accuracy = [run["accuracy"] for run in own]
            sizes = [
                statistics.mean(run[key] for run in own)
                for key in ("parameters", "finalized_parameters")
            ]
            mean, color = statistics.mean(accuracy), COLORS[method]
            spread = statistics.stdev(accuracy) if len(own) > 1 else 0
            label = TITLES[method].replace("`", "")
            axes.plot(sizes, [mean] * 2, color=color, linewidth=1)
            axes.plot(sizes[1], mean, "o", color=color, markerfacecolor="white")
            axes.errorbar(sizes[0], mean, spread, fmt="o", color=color, capsize=3, label=label)
        axes.set(xscale="log", xlabel="parameters: ● trained, ○ found", title=TASKS[name].title)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("test accuracy in %")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    figure.savefig(folder / f"{NAME}.png", dpi=110)


def main(arguments=None):
    import keras
    import reporting

    options, results = parse(arguments)

    def measured(name, method, seed):
        if seed == CHOICE:
            return choose(name, method, SEEDS[0])
        record = run(name, method, seed, results.find(name, method, CHOICE)["setting"])
        keras.utils.clear_session()
        return record

    def line(record):
        found = record["setting"] if record["seed"] == CHOICE else record["accuracy"]
        return f"{record['task']}, {record['method']}, {record['seed']}: {found}"

    keys = [
        (name, method, part)
        for name, seed, method in itertools.product(options.tasks, options.seeds, options.methods)
        for part in (CHOICE, seed)
        if method in TASKS[name].methods
    ]
    reporting.run_all(results, keys, measured, line)
    draw(results.runs, options.output)
    return results


if __name__ == "__main__":
    import scoreboard

    scoreboard.trace_quickly()
    main()
