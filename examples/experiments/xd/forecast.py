"""A forecast of many steps: CO2 on Mauna Loa, 52 weeks ahead, by causal networks and without.

    pip install statsmodels
    python examples/experiments/xd/forecast.py

Weekly means of 1958 to 2001, which statsmodels ships; missing ones lie on lines between neighbours.
`models.tcn` reads the changes from week to week and predicts, at every step, the next 52 values
less the last one; XD begins with it and stays causal. Beside them a linear model of the same
inputs, and the value of a year before, with and without the last year's growth. Rates of the
networks, and the ridge of the linear model, are those of the least error on the years for
validation, with the first seed. Finished runs are kept in the results and not repeated.
"""

import importlib.util
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import fitting
import keras
import numpy as np
import parsing
import reporting
from datasets import series
from matplotlib.figure import Figure

import keras_xd

HISTORY, HORIZON, YEAR = 128, 52, 52
SEEN = 64  # steps before the first that is trained to predict
PARTS = {"train": 0.65, "validation": 0.15, "test": 0.2}  # one after the other
STRIDE = 4  # weeks between two origins of forecasts
SHOWN = (1, 13, 26, 52)  # weeks ahead
RATES = {  # of the weights, of the architecture; of the linear model the ridge
    "seasonal": [None],
    "drift": [None],
    "linear": [0.1, 1.0, 10.0, 100.0],
    "tcn": [(3e-3, None), (1e-2, None), (3e-2, None)],
    "xd": [(1e-2, 2e-4), (1e-2, 2e-3)],
}
TITLES = {
    "seasonal": "a year before",
    "drift": "a year before, with growth",
    "linear": "linear",
    "tcn": "TCN",
    "xd": "XD search",
}
NETWORKS = ("tcn", "xd")
NUMBERS = {
    "channels": (16, "channels of the networks"),
    "levels": (4, "levels of the networks, of dilations 1, 2, 4, …"),
    "epochs": (16, "epochs"),
    "batch_size": (16, "pieces of the series"),
}


def load(path=None):
    """Return the weekly means in ppm, without gaps."""
    if path is None:
        found = importlib.util.find_spec("statsmodels")
        if not found:
            raise ValueError("The series of CO2 needs: pip install statsmodels")
        path = pathlib.Path(found.origin).parent / "datasets/co2/co2.csv"
    values = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=1)
    return series.filled(values[:, None])[:, 0].astype("float64")


def pieces(values, part):
    """Return origins of forecasts and their inputs and targets, `(origins, HISTORY, …)`.

    Inputs are the changes up to each step, targets the next values less that of the step. All
    values that are predicted from the last step lie in the part.
    """
    ends = np.cumsum(list(PARTS.values()))
    index = list(PARTS).index(part)
    first = int(len(values) * ends[index - 1]) if index else HISTORY
    last = int(round(len(values) * ends[index])) - HORIZON
    origins = np.arange(first, last, STRIDE)
    steps = origins[:, None] + np.arange(1 - HISTORY, 1)
    inputs = values[steps] - values[steps - 1]
    targets = values[steps[..., None] + np.arange(1, HORIZON + 1)] - values[steps][..., None]
    return origins, inputs[..., None], targets


def parse(arguments):
    parser = reporting.parser(__doc__)
    parsing.add_runs(parser, range(3), RATES)
    parser.add_argument("--data", type=pathlib.Path, help="co2.csv; that of statsmodels by default")
    parsing.add(parser, parsing.positive, **NUMBERS)
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    settings = {name: getattr(options, name) for name in NUMBERS}
    shown = ["methods", "seeds", *NUMBERS]
    options.command = reporting.command("xd/forecast.py", parser, options, shown)
    with reporting.refusing(parser):
        options.values = load(options.data)
    key = ("method", "seed", "rates")
    return options, reporting.open_results(
        parser, options, "forecast", page, settings, options.command, key=key
    )


def run(method, seed, rates, options):
    """Return the record of one method: its errors on the parts, week by week, in ppm."""
    begin = time.process_time()
    predict, found = FITS[method](options.values, seed, rates, options)
    record = {"method": method, "seed": seed, "rates": rates, **found}
    for part in ("validation", "test"):
        origins, inputs, targets = pieces(options.values, part)
        outputs = predict(origins, inputs)
        errors = np.abs(outputs - targets[:, -1])
        record[part] = np.round(errors.mean(axis=0), 4).tolist()
    record["forecast"] = np.round(outputs[-1] + options.values[origins[-1]], 2).tolist()
    record["truth"] = options.values[origins[-1] + np.arange(1 - YEAR, HORIZON + 1)].tolist()
    return {
        **record,
        "seconds": [round(time.process_time() - begin, 2)],
        "command": options.command,
    }


def seasonal(values, seed, rate, options, growth=0.0):
    """The values of a year before, plus so many times the growth of the last year."""

    def predict(origins, inputs):
        weeks = origins[:, None] + np.arange(1, HORIZON + 1) - YEAR
        grown = values[origins] - values[origins - YEAR]
        return values[weeks] + growth * grown[:, None] - values[origins][:, None]

    return predict, {"parameters": 0}


def drift(values, seed, rate, options):
    """As `seasonal`, with the growth of the last year."""
    return seasonal(values, seed, rate, options, growth=1.0)


def linear(values, seed, ridge, options):
    """One linear map from the changes of the whole history, by ridge regression."""
    _, inputs, targets = pieces(values, "train")
    inputs, targets = with_one(inputs), targets[:, -1]
    matrix = np.linalg.solve(
        inputs.T @ inputs + ridge * np.eye(inputs.shape[1]), inputs.T @ targets
    )
    return lambda origins, inputs: with_one(inputs) @ matrix, {"parameters": matrix.size}


def with_one(inputs):
    """Return inputs as rows, with a one behind each."""
    return np.concatenate([inputs[..., 0], np.ones((len(inputs), 1))], axis=1)


def network(values, seed, rates, options, search=False):
    """A causal network, trained at all steps behind the first `SEEN` ones."""
    keras.utils.set_random_seed(seed)
    _, inputs, targets = pieces(values, "train")
    scale, seen = inputs.std(), targets[:, SEEN:]
    mean, deviation = seen.mean(axis=(0, 1)), seen.std(axis=(0, 1)) + 1e-6
    inputs, targets = inputs / scale, (targets - mean) / deviation
    weights = np.zeros(targets.shape[:2])
    weights[:, SEEN:] = HISTORY / (HISTORY - SEEN)
    model = keras_xd.models.tcn(
        inputs.shape[1:], HORIZON, options.channels, options.levels, 3, dropout=0.0
    )
    steps = options.epochs * -(-len(inputs) // options.batch_size)
    optimizers = [fitting.adam(rate, steps) for rate in rates if rate]
    model = keras_xd.rewrite(model) if search else model
    model = fitting.compiled(model, *optimizers, loss="mse", jit_compile=False)
    arrays = [x.astype("float32") for x in (inputs, targets, weights)]
    model.fit(
        *arrays[:2],
        sample_weight=arrays[2],
        batch_size=options.batch_size,
        epochs=options.epochs,
        verbose=0,
    )
    final = keras_xd.finalize(model) if search else model

    def predict(origins, inputs):
        found = final.predict((inputs / scale).astype("float32"), batch_size=64, verbose=0)
        return found[:, -1] * deviation + mean

    return predict, {"parameters": final.count_params()}


def searched(values, seed, rates, options):
    """XD-operations that begin as `network` and stay causal."""
    return network(values, seed, rates, options, search=True)


FITS = {"seasonal": seasonal, "drift": drift, "linear": linear, "tcn": network, "xd": searched}


def page(settings, runs, written):
    """Return the page of results."""
    rows = []
    for method in reporting.present(runs, "method", list(RATES)):
        own = reporting.of_rates(runs, method)
        errors = [[run["test"][week - 1] for run in own] for week in SHOWN]
        errors.append([statistics.mean(run["test"]) for run in own])
        rates = own[0]["rates"]
        rates = rates if isinstance(rates, list) else [rates]
        seconds = statistics.median(run["seconds"][0] for run in own)
        rows.append(
            [TITLES[method], str(len(own))]
            + [reporting.spread(values, 2) for values in errors]
            + [
                ", ".join(sorted({f"{run['parameters']:,}" for run in own})),
                f"{seconds:.1f}",
                ", ".join(f"{rate:g}" for rate in rates if rate) or "–",
            ]
        )
    head = ["method", "seeds", *(f"week {week}" for week in SHOWN), "all weeks"]
    return reporting.markdown(
        "CO2 on Mauna Loa, 52 weeks ahead",
        f"Written by {reporting.commands(runs)}; {written['versions']}; one core.",
        "Mean absolute error in ppm on the last "
        f"{PARTS['test']:.0%} of the weeks of 1958 to 2001 (mean ± standard deviation over "
        f"seeds). The first {PARTS['train']:.0%} train, the {PARTS['validation']:.0%} between "
        "choose rates and ridge, with the first seed. Seconds of the processor are the median "
        "of a training and its forecasts.",
        reporting.table([*head, "parameters", "s", "rates or ridge"], rows),
        "![A forecast, and the error by week](forecast.svg)",
        f"Networks: `models.tcn` of {settings['channels']} channels and {settings['levels']} "
        f"dilated levels with kernels of 3; {settings['epochs']} epochs, batches of "
        f"{settings['batch_size']}, Adam with rates that fall to 0 along a cosine. The XD "
        "search begins with the same network (`rewrite`); no output depends on a later week.",
    )


def draw(settings, runs, folder):
    """Draw the last forecast of the first seed, and the error by week."""
    figure = Figure((9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    weeks = np.arange(1, HORIZON + 1)
    best = {method: reporting.of_rates(runs, method) for method in RATES}
    best = {method: own for method, own in best.items() if own}
    truth = next(iter(best.values()))[0]["truth"]
    left.plot(np.arange(1 - YEAR, HORIZON + 1), truth, color="black", label="measured")
    for method, own in best.items():
        errors = np.array([run["test"] for run in own])
        (line,) = right.plot(weeks, errors.mean(axis=0), label=TITLES[method])
        left.plot(weeks, own[0]["forecast"], color=line.get_color(), linewidth=1)
    left.set(xlabel="weeks from the last measured one", ylabel="CO2 in ppm")
    left.legend(frameon=False)
    right.set(xlabel="weeks ahead", ylabel="mean absolute error in ppm")
    right.set_ylim(0, 1.4 * right.get_ylim()[1])  # room for the legend
    right.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    figure.savefig(folder / "forecast.svg", metadata={"Date": None})


def main(arguments=None):
    options, results = parse(arguments)

    def measured(*key):
        return run(*key, options)

    def line(record):
        errors = [statistics.mean(record[part]) for part in ("validation", "test")]
        return f"{record['method']}, seed {record['seed']}, {record['rates']}: {errors}"

    reporting.run_rates(results, options, RATES, measured, line, repeated=NETWORKS)
    draw(results.settings, results.runs, options.output)
    return results


if __name__ == "__main__":
    main()
