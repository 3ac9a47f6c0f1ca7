"""Networks of the papers: small functions that return an ordinary `keras.Model`."""

from keras_xd.models.ccnn import ccnn as ccnn
from keras_xd.models.fno import fno as fno
from keras_xd.models.kim_cnn import kim_cnn as kim_cnn
from keras_xd.models.lenet import lenet as lenet
from keras_xd.models.nos import nos_imagenet_network as nos_imagenet_network
from keras_xd.models.nos import nos_network as nos_network
from keras_xd.models.nos import nos_search_network as nos_search_network
from keras_xd.models.pyramidnet import pyramidnet as pyramidnet
from keras_xd.models.resnet import resnet20 as resnet20
from keras_xd.models.spherical_cnn import spherical_cnn as spherical_cnn
from keras_xd.models.tcn import tcn as tcn
from keras_xd.models.wide_lenet import wide_lenet as wide_lenet
