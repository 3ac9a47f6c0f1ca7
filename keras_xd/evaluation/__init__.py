"""Evaluation of a search over seeds, by the literature's protocols; retraining."""

from keras_xd.evaluation.protocols import Evaluation, Run, Task, evaluate_search
from keras_xd.evaluation.retraining import choose_settings, retrain

__all__ = ["Evaluation", "Run", "Task", "choose_settings", "evaluate_search", "retrain"]
