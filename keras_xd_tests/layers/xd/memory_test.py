import numpy as np
import pytest

from keras_xd_tests import programs


@pytest.fixture(scope="module")
def measured():
    return programs.run("layers.xd.memory_program")


def test_describing_a_long_layer_takes_little_memory(measured):
    grown, kept = measured["describing"]
    assert grown < 100 and kept < 4  # MiB; three matrices of 4096 × 4096 are 384


def test_a_kernel_of_16384_weights_is_built_and_trained_in_little_memory(measured):
    seconds, grown, loss, moved = measured["building_and_training"]
    assert seconds < 2 and grown < 300  # MiB; a dense placement alone has 1024
    assert np.isfinite(loss) and moved > 0
