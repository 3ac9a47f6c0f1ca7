"""Callbacks that a search adds to Keras' own."""

from keras_xd.search.callbacks.architecture_board import ArchitectureBoard
from keras_xd.search.callbacks.collapse_guard import CollapseGuard
from keras_xd.search.callbacks.complexity_weight import ComplexityWeight
from keras_xd.search.callbacks.drop_path_schedule import DropPathSchedule
from keras_xd.search.callbacks.dynamic_rendering import DynamicRendering
from keras_xd.search.callbacks.genotype_logger import GenotypeLogger
from keras_xd.search.callbacks.non_finite import TerminateOnNonFinite
from keras_xd.search.callbacks.path_rescaling import PathRescaling
from keras_xd.search.callbacks.perturbation_selection import PerturbationSelection
from keras_xd.search.callbacks.temperature_schedule import TemperatureSchedule
from keras_xd.search.callbacks.warm_restarts import WarmRestarts

__all__ = [
    "ArchitectureBoard",
    "CollapseGuard",
    "ComplexityWeight",
    "DropPathSchedule",
    "DynamicRendering",
    "GenotypeLogger",
    "PathRescaling",
    "PerturbationSelection",
    "TemperatureSchedule",
    "TerminateOnNonFinite",
    "WarmRestarts",
]
