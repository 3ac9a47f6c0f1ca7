"""Random configurations of every family of layers against what they must compute."""

from keras_xd_tests import commands

commands.use_one_core()
