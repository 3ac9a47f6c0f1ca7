"""Settings of the tests of models."""

from keras_xd_tests.eager_steps import faster_steps  # noqa: F401
