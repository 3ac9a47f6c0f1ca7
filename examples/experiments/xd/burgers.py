"""Burgers' equation: CNN, Fourier neural operator and XD search, by the paper's recipe or another.

    python examples/experiments/xd/burgers.py
    python examples/experiments/xd/burgers.py --recipe operator --epochs 40 --also-at 1024
    python examples/experiments/xd/burgers.py --resolution 256 1024 --epochs 100 25 \\
        --train 1000 --data-dir path/of/the/data
    python examples/experiments/xd/burgers.py --paper

The map from the velocity at time 0 to that at time 1. Without a data folder the data are
generated. `--paper` trains at 256 points and evaluates at 512 to 8,192, too. See
`pde_experiment.py` for what is done, and `examples/results/burgers.md`.
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
    epochs=5,
    width=64,
    modes=16,
    recipes=pde_experiment.recipes(
        "burgers", dataclasses.replace(pde_experiment.OPERATOR, normalization=None)
    ),
    symmetry=pde.burgers_symmetry,
    orbit=None,
    normalize=False,
    jit_compile=True,
    paper=lambda options: pde_experiment.paper_options("burgers"),
    published={256: (0.0518, 0.0181, 0.0141), 1024: (0.1830, 0.0188, 0.0154)},
)


def main(arguments=None):
    """Run the experiment; return the records of all runs."""
    return pde_experiment.main(PROBLEM, arguments)


if __name__ == "__main__":
    main()
