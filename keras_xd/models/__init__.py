"""Networks of the papers: small functions that return an ordinary `keras.Model`."""

from keras_xd.models.fno import fno as fno
from keras_xd.models.lenet import lenet as lenet
from keras_xd.models.resnet import resnet20 as resnet20
from keras_xd.models.tcn import tcn as tcn
