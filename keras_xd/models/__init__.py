"""Networks of the papers: small functions that return an ordinary `keras.Model`."""

from keras_xd.core.moved_names import attribute_error as _attribute_error
from keras_xd.models.ccnn import ccnn
from keras_xd.models.fno import fno, uno
from keras_xd.models.kim_cnn import kim_cnn
from keras_xd.models.lenet import lenet
from keras_xd.models.nos import nos_network, nos_search_network
from keras_xd.models.protein_resnet import protein_resnet
from keras_xd.models.pyramidnet import pyramidnet
from keras_xd.models.resnet import resnet20
from keras_xd.models.rollouts import unrolled
from keras_xd.models.spherical_cnn import spherical_cnn
from keras_xd.models.tcn import tcn
from keras_xd.models.time_series import fcn, inception_time, resnet1d
from keras_xd.models.wide_lenet import wide_lenet
from keras_xd.models.wide_resnet import wide_resnet

__all__ = [
    "ccnn",
    "fcn",
    "fno",
    "inception_time",
    "kim_cnn",
    "lenet",
    "nos_network",
    "nos_search_network",
    "protein_resnet",
    "pyramidnet",
    "resnet1d",
    "resnet20",
    "spherical_cnn",
    "tcn",
    "uno",
    "unrolled",
    "wide_lenet",
    "wide_resnet",
]

# Public names of earlier versions.
_MOVED = {"nos_imagenet_network": 'nos_network(genotype, …, stem="imagenet")'}

__getattr__ = _attribute_error(__name__, _MOVED)
