"""Darcy flow: CNN, Fourier neural operator and XD search, by the XD paper's recipe or another.

    python examples/experiments/xd/darcy.py
    python examples/experiments/xd/darcy.py --recipe operator --resolution 29 43 --epochs 20
    python examples/experiments/xd/darcy.py --resolution 85 --epochs 50 --data-dir path/of/the/data

The map from a porous medium's coefficient to the pressure in it. Without a data folder the data
are generated. See `pde_experiment.py` for what is done, and `examples/results/darcy.md`.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import numpy as np
from datasets import pde

from experiments.xd import pde_experiment

PROBLEM = pde_experiment.Problem(
    name="darcy",
    load=pde.darcy,
    resolutions=(43,),
    epochs=50,
    width=32,
    modes=12,
    recipes=pde_experiment.recipes("darcy", pde_experiment.OPERATOR),
    symmetry=pde.darcy_symmetry,
    orbit=lambda fields: np.concatenate([pde.turned(fields, number) for number in range(8)]),
    normalize=True,
    jit_compile=False,
    published={85: (0.0404, 0.0096, 0.0065)},
)


def main(arguments=None):
    """Run the experiment; return the records of all runs."""
    return pde_experiment.main(PROBLEM, arguments)


if __name__ == "__main__":
    main()
