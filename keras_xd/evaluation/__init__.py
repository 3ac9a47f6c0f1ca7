"""Evaluation of a search over seeds, by the protocols of the literature."""

from keras_xd.evaluation.protocols import Evaluation as Evaluation
from keras_xd.evaluation.protocols import Run as Run
from keras_xd.evaluation.protocols import Task as Task
from keras_xd.evaluation.protocols import evaluate_search as evaluate_search
