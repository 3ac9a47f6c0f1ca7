"""A search on one device and on two devices, in a process of its own."""

import numpy as np

from keras_xd_tests import programs


def test_two_devices_train_as_one():
    one, two = programs.run("search.distribution_program")
    assert (one["replicas"], two["replicas"]) == (1, 2)
    for name in ("loss", "complexity", "gates"):
        np.testing.assert_allclose(two[name], one[name], rtol=1e-5)
    for values, expected in zip(two["weights"], one["weights"], strict=True):
        np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-6)
    for result in (one, two):
        assert result["warm"] == [1.0] * 4
        assert 1.0 not in result["gates"]
        assert result["iterations"] == 4
        assert result["restarts"] == [0, 1]
