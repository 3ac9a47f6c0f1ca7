"""Fourier operators of this package beside those of neuraloperator, on its small Darcy flow.

    pip install torch==2.13.0 neuraloperator==2.0.0 onnxscript
    python examples/experiments/xd/neuraloperator.py --data FOLDER --seeds 0 1 2
    python examples/experiments/xd/neuraloperator.py --data FOLDER --measure-speed 3

The folder holds `darcy_train_16.pt`, `darcy_test_16.pt` and `darcy_test_32.pt` of neuraloperator's
public repository. All networks have the same width, modes, blocks, batches, epochs and loss, and
are trained at 16 × 16 by AdamW with rates that fall along a cosine. The rates of each are those of
the least error on 100 samples for validation, with the first seed. Finished runs are kept in the
results and not repeated.
"""

import functools
import importlib.util
import itertools
import json
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import numpy as np

PACKAGES = "torch==2.13.0 neuraloperator==2.0.0 onnxscript"
NAME = "neuraloperator"
SIZES = (16, 32)
VALIDATION = 100  # samples of those for training
SHARE = 0.42  # of the weights, when they are factorised: that of the package's own example
STEPS, ROUNDS = 10, 10  # steps of an epoch and epochs, of which the fastest counts
PEERS = ("FNO", "TFNO")
RATES = {  # of the weights, of the architecture
    **{name: [(2e-3, None), (5e-3, None), (1e-2, None)] for name in PEERS},
    "fourier": [(5e-3, None), (1e-2, None)],
    "xd": [(5e-3, 3e-3), (1e-2, 3e-3), (1e-2, 1e-2)],
    **{name: [(2e-3, None), (5e-3, None), (1e-2, None)] for name in ("paper", "paper-tucker")},
    "paper-xd": [(2e-3, 1e-3), (5e-3, 1e-3), (5e-3, 3e-3), (1e-2, 1e-3)],
}
TITLES = {
    "FNO": "FNO of neuraloperator",
    "TFNO": "TFNO of neuraloperator",
    "fourier": "`models.fno`",
    "xd": "XD search from it, Tucker",
    "paper": "`models.fno`, ReLU",
    "paper-tucker": "`models.fno`, ReLU, Tucker",
    "paper-xd": "XD search, ReLU",
}
TUCKER = {"factorization": "tucker", "rank": SHARE}
OPTIONS = {
    "fourier": {},
    "xd": {"operation": "xd", **TUCKER},
    "paper": {},
    "paper-tucker": TUCKER,
    "paper-xd": {"operation": "xd"},
}
COPY = "weights of FNO"
NUMBERS = {
    "width": (24, "channels of the networks"),
    "modes": (4, "frequencies of an axis, from 0 to it on the last one"),
    "blocks": (4, "of the networks"),
    "epochs": (50, "epochs"),
    "batch_size": (50, "samples of a batch"),
}


# Data


def load(folder):
    """Return inputs and solutions `(samples, size, size, 1)` of each part.

    The coefficient takes two values; what is not for validation makes them of mean 0 and
    deviation 1.
    """
    import torch

    files = {"train": "darcy_train_16", **{size: f"darcy_test_{size}" for size in SIZES}}
    found = {}
    for part, name in files.items():
        both = torch.load(pathlib.Path(folder) / f"{name}.pt", weights_only=True)
        found[part] = [both[key].float().numpy()[..., None] for key in "xy"]
    inputs, targets = found.pop("train")
    found["train"] = inputs[:-VALIDATION], targets[:-VALIDATION]
    found["validation"] = inputs[-VALIDATION:], targets[-VALIDATION:]
    mean, deviation = found["train"][0].mean(), found["train"][0].std()
    return {part: ((x - mean) / deviation, y) for part, (x, y) in found.items()}


def relative_error(outputs, targets):
    """Return the mean relative L2 error."""
    sizes = [np.sqrt(np.sum(x**2, axis=(1, 2, 3))) for x in (outputs - targets, targets)]
    return float(np.mean(sizes[0] / sizes[1]))


# Networks: each has `train(inputs, targets, epochs)`, `predict(inputs)` and `served(folder)`


class OfPackage:
    """A network of this package."""

    def __init__(self, method, seed, rates, steps, decoding, options):
        import fitting
        import keras

        import keras_xd

        keras.utils.set_random_seed(seed)
        width, published = options["width"], method.startswith("paper")
        form = {"lifting": 2 * width, "channel_mlp": width // 2, "activation": "gelu"}
        network = keras_xd.models.fno(
            (SIZES[0], SIZES[0], 3),
            width=width,
            modes=(options["modes"], options["modes"] + 1),
            blocks=options["blocks"],
            projection=2 * width,
            normalization=None,
            **({} if published else form),
            **OPTIONS[method],
        )
        if not published:
            begin(network, seed, biases=method == "fourier")
        self.network = network
        mean, deviation = map(float, decoding)
        self.model = keras.Model(network.input, network.output * deviation + mean)
        self.parameters = sum(int(np.prod(v.shape)) for v in self.model.trainable_variables)
        weights, architecture = (
            rate and keras.optimizers.schedules.CosineDecay(rate, steps) for rate in rates
        )
        settings = {"loss": keras_xd.losses.RelativeL2(), "jit_compile": True}
        weights = keras.optimizers.AdamW(
            weights,
            weight_decay=options["weight_decay"],
            epsilon=1e-7 if published else 1e-6,  # that of neuraloperator
        )
        architecture = keras.optimizers.Adam(architecture) if architecture else None
        self.model = fitting.compiled(self.model, weights, architecture, **settings)
        self.batch_size = options["batch_size"]
        self.rng = np.random.default_rng(seed)
        self.final = None

    def train(self, inputs, targets, epochs):
        """Train; return the seconds of each epoch.

        After `keras.utils.set_random_seed`, `fit` would shuffle all epochs alike.
        """
        import reporting

        clock, seconds, inputs = reporting.EpochClock(), [], self.prepared(inputs)
        for epoch in range(epochs):
            order = self.rng.permutation(len(inputs))
            self.model.fit(
                inputs[order],
                targets[order],
                self.batch_size,
                initial_epoch=epoch,
                epochs=epoch + 1,
                shuffle=False,
                verbose=0,
                callbacks=[clock],
            )
            seconds += clock.seconds
        return seconds

    def predict(self, inputs):
        import keras_xd

        self.final = self.final or keras_xd.finalize(self.model)
        size = inputs.shape[1]
        model = self.final
        if size != SIZES[0]:
            model = keras_xd.resize(model, (size, size, 3))
        return np.asarray(model.predict(self.prepared(inputs), verbose=0))

    def served(self, folder):
        import keras_xd

        path = pathlib.Path(folder) / "model.onnx"
        model = keras_xd.finalize(self.model)
        keras_xd.export(model, path, format="onnx", verbose=False)
        return path

    @staticmethod
    def prepared(inputs):
        """Return inputs with two more channels, which neuraloperator's networks add themselves."""
        size = inputs.shape[1]
        places = np.stack(np.meshgrid(*[np.arange(size) / size] * 2, indexing="ij"), axis=-1)
        places = np.broadcast_to(places, (*inputs.shape[:-1], 2))
        return np.concatenate([inputs, places], axis=-1).astype("float32")


class OfPeer:
    """A network of neuraloperator."""

    def __init__(self, method, seed, rates, steps, decoding, options):
        import warnings

        import torch

        warnings.filterwarnings("ignore")
        from neuralop import models, training

        torch.manual_seed(seed)
        modes = 2 * options["modes"]
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = getattr(models, method)(
            n_modes=(modes, modes),
            in_channels=1,
            out_channels=1,
            hidden_channels=options["width"],
            n_layers=options["blocks"],
            **({"rank": SHARE} if method == "TFNO" else {}),
        ).to(self.device)
        self.parameters = sum(
            p.numel() * (2 if p.is_complex() else 1) for p in self.model.parameters()
        )
        self.optimizer = training.AdamW(
            self.model.parameters(), lr=rates[0], weight_decay=options["weight_decay"]
        )
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)
        self.decoding = [float(number) for number in decoding]
        self.batch_size = options["batch_size"]

    def prepared(self, values):
        import torch

        return torch.tensor(np.moveaxis(values, -1, 1)).to(self.device)

    def outputs(self, inputs):
        mean, deviation = self.decoding
        return self.model(inputs) * deviation + mean

    def train(self, inputs, targets, epochs):
        """Train; return the seconds of each epoch."""
        import torch

        self.model.train()
        inputs, targets = self.prepared(inputs), self.prepared(targets)
        sizes = torch.linalg.vector_norm(targets, dim=(1, 2, 3))
        seconds = []
        for _ in range(epochs):
            start = time.perf_counter()
            order = torch.randperm(len(inputs))
            for batch in order.to(self.device).split(self.batch_size):
                self.optimizer.zero_grad()
                difference = self.outputs(inputs[batch]) - targets[batch]
                errors = torch.linalg.vector_norm(difference, dim=(1, 2, 3)) / sizes[batch]
                errors.mean().backward()
                self.optimizer.step()
                self.schedule.step()
            seconds.append(time.perf_counter() - start)
        return seconds

    def predict(self, inputs):
        import torch

        self.model.eval()
        with torch.no_grad():
            return np.moveaxis(self.outputs(self.prepared(inputs)).cpu().numpy(), 1, -1)

    def served(self, folder):
        import torch

        path = pathlib.Path(folder) / "model.onnx"
        batch = torch.export.Dim("batch", min=1, max=64)
        torch.onnx.export(
            self.model.eval().requires_grad_(False),
            (self.prepared(np.zeros((2, SIZES[0], SIZES[0], 1), "float32")),),
            path,
            dynamo=True,
            verbose=False,
            dynamic_shapes=({0: batch},),
        )
        return path


def begin(network, seed, biases):
    """Draw the weights of operations, and the biases if asked for, as neuraloperator does."""
    rng = np.random.default_rng(seed)
    for layer in network.layers:
        if (
            layer.name.startswith(("spectral", "xd"))
            and getattr(layer, "tucker_rank", None) is None
        ):
            # Both parts of a complex weight are half of its variance, which is 1 / channels. An
            # XD-operation adds two weights to a part, and has fewer channels if it is factorised.
            channels, filters = layer.kernel.shape[-2:]
            width = network.get_layer("lift").units
            deviation = (2 * width) ** -0.5 * width / (channels * filters) ** 0.5
            deviation *= 1 if layer.name.startswith("spectral") else 0.5**0.5
            layer.kernel.assign(rng.normal(size=layer.kernel.shape) * deviation)
        elif biases and getattr(layer, "bias", None) is not None:
            size, shape = layer.kernel.shape[0] ** -0.5, layer.bias.shape
            of_operation = layer.name.startswith("pointwise")
            numbers = rng.normal(size=shape) if of_operation else rng.uniform(-1, 1, shape)
            layer.bias.assign(size * numbers)


def copy_weights(peer, network):
    """Give a network of this package the weights of neuraloperator's FNO `peer`."""

    def linear(layer, module, bias=None):
        bias = module.bias if bias is None else bias
        numbers = module.weight[..., 0].T, bias.flatten()
        network.get_layer(layer).set_weights([array.detach().cpu().numpy() for array in numbers])

    names = ("lifting", "lift", "projection", "outputs")
    for name, module in zip(names, (*peer.lifting.fcs, *peer.projection.fcs), strict=True):
        linear(name, module)
    blocks = peer.fno_blocks
    for index, convolution in enumerate(blocks.convs):
        block = index + 1
        # Frequencies of the first axis rise from the lowest one; here 0 is the first.
        kernel = convolution.weight.to_tensor().detach().cpu().numpy()
        kernel = np.moveaxis(np.fft.ifftshift(kernel, axes=2), (0, 1), (2, 3))
        network.get_layer(f"spectral{block}").set_weights([np.stack([kernel.real, kernel.imag])])
        linear(f"pointwise{block}", blocks.fno_skips[index].conv, convolution.bias)
        for name, module in zip(("mlp", "mlp_outputs"), blocks.channel_mlp[index].fcs, strict=True):
            linear(f"{name}{block}", module)
        gate = blocks.channel_mlp_skips[index].weight.detach().cpu().numpy()
        network.get_layer(f"gate{block}").set_weights([gate.ravel()])


def difference(settings):
    """Return by how much both FNO differ with the same weights, relative to the largest output."""
    peer, own = (network(m, 0, (1e-3, None), 1, (0.0, 1.0), settings) for m in ("FNO", "fourier"))
    copy_weights(peer.model, own.network)
    inputs = np.random.default_rng(0).normal(size=(8, SIZES[0], SIZES[0], 1)).astype("float32")
    expected = peer.predict(inputs)
    return float(np.abs(own.predict(inputs) - expected).max() / np.abs(expected).max())


def network(method, *arguments):
    """Return a network of a method."""
    return (OfPeer if method in PEERS else OfPackage)(method, *arguments)


# Runs


def run(method, seed, rates, data, options, command):
    """Train one network; return its errors for validation and for testing."""
    inputs, targets = data["train"]
    steps = options["epochs"] * -(-len(inputs) // options["batch_size"])
    decoding = targets.mean(), targets.std()
    trained = network(method, seed, rates, steps, decoding, options)
    start = time.perf_counter()
    trained.train(inputs, targets, options["epochs"])
    seconds = time.perf_counter() - start
    errors = {
        str(part): round(relative_error(trained.predict(data[part][0]), data[part][1]), 6)
        for part in ("validation", *SIZES)
    }
    return {
        "method": method,
        "seed": seed,
        "rates": rates,
        "threads": None,  # those of the device
        "errors": errors,
        "parameters": trained.parameters,
        "seconds": round(seconds, 1),
        "device": device(method),
        "versions": versions(method),
        "command": command,
    }


def device(method):
    """Return what computes."""
    if method not in PEERS:
        from experiments.xd import rollout

        return rollout.device()
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def versions(method):
    """Return the versions of what trains a network."""
    import reporting

    peer = method in PEERS
    return reporting.versions(("torch", NAME)) if peer else reporting.backend_versions()


def copied(settings, command):
    """Return the record of what `difference` says."""
    record = {"method": COPY, "seed": None, "rates": None, "threads": None}
    found = {"difference": difference(settings), "versions": versions("FNO")}
    return {**record, **found, "command": command}


def measure(task):
    """Return milliseconds of a step, MiB of its peak and, with one thread, those of a call."""
    import timing
    import torch

    torch.set_num_threads(task["threads"])
    rng = np.random.default_rng(0)
    shape = (STEPS * task["batch_size"], SIZES[0], SIZES[0], 1)
    inputs, targets = (rng.normal(size=shape).astype("float32") for _ in range(2))
    model = network(task["method"], 0, task["rates"], 10_000, (0.0, 1.0), task)
    seconds = []
    growth = timing.memory_growth(lambda: seconds.extend(model.train(inputs, targets, 1 + ROUNDS)))
    found = {"memory": round(growth), "step": round(1e3 * min(seconds) / STEPS, 2)}
    return {**found, "calls": calls(model, inputs)} if task["threads"] == 1 else found


def least_milliseconds(call, rounds):
    """Return the least milliseconds of a call: what else the machine does makes it longer."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def calls(model, inputs):
    """Return what runs a network that is served, and milliseconds of a call by batch size.

    A network without an ONNX file is called in PyTorch; `refused` says why it has none.
    """
    found = {}
    try:
        session, name = in_onnx_runtime(model)
        found["runtime"] = "ONNX Runtime"
    except Exception as error:  # whatever an exporter or a runtime raises
        if not isinstance(model, OfPeer):
            raise
        found |= {"runtime": "PyTorch", "refused": f"{type(error).__name__}: {reason(error)}"}
    for batch in (1, 32):
        x = inputs[:batch]
        call = functools.partial(model.predict, x)
        if found["runtime"] == "ONNX Runtime":
            feed = {name: np.asarray(model.prepared(x))}
            call = functools.partial(session.run, None, feed)
        call()
        found[str(batch)] = round(least_milliseconds(call, 10 * ROUNDS), 3)
    return found


def in_onnx_runtime(model):
    """Return a session with the file of a network, and the name of its input."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        session = onnxruntime.InferenceSession(model.served(folder), settings)
    return session, session.get_inputs()[0].name


def reason(error):
    """Return the first sentence of the error behind an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:160]


def measured(methods, threads, processes, settings, command):
    """Return the times of methods on so many threads, in processes that take turns."""
    import timing

    variables = {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""}
    found = {method: [] for method in methods}
    for _, method in itertools.product(range(processes), methods):
        task = {"method": method, "rates": RATES[method][0], "threads": threads, **settings}
        found[method].append(timing.apart(__file__, task, threads, **variables))
        print(method, threads, found[method][-1], flush=True)
    key = {"seed": None, "rates": None, "threads": threads}
    more = {"load": round(os.getloadavg()[0], 1), "command": command}
    return [
        {"method": method, **key, "processes": times, "versions": versions(method), **more}
        for method, times in found.items()
    ]


# The page


def of_seeds(runs, method):
    """Return the runs of a method with the rates chosen with the first seed, by seed."""
    own = [run for run in runs if run["method"] == method and run["seed"] is not None]
    first = min((run["seed"] for run in own), default=None)
    own_first = [run for run in own if run["seed"] == first]
    best = min(own_first, key=lambda run: run["errors"]["validation"], default=None)
    own = [run for run in own if best and run["rates"] == best["rates"]]
    return sorted(own, key=lambda run: run["seed"])


def beside_peer(runs):
    """Return lines with how far the errors of this package are from those of the FNO beside it."""
    errors = {m: [r["errors"]["16"] for r in of_seeds(runs, m)] for m in RATES}
    means = {m: 100 * float(np.mean(found)) for m, found in errors.items() if found}
    if "FNO" not in means:
        return []
    own = [m for m in means if m not in PEERS]
    texts = [f"{TITLES[m]} {means[m] - means['FNO']:+.2f}" for m in own]
    return [f"At 16 × 16, in points beside the FNO of neuraloperator: {'; '.join(texts)}.", ""]


def page(settings, runs, written):
    """Return the page of results."""
    import reporting

    rows, speeds, notes = [], [], []
    for method in RATES:
        own = of_seeds(runs, method)
        if own:
            parts = ("validation", *map(str, SIZES))
            row = [reporting.spread([100 * r["errors"][part] for r in own], 2) for part in parts]
            weights, architecture = own[0]["rates"]
            rates = f"{weights:g}" + (f", {architecture:g}" if architecture else "")
            row += [f"{own[0]['parameters']:,}", rates, own[0]["device"].partition(",")[0]]
            rows.append([TITLES[method], len(own), *row])
        times = [r for r in runs if r["method"] == method and r["seed"] is None]
        times = {r["threads"]: r["processes"] for r in times}
        if 1 in times:
            row = [TITLES[method]]
            row += [min(p["step"] for p in times[n]) if n in times else "–" for n in (1, 2)]
            own = [process["calls"] for process in times[1]]
            row += [min(p["memory"] for p in times[1]), own[0]["runtime"]]
            row += [f"{min(one[batch] for one in own):.2f}" for batch in ("1", "32")]
            if "refused" in own[0]:
                notes.append(f"- {TITLES[method]}, an ONNX file: {own[0]['refused']}")
            speeds.append(row)
    head = ["network", "seeds", "validation", "16 × 16", "32 × 32", "parameters", "rates"]
    head += ["trained on"]
    trained = [run for run in runs if run["seed"] is not None]
    with_what = {name: reporting.unique(trained, name) for name in ("device", "versions")}
    devices, found = (", ".join(sorted(with_what[name])) for name in ("device", "versions"))
    seconds = sum(run["seconds"] for run in trained)
    lines = [
        "# Beside neuraloperator: its small Darcy flow",
        "",
        f"Written by {reporting.commands(runs)}; trained with {found} on "
        f"{devices}, {seconds:.0f} seconds in all.",
        "",
        "Relative L2 error in percent, mean ± standard deviation over seeds. 900 samples at "
        f"16 × 16 train for {settings['epochs']} epochs in batches of {settings['batch_size']}; "
        "50 others of each size are for testing, and nothing is trained at 32 × 32. The rates (of "
        f"the weights, of the architecture) are those of the least error on {VALIDATION} more "
        "samples for validation, with the first seed.",
        "",
        *reporting.table(head, rows),
        *beside_peer(runs),
        *[
            "With the weights of the FNO of neuraloperator `models.fno` has its outputs, up to "
            f"{run['difference']:.0e} of the largest one.\n"
            for run in runs
            if run["method"] == COPY
        ],
        f"{settings['blocks']} blocks of {settings['width']} channels and {settings['modes']} "
        f"frequencies an axis, {settings['modes'] + 1} on the last (`n_modes` of neuraloperator: "
        f"{2 * settings['modes']}); factorised weights have {SHARE} of the numbers. Inputs and "
        "outputs are normalised by mean and deviation, coordinates are channels; the loss is the "
        f"relative L2 error; AdamW of decay {settings['weight_decay']:g}, rates fall to 0 along a "
        "cosine. `models.fno` and the search from it have the form of neuraloperator's: GELU, a "
        "hidden layer before the blocks, a gated channel MLP behind each, weights of the same "
        "initial size; those of ReLU have no such layers, as the first Fourier neural operator. "
        "None has padding or normalization inside. Operations that are searched with Tucker work "
        "on fewer channels, between two matrices.",
        "",
    ]
    if speeds:
        head = [
            "ms a step, 1 thread",
            "2 threads",
            "peak MiB",
            "served by",
            "batch 1: ms",
            "32: ms",
        ]
        lines += [
            "A training step (ours under XLA, as `fit` makes it), what training adds to the "
            "memory (compiling too), and a call of the served network on one thread of the CPU. "
            f"Each is the least of {ROUNDS} epochs of {STEPS} steps or {10 * ROUNDS} calls, and "
            "the networks take turns, because other programs may run beside them; two threads say "
            "little where these take the cores. The load was "
            f"{max(run.get('load', 0) for run in runs):g} at the end.",
            "",
            *reporting.table(["network", *head], speeds),
            *notes,
            *([""] if notes else []),
        ]
    return "\n".join(lines)


def parse(arguments):
    import parsing
    import reporting

    parser = reporting.parser(__doc__)
    parser.add_argument("--data", help="folder of neuraloperator's files")
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0])
    parser.add_argument("--methods", nargs="+", choices=RATES, default=list(RATES))
    parsing.add(parser, parsing.positive, **NUMBERS)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--measure-speed", type=parsing.whole, default=0, help="processes of each")
    parser.add_argument("--measure", type=json.loads, help="of one process")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    if options.measure:
        return options, None
    if options.data is None:
        parser.error("--data must name the folder of darcy_train_16.pt, of neuraloperator")
    peers = set(PEERS) & set(options.methods)
    if peers and importlib.util.find_spec("neuralop") is None:
        parser.error(f"{', '.join(sorted(peers))} needs neuraloperator: pip install {PACKAGES}")
    shown = ["seeds", "methods", *NUMBERS, "weight_decay", "measure_speed"]
    positional = ("--data", "FOLDER")
    options.command = reporting.command(f"xd/{NAME}.py", parser, options, shown, positional)
    settings = {name: getattr(options, name) for name in (*NUMBERS, "weight_decay")}
    key = ("method", "seed", "rates", "threads")
    return options, reporting.open_results(
        parser, options, NAME, page, settings, options.command, key=key
    )


def main(arguments=None):
    options, results = parse(arguments)
    if results is None:
        print(json.dumps(measure(options.measure)))
        return None
    settings = results.settings
    if options.measure_speed:
        if {"FNO", "fourier"} <= set(options.methods):
            results.obtain((COPY, None, None, None), copied, settings, options.command)
        for threads in (1, 2):
            missing = [m for m in options.methods if not results.find(m, None, None, threads)]
            arguments = (threads, options.measure_speed, settings, options.command)
            for record in measured(missing, *arguments):
                results.add(record)
        results.write()
        return results
    data = load(options.data)

    def obtain(*key):
        record = results.obtain((*key, None), run, *key, data, settings, options.command)
        print(*key, record["errors"], record["seconds"], flush=True)

    first, *others = options.seeds
    for method in options.methods:
        for rates in RATES[method]:
            obtain(method, first, list(rates))
    for method, seed in itertools.product(options.methods, others):
        obtain(method, seed, of_seeds(results.runs, method)[0]["rates"])
    return results


if __name__ == "__main__":
    main()
