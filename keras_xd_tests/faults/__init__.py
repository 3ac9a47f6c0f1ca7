"""Processes that are killed and disks that fill up while they work."""

from keras_xd_tests import commands

commands.use_one_core()
