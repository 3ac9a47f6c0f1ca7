"""Evaluation of a search over seeds, by the protocols of the literature."""

from keras_xd.evaluation.protocols import Evaluation, Run, Task, evaluate_search

__all__ = [
    "Evaluation",
    "Run",
    "Task",
    "evaluate_search",
]
