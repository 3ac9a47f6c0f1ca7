"""Settings of the tests of models."""

import pytest

from keras_xd_tests import eager_steps


@pytest.fixture(autouse=True, scope="module")
def faster_steps():
    """Let steps without graphs take fewer operations, as `eager_steps` says."""
    with pytest.MonkeyPatch.context() as patch:
        eager_steps.faster(patch)
        yield
