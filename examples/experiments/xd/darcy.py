"""Darcy flow: CNN, Fourier neural operator and XD search, by the XD paper's recipe or another.

    python examples/experiments/xd/darcy.py
    python examples/experiments/xd/darcy.py --recipe operator --resolution 29 43 --epochs 20
    python examples/experiments/xd/darcy.py --resolution 57 --also-at 29 71 141 --nodes 281
    python examples/experiments/xd/darcy.py --paper --data-dir path/of/the/data

The map from a porous medium's coefficient to the pressure in it. Without a data folder the data
are generated. `--paper` trains at 85 points and evaluates at 106 to 421, too. See
`pde_experiment.py` for what is done, and `examples/results/darcy.md`.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import numpy as np
import parsing
from datasets import pde
from scipy import interpolate

from experiments.xd import pde_experiment

NODES = 421  # of an axis, in the published files


def between(statistics, sizes):
    """Return statistics of each point, none below 0, at other points of the square, by splines."""
    for axis, size in enumerate(sizes):
        places, new = np.linspace(0, 1, statistics.shape[axis]), np.linspace(0, 1, size)
        statistics = interpolate.CubicSpline(places, statistics, axis)(new)
    return np.maximum(statistics, 0)


PROBLEM = pde_experiment.Problem(
    name="darcy",
    load=pde.darcy,
    resolutions=(29,),
    epochs=3,
    width=32,
    modes=12,
    recipes=pde_experiment.recipes("darcy", pde_experiment.OPERATOR),
    symmetry=pde.darcy_symmetry,
    orbit=lambda fields: np.concatenate([pde.turned(fields, number) for number in range(8)]),
    normalize=True,
    jit_compile=False,
    published={85: (0.0404, 0.0096, 0.0065)},
    paper=lambda options: pde_experiment.paper_options("darcy", nodes=NODES),
    flags={
        "nodes": {"type": parsing.positive, "help": "of an axis that the equation is solved on"}
    },
    between=between,
)


def main(arguments=None):
    """Run the experiment; return the records of all runs."""
    return pde_experiment.main(PROBLEM, arguments)


if __name__ == "__main__":
    main()
