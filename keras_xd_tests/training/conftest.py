"""Settings of the tests of searches."""

from keras_xd_tests.eager_steps import faster_steps  # noqa: F401
