"""Evaluation of a search over seeds, by the literature's protocols; retraining."""

from keras_xd.core.moved_names import attribute_error as _attribute_error
from keras_xd.evaluation.conformal import conformal_margin
from keras_xd.evaluation.protocols import Evaluation, Task, evaluate_search
from keras_xd.evaluation.retraining import choose_settings, retrain

__all__ = [
    "Evaluation",
    "Task",
    "choose_settings",
    "conformal_margin",
    "evaluate_search",
    "retrain",
]

# Public names of earlier versions.
_MOVED = {
    "Run": "keras_xd.evaluation.protocols.Run",
    "SettingTrial": "keras_xd.evaluation.retraining.SettingTrial",
    "SettingsChoice": "keras_xd.evaluation.retraining.SettingsChoice",
}

__getattr__ = _attribute_error(__name__, _MOVED)
