"""Where the search of an XD-operation begins."""

from keras_xd.layers.xd.warm_starts.modifiers import Composed as Composed
from keras_xd.layers.xd.warm_starts.modifiers import Perturbed as Perturbed
from keras_xd.layers.xd.warm_starts.operations import MATRICES as MATRICES
from keras_xd.layers.xd.warm_starts.operations import STARTS as STARTS
from keras_xd.layers.xd.warm_starts.operations import AveragePooling as AveragePooling
from keras_xd.layers.xd.warm_starts.operations import Convolution as Convolution
from keras_xd.layers.xd.warm_starts.operations import FourierOperator as FourierOperator
from keras_xd.layers.xd.warm_starts.operations import GraphConvolution as GraphConvolution
from keras_xd.layers.xd.warm_starts.operations import Identity as Identity
from keras_xd.layers.xd.warm_starts.operations import RandomUnitary as RandomUnitary
from keras_xd.layers.xd.warm_starts.operations import Zero as Zero
from keras_xd.layers.xd.warm_starts.operations import get as get
from keras_xd.layers.xd.warm_starts.operations import identifier as identifier
