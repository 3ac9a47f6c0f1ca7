"""KerasTuner integration of keras_xd: oracles and hypermodels that drive its search spaces.

The package needs the extra requirements of `pip install "keras_xd[tuner]"`; importing it does not.
"""

from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING

from keras_xd.core.moved_names import attribute_error as _attribute_error

__all__ = [
    "GrammarOracle",
    "GrammarTuner",
    "HalvingOracle",
    "SearchHyperModel",
]

_MISSING = [name for name in ("keras_tuner", "scipy", "sklearn") if _find_spec(name) is None]

if not _MISSING:
    from tuner_integration.oracle import GrammarOracle
    from tuner_integration.search_hypermodel import SearchHyperModel
    from tuner_integration.successive_halving import HalvingOracle
    from tuner_integration.tuner import GrammarTuner


# Names of 0.2 that are private now.
_MOVED = {
    "GaussianProcess": "tuner_integration.gaussian_process.GaussianProcess",
    "HierarchicalKernel": "tuner_integration.kernels.HierarchicalKernel",
    "PointSpace": "tuner_integration.points.PointSpace",
    "Surrogate": "tuner_integration.surrogate.Surrogate",
    "WeisfeilerLehman": "tuner_integration.kernels.WeisfeilerLehman",
}
_no_attribute = _attribute_error(__name__, _MOVED)

if not TYPE_CHECKING:

    def __getattr__(name):
        if _MISSING and not name.startswith("_"):
            raise ImportError(
                f"tuner_integration.{name} needs `pip install 'keras_xd[tuner]'`. "
                f"Missing: {', '.join(_MISSING)}"
            )
        return _no_attribute(name)
