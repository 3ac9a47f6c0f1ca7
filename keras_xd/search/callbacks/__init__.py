"""Callbacks that a search adds to Keras' own."""
