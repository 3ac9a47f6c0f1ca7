"""Burgers' equation: CNN, Fourier neural operator and XD search, by the paper's recipe or another.

    python examples/experiments/xd/burgers.py
    python examples/experiments/xd/burgers.py --recipe operator --epochs 40 --also-at 1024
    python examples/experiments/xd/burgers.py --resolution 256 1024 --epochs 100 25 \\
        --data-dir path/of/the/data

The map from the velocity at time 0 to that at time 1. Without a data folder the data are
generated. See `pde_experiment.py` for what is done, and `examples/results/burgers.md`.
"""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

from datasets import pde

from experiments.xd import pde_experiment

PROBLEM = pde_experiment.Problem(
    name="burgers",
    load=pde.burgers,
    resolutions=(256,),
    epochs=100,
    width=64,
    modes=16,
    recipes=pde_experiment.recipes(
        "burgers", dataclasses.replace(pde_experiment.OPERATOR, normalization=None)
    ),
    symmetry=pde.burgers_symmetry,
    orbit=None,
    normalize=False,
    jit_compile=True,
    published={256: (0.0518, 0.0181, 0.0141), 1024: (0.1830, 0.0188, 0.0154)},
)


def main(arguments=None):
    """Run the experiment; return the records of all runs."""
    return pde_experiment.main(PROBLEM, arguments)


if __name__ == "__main__":
    main()
