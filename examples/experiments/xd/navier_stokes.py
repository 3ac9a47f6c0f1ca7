"""Navier–Stokes in 2-D and time: CNN, Fourier neural operator and XD search.

    python examples/experiments/xd/navier_stokes.py
    python examples/experiments/xd/navier_stokes.py --viscosity 1e-4 --recipe operator --epochs 20
    python examples/experiments/xd/navier_stokes.py --paper --viscosity 1e-5 \\
        --data-dir path/of/the/data

The map from the vorticity at ten times to that at the times after them, all at once, by networks
over both axes of space and that of time. Without a data folder the data are generated. See
`pde_experiment.py` for what is done.
"""

import dataclasses
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import numpy as np
import parsing
from datasets import navier_stokes
from datasets.plain_files import VARIABLE

from experiments.xd import pde_experiment

FILES = {  # by their viscosity
    "1e-3": "ns_V1e-3_N5000_T50.mat",
    "1e-4": "ns_V1e-4_N10000_T30.mat",
    "1e-5": "NavierStokes_V1e-5_N1200_T20.mat",
}
PAPER = {"1e-3": "1e-4", "1e-4": "1e-4", "1e-5": "1e-5"}  # whose settings each has
STEPS = {"1e-3": 20, "1e-4": 20, "1e-5": 10}
MODES = {"1e-5": [8, 8, 4]}  # of ten times eight frequencies are too many


def load(resolution, data_dir, train, test, viscosity, history, steps):
    """Return two pairs of the first times with coordinates, and of the times after them.

    Inputs are `(number, resolution, resolution, steps, history + 3)`.
    """
    folder = data_dir or os.environ.get(VARIABLE)
    path = pathlib.Path(folder, FILES[viscosity]) if folder else None
    options = {} if folder else {"viscosity": float(viscosity)}
    times = history + steps
    parts = navier_stokes.navier_stokes(resolution, times, train, test, path, **options)
    places, later = np.arange(resolution) / resolution, np.arange(1, steps + 1) / steps
    coordinates = np.stack(np.meshgrid(places, places, later, indexing="ij"), axis=-1)
    pairs = []
    for flows in parts:
        before = np.repeat(flows[..., None, :history], steps, axis=3)
        where = np.broadcast_to(coordinates, (len(flows), *coordinates.shape))
        inputs = np.concatenate([before, where], axis=-1).astype("float32")
        pairs.append((inputs, flows[..., history:, None]))
    return pairs


def paper(options):
    """Return the options of the paper for a viscosity."""
    name = PAPER[options.viscosity]
    more = {"recipe": f"paper-{name}", "history": 10, "steps": STEPS[options.viscosity]}
    found = pde_experiment.paper_options(f"navier_stokes_{name}", **more)
    return found | {"modes": MODES.get(options.viscosity, found["modes"])}


OPERATOR = dataclasses.replace(
    pde_experiment.OPERATOR,
    symmetries=False,
    weights_rate=pde_experiment.paper_recipe("navier_stokes_1e-4").weights_rate,
)
PROBLEM = pde_experiment.Problem(
    name="navier_stokes",
    load=load,
    resolutions=(16,),
    epochs=5,
    width=8,
    modes=4,
    recipes={
        **{
            f"paper-{name}": pde_experiment.paper_recipe(f"navier_stokes_{name}")
            for name in ("1e-4", "1e-5")
        },
        "operator": OPERATOR,
    },
    symmetry=None,
    orbit=None,
    normalize=True,
    jit_compile=False,
    published={},
    paper=paper,
    samples=(60, 20),
    flags={
        "viscosity": {"choices": tuple(FILES), "default": "1e-3"},
        "history": {"type": parsing.positive, "default": 10, "help": "times that are given"},
        "steps": {"type": parsing.positive, "default": 10, "help": "times that are told"},
    },
)


def main(arguments=None):
    """Run the experiment; return the records of all runs."""
    return pde_experiment.main(PROBLEM, arguments)


if __name__ == "__main__":
    main()
