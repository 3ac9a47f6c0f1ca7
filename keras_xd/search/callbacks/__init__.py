"""Callbacks that a search adds to Keras' own."""

from keras_xd.search.callbacks.architecture_board import ArchitectureBoard as ArchitectureBoard
from keras_xd.search.callbacks.collapse_guard import CollapseGuard as CollapseGuard
from keras_xd.search.callbacks.complexity_weight import ComplexityWeight as ComplexityWeight
from keras_xd.search.callbacks.drop_path_schedule import DropPathSchedule as DropPathSchedule
from keras_xd.search.callbacks.dynamic_rendering import DynamicRendering as DynamicRendering
from keras_xd.search.callbacks.genotype_logger import GenotypeLogger as GenotypeLogger
from keras_xd.search.callbacks.non_finite import TerminateOnNonFinite as TerminateOnNonFinite
from keras_xd.search.callbacks.warm_restarts import WarmRestarts as WarmRestarts
