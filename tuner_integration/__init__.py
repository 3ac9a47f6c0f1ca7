"""KerasTuner integration of keras_xd: oracles and hypermodels that drive its search spaces.

The package needs the extra requirements of `pip install "keras_xd[tuner]"`; importing it does not.
"""

import importlib.util

_MISSING = [name for name in ("keras_tuner", "scipy") if importlib.util.find_spec(name) is None]

if not _MISSING:
    from tuner_integration.gaussian_process import GaussianProcess as GaussianProcess
    from tuner_integration.kernels import HierarchicalKernel as HierarchicalKernel
    from tuner_integration.kernels import WeisfeilerLehman as WeisfeilerLehman
    from tuner_integration.oracle import GrammarOracle as GrammarOracle
    from tuner_integration.points import PointSpace as PointSpace
    from tuner_integration.search_hypermodel import SearchHyperModel as SearchHyperModel
    from tuner_integration.surrogate import Surrogate as Surrogate
    from tuner_integration.tuner import GrammarTuner as GrammarTuner


def __getattr__(name):
    if _MISSING and not name.startswith("_"):
        raise ImportError(
            f"tuner_integration.{name} needs `pip install 'keras_xd[tuner]'`. "
            f"Missing: {', '.join(_MISSING)}"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
