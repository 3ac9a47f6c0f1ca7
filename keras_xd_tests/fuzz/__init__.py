"""Damaged files, texts and states, which must be refused without harm."""

from keras_xd_tests import commands

commands.use_one_core()
