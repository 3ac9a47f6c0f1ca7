"""Callbacks that a search adds to Keras' own."""

from keras_xd.training.callbacks.architecture_board import ArchitectureBoard
from keras_xd.training.callbacks.collapse_guard import CollapseGuard
from keras_xd.training.callbacks.complexity_weight import ComplexityWeight
from keras_xd.training.callbacks.drop_path_schedule import DropPathSchedule
from keras_xd.training.callbacks.dynamic_rendering import DynamicRendering
from keras_xd.training.callbacks.genotype_logger import GenotypeLogger
from keras_xd.training.callbacks.non_finite import TerminateOnNonFinite
from keras_xd.training.callbacks.perturbation_selection import PerturbationSelection
from keras_xd.training.callbacks.temperature_schedule import TemperatureSchedule
from keras_xd.training.callbacks.warm_restarts import WarmRestarts

__all__ = [
    "ArchitectureBoard",
    "CollapseGuard",
    "ComplexityWeight",
    "DropPathSchedule",
    "DynamicRendering",
    "GenotypeLogger",
    "PerturbationSelection",
    "TemperatureSchedule",
    "TerminateOnNonFinite",
    "WarmRestarts",
]
