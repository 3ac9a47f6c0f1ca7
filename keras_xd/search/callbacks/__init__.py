"""Callbacks that a search adds to Keras' own."""

from keras_xd.search.callbacks.architecture_board import ArchitectureBoard as ArchitectureBoard
