"""Rollouts of a flow: one step of the Navier–Stokes equations learned, ten steps predicted.

    python examples/experiments/xd/rollout.py
    KERAS_BACKEND=jax python examples/experiments/xd/rollout.py --resolution 64 --train 200 \\
        --evaluation 50 --width 32 --modes 12 --epochs 20 --seeds 0 1 2

The vorticity of a forced flow on the torus and the coordinates, to the vorticity a unit of time
later; then each answer is the next input, from time `--start` on. Networks are `models.fno` with
convolutions, Fourier operators and XD-operations. The rates of each are those of the least error of
rollouts on flows for validation, with the first seed; flows for testing are other ones. Finished
runs are kept in the results and not repeated.
"""

import concurrent.futures
import os
import pathlib
import statistics
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import fitting
import keras
import numpy as np
import parsing
import reporting
from datasets import navier_stokes
from matplotlib.figure import Figure

import keras_xd

STEPS = 10
TIMES = (1, 5, 10)  # whose errors are told
RATES = {  # of the weights, of the architecture
    "convolution": [(1e-3, None), (3e-3, None)],
    "fourier": [(1e-3, None), (3e-3, None)],
    "xd": [(1e-3, 1e-4), (1e-3, 1e-3), (3e-3, 1e-4), (3e-3, 1e-3)],
}
TITLES = {"convolution": "convolutions", "fourier": "Fourier operator", "xd": "XD search"}
NUMBERS = {
    "resolution": (16, "points of a side"),
    "train": (40, "flows"),
    "evaluation": (10, "flows for validation, and as many others for testing"),
    "start": (10, "time from which rollouts begin"),
    "width": (8, "channels of the networks"),
    "modes": (4, "frequencies kept on an axis; convolutions have one point more"),
    "blocks": (4, "of the networks"),
    "epochs": (5, "epochs"),
    "batch_size": (20, "pairs of states"),
}


def generate(number, resolution, times, first_seed):
    """Return flows `(number, times, resolution, resolution, 1)`, by one thread a core."""
    count = min(os.cpu_count(), number)
    sizes = [number * (i + 1) // count - number * i // count for i in range(count)]
    seeds = range(first_seed, first_seed + count)
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        parts = list(
            pool.map(
                lambda size, seed: navier_stokes.generate_navier_stokes(
                    size, resolution, times, seed=seed
                ),
                sizes,
                seeds,
            )
        )
    return np.moveaxis(np.concatenate(parts), -1, 1)[..., None].astype("float32")


def with_coordinates(states):
    """Return states with two more channels, the coordinates, which tell where the force is."""
    size = states.shape[-2]
    places = np.stack(np.meshgrid(*[np.arange(size) / size] * 2, indexing="ij"), axis=-1)
    places = np.broadcast_to(places, (*states.shape[:-1], 2))
    return np.concatenate([states, places], axis=-1).astype("float32")


def load(options):
    """Return flows for training, validation and testing."""
    numbers = (options.train, options.evaluation, options.evaluation)
    times = options.start + STEPS
    return [
        generate(number, options.resolution, times, 1000 * part)
        for part, number in enumerate(numbers)
    ]


def parse(arguments):
    parser = reporting.parser(__doc__)
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0])
    parser.add_argument("--methods", nargs="+", choices=RATES, default=list(RATES))
    parsing.add(parser, parsing.positive, **NUMBERS)
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    shown = ["seeds", "methods", *NUMBERS]
    options.command = reporting.command("xd/rollout.py", parser, options, shown)
    settings = {name: getattr(options, name) for name in NUMBERS}
    key = ("method", "seed", "rates")
    return options, reporting.open_results(
        parser, options, "rollout", page, settings, options.command, key=key
    )


def run(method, seed, rates, flows, options):
    """Train one network; return its errors on flows for validation and for testing."""
    keras.utils.set_random_seed(seed)
    train, validation, test = flows
    shape = (options.resolution, options.resolution, 3)
    model = keras_xd.models.fno(
        shape,
        width=options.width,
        modes=options.modes,
        blocks=options.blocks,
        operation=method,
        normalization=None,
    )
    inputs = with_coordinates(train[:, :-1].reshape(-1, *train.shape[2:]))
    targets = train[:, 1:].reshape(-1, *train.shape[2:])
    steps = options.epochs * -(-len(inputs) // options.batch_size)
    optimizers = [fitting.adam(rate, steps) for rate in rates if rate]
    clock = reporting.EpochClock()
    model = fitting.compiled(model, *optimizers, loss=keras_xd.losses.RelativeL2())
    model.fit(
        inputs,
        targets,
        batch_size=options.batch_size,
        epochs=options.epochs,
        callbacks=[clock],
        verbose=0,
    )
    final = keras_xd.finalize(model) if method == "xd" else model
    errors = {}
    for name, part in (("validation", validation), ("test", test)):
        first = options.start - 1
        found = keras_xd.rollout(final, with_coordinates(part[:, first]), STEPS, fixed=2)
        errors[name] = relative_errors(found, part[:, first + 1 :][:, :STEPS])
    return {
        "method": method,
        "seed": seed,
        "rates": rates,
        **errors,
        "parameters": reporting.count(model.trainable_variables),
        "finalized_parameters": final.count_params(),
        "seconds": clock.seconds,
        "device": device(),
        "command": options.command,
    }


def relative_errors(found, truth):
    """Return the mean relative L2 error at each step."""
    axes = (2, 3, 4)
    sizes = np.sqrt(np.sum(truth**2, axis=axes))
    return (np.sqrt(np.sum((found - truth) ** 2, axis=axes)) / sizes).mean(axis=0).tolist()


def device():
    """Return what computes."""
    if keras.backend.backend() == "jax":
        import jax

        return str(jax.devices()[0].device_kind)
    return "cpu"


def page(settings, runs, written):
    """Return the page of results."""
    rows = []
    for method in reporting.present(runs, "method", list(RATES)):
        own = reporting.of_rates(runs, method)
        row = [TITLES[method], str(len(own))]
        row += [reporting.spread([100 * run["test"][t - 1] for run in own], 2) for t in TIMES]
        sizes = {f"{run['parameters']:,}" for run in own}
        row += [", ".join(sorted(sizes))]
        seconds = [second for run in own for second in run["seconds"][1:] or run["seconds"]]
        row += [f"{statistics.median(seconds):.2f}"]
        weights, architecture = own[0]["rates"]
        rows.append([*row, f"{weights:g}" + (f", {architecture:g}" if architecture else "")])
    head = ["network", "seeds", *(f"step {time}" for time in TIMES)]
    devices = ", ".join(sorted({run["device"] for run in runs}))
    return reporting.markdown(
        "Rollouts of a flow by one learned step",
        f"Written by {reporting.commands(runs)}; {written['versions']}; on {devices}.",
        "Relative L2 error in percent of the vorticity, mean ± standard deviation over seeds. "
        f"{settings['train']} flows of {settings['start'] + STEPS} times on "
        f"{settings['resolution']} × {settings['resolution']} points, of viscosity "
        f"{navier_stokes.VISCOSITY:g}, train one step for {settings['epochs']} epochs; "
        f"rollouts from time {settings['start']} of {settings['evaluation']} flows for "
        "testing. Rates (of the weights, of the architecture) are those of the least error of "
        "rollouts on as many other flows, with the first seed. Seconds are the median over "
        "epochs but the first.",
        reporting.table([*head, "parameters", "s an epoch", "rates"], rows),
        "![Error by step](rollout.svg)",
        f"{settings['blocks']} blocks of {settings['width']} channels and {settings['modes']} "
        f"frequencies an axis, batches of {settings['batch_size']}, no normalization; Adam, "
        "with rates that fall to 0 along a cosine; loss: relative L2 of one step.",
    )


def draw(runs, folder):
    """Draw the error by step."""
    figure = Figure((5, 3.2), layout="constrained")
    axes = figure.subplots()
    steps = np.arange(1, STEPS + 1)
    for method in reporting.present(runs, "method", list(RATES)):
        errors = 100 * np.array([run["test"] for run in reporting.of_rates(runs, method)])
        mean, spread = errors.mean(axis=0), errors.std(axis=0)
        (line,) = axes.plot(steps, mean, label=TITLES[method])
        axes.fill_between(steps, mean - spread, mean + spread, color=line.get_color(), alpha=0.2)
    axes.set(xlabel="step of the rollout", ylabel="relative L2 error in %", yscale="log")
    axes.legend(frameon=False)
    figure.savefig(folder / "rollout.svg")


def main(arguments=None):
    options, results = parse(arguments)
    flows = load(options)

    def measured(method, seed, rates):
        return run(method, seed, rates, flows, options)

    def line(record):
        errors = [record["test"][time - 1] for time in TIMES]
        return f"{record['method']}, seed {record['seed']}, {record['rates']}: {errors}"

    reporting.run_rates(results, options, RATES, measured, line, repeated=RATES)
    draw(results.runs, options.output)
    return results


if __name__ == "__main__":
    main()
