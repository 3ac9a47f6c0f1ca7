"""Layers: searchable operations, the plain ones they become, and baselines."""

from typing import TYPE_CHECKING

from keras_xd.core.moved_names import attribute_error as _attribute_error
from keras_xd.core.searchable import SearchableLayer
from keras_xd.graph import replacing as _replacing  # noqa: F401 (registers its classes)
from keras_xd.layers.ccnn.batch_statistics import BatchStatisticsNormalization
from keras_xd.layers.ccnn.block import CCNNBlock
from keras_xd.layers.ccnn.ck_conv import CKConv1D, CKConv2D, FlexConv1D, FlexConv2D
from keras_xd.layers.ccnn.encoder import CCNNEncoder, StaticCCNNEncoder
from keras_xd.layers.ccnn.finalized_block import StaticCCNNBlock
from keras_xd.layers.ccnn.finalized_ck_conv import StaticCKConv
from keras_xd.layers.ccnn.kernel_network import KernelNetwork
from keras_xd.layers.cells.cutout import Cutout
from keras_xd.layers.cells.derived_cell import DerivedCell
from keras_xd.layers.cells.relaxed_cell import HeterogeneousCell, derived_genotype
from keras_xd.layers.cells.self_calibration import SelfCalibration
from keras_xd.layers.fourier.continuation import FourierContinuation
from keras_xd.layers.fourier.point_normalization import PointNormalization
from keras_xd.layers.fourier.points import GridToPoints, PointsToGrid
from keras_xd.layers.fourier.resampling import FourierResampling
from keras_xd.layers.fourier.spectral_conv import (
    SpectralConv,
    SpectralConv1D,
    SpectralConv2D,
    SpectralConv3D,
)
from keras_xd.layers.fourier.upsampling import FourierUpsampling
from keras_xd.layers.k import k_dense as _k_dense  # noqa: F401 (registers its classes)
from keras_xd.layers.k.k_operation import (
    KOpCausalConv1D,
    KOpConv,
    KOpConv1D,
    KOpConv2D,
    KOpConv3D,
    KOperation,
)
from keras_xd.layers.masked.branch import MaskedBranch
from keras_xd.layers.masked.convolutions import (
    MaskedConv1D,
    MaskedConv2D,
    MaskedDense,
    MaskedDepthwiseConv1D,
    MaskedDepthwiseConv2D,
)
from keras_xd.layers.masked.differentiable_mask import DifferentiableMask
from keras_xd.layers.masked.finalized_mask import StaticMask
from keras_xd.layers.mixed.dash_conv import DashConv1D, DashConv2D, DashConv3D
from keras_xd.layers.mixed.discrete_operation import DiscreteOperation
from keras_xd.layers.mixed.mixed_operation import (
    MixedOperation1D,
    MixedOperation2D,
)
from keras_xd.layers.structured.dense import StructuredDense
from keras_xd.layers.structured.einsum_dense import StructuredEinsumDense
from keras_xd.layers.structured.embedding import StructuredEmbedding
from keras_xd.layers.structured.mixed import (
    MixedDense,
    MixedEinsumDense,
    MixedEmbedding,
    MixedGRU,
    MixedLSTM,
)
from keras_xd.layers.structured.recurrent import StructuredGRU, StructuredLSTM
from keras_xd.layers.weight_normalization import WeightNormalizedConv1D
from keras_xd.layers.xd import warm_starts
from keras_xd.layers.xd.causal import XDCausalConv1D
from keras_xd.layers.xd.conv import (
    XDConv,
    XDConv1D,
    XDConv1DTranspose,
    XDConv2D,
    XDConv2DTranspose,
    XDConv3D,
    XDConv3DTranspose,
)
from keras_xd.layers.xd.depthwise import XDDepthwiseConv1D, XDDepthwiseConv2D
from keras_xd.layers.xd.finalized import StaticKernelXD, StaticXD
from keras_xd.layers.xd.finalized_low_rank import StaticLowRankXD
from keras_xd.layers.xd.resampled import Resampled, SearchableResampled
from keras_xd.layers.xd.separable import XDSeparableConv1D, XDSeparableConv2D

__all__ = [
    "BatchStatisticsNormalization",
    "CCNNBlock",
    "CCNNEncoder",
    "CKConv1D",
    "CKConv2D",
    "Cutout",
    "DashConv1D",
    "DashConv2D",
    "DashConv3D",
    "DerivedCell",
    "DifferentiableMask",
    "DiscreteOperation",
    "FlexConv1D",
    "FlexConv2D",
    "FourierContinuation",
    "FourierResampling",
    "FourierUpsampling",
    "GridToPoints",
    "HeterogeneousCell",
    "KOpCausalConv1D",
    "KOpConv",
    "KOpConv1D",
    "KOpConv2D",
    "KOpConv3D",
    "KOperation",
    "KernelNetwork",
    "MaskedBranch",
    "MaskedConv1D",
    "MaskedConv2D",
    "MaskedDense",
    "MaskedDepthwiseConv1D",
    "MaskedDepthwiseConv2D",
    "MixedDense",
    "MixedEinsumDense",
    "MixedEmbedding",
    "MixedGRU",
    "MixedLSTM",
    "MixedOperation1D",
    "MixedOperation2D",
    "PointNormalization",
    "PointsToGrid",
    "Resampled",
    "SearchableLayer",
    "SearchableResampled",
    "SelfCalibration",
    "SpectralConv",
    "SpectralConv1D",
    "SpectralConv2D",
    "SpectralConv3D",
    "StaticCCNNBlock",
    "StaticCCNNEncoder",
    "StaticCKConv",
    "StaticKernelXD",
    "StaticLowRankXD",
    "StaticMask",
    "StaticXD",
    "StructuredDense",
    "StructuredEinsumDense",
    "StructuredEmbedding",
    "StructuredGRU",
    "StructuredLSTM",
    "WeightNormalizedConv1D",
    "XDCausalConv1D",
    "XDConv",
    "XDConv1D",
    "XDConv1DTranspose",
    "XDConv2D",
    "XDConv2DTranspose",
    "XDConv3D",
    "XDConv3DTranspose",
    "XDDepthwiseConv1D",
    "XDDepthwiseConv2D",
    "XDSeparableConv1D",
    "XDSeparableConv2D",
    "derived_genotype",
    "warm_starts",
]

# Layers of earlier versions that are private by convention now: parts of others, and classes of any
# rank, of which those of one rank do the same.
_PRIVATE = (
    "ccnn.ck_conv.CKConv",
    "cells.architecture_logits.ArchitectureLogits",
    "cells.attention.ChannelAttention",
    "cells.attention.SpatialAttention",
    "cells.dynamic_conv.DynamicConv2D",
    "k.k_dense.KDense",
    "k.k_dense.KLayer",
    "masked.depth_mask.DepthMask",
    "masked.depth_mask.StaticDepthMask",
    "masked.relative_mask.RelativeMask",
    "mixed.dash_conv.DashConv",
    "mixed.mixed_operation.MixedOperation",
    "xd.conv.XDConvTranspose",
    "xd.depthwise.XDDepthwiseConv",
    "xd.separable.XDSeparableConv",
)

# Other public names of earlier versions.
_MOVED = {
    **{path.rpartition(".")[2]: f"keras_xd.layers.{path}" for path in _PRIVATE},
    "CellArchitecture": "keras_xd.layers.cells.architecture_logits.ArchitectureLogits",
    "DynamicKernel": "keras_xd.layers.cells.dynamic_conv.DynamicKernel",
    "FactorizedReduce": "keras_xd.layers.cells.features.FactorizedReduce",
    "FactorizedReduction": "keras_xd.layers.cells.features.FactorizedReduce",
    "FeatureOperation": "keras_xd.layers.cells.features.FeatureOperation",
    "NOS_OPERATIONS": "keras_xd.genotypes.NOS_OPERATIONS",
    "PointwiseOperation": "keras_xd.layers.cells.features.ReLUConvBN",
    "StructuredGRUCell": "keras_xd.layers.structured.recurrent.StructuredGRUCell",
    "StructuredLSTMCell": "keras_xd.layers.structured.recurrent.StructuredLSTMCell",
    "count_activations": "keras_xd.graph.size_counts.count_activations",
    "count_parameters": "keras_xd.graph.size_counts.count_parameters",
    "distance": "keras_xd.operation_distance",
    "nearest": "keras_xd.nearest_operation",
    "penalties": "keras_xd.regularizers",
    "update_rendering": "keras_xd.layers.ccnn.rendering.update_rendering",
    "use_statistics": "keras_xd.layers.ccnn.batch_statistics.use_statistics",
}

if not TYPE_CHECKING:
    __getattr__ = _attribute_error(__name__, _MOVED)
