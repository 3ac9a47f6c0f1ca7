import pathlib
import subprocess
import sys

import keras
import numpy as np

from keras_xd import layers, penalties

ROOT = pathlib.Path(__file__).parents[2]


def test_the_architecture_regularizer_counts_every_architecture_variable(rng):
    layer = layers.XDConv1D(
        2,
        3,
        frequency_bias=True,
        channel_gates=True,
        architecture_regularizer=keras.regularizers.L2(0.1),
        kernel_regularizer=keras.regularizers.L2(0.3),
    )
    layer(np.zeros((1, 9, 2), "float32"))
    expected = 0.3 * np.sum(keras.ops.convert_to_numpy(layer.kernel) ** 2)
    expected += 0.1 * sum(
        np.sum(keras.ops.convert_to_numpy(w) ** 2) for w in layer.architecture_variables
    )
    np.testing.assert_allclose(float(sum(layer.losses)), expected, rtol=1e-5)
    copy = layers.XDConv1D.from_config(layer.get_config())
    assert isinstance(copy.architecture_regularizer, keras.regularizers.L2)


def test_penalties_know_the_start_and_the_plan(rng):
    near = penalties.NearStart(0.5)
    layer = layers.XDConv1D(2, 3, channel_gates=True, architecture_regularizer=near)
    layer.build((None, 9, 2))
    assert float(sum(layer.losses)) == 0
    steps = [rng.standard_normal(w.shape).astype("float32") for w in layer.architecture_variables]
    for variable, step in zip(layer.architecture_variables, steps, strict=True):
        variable.assign_add(step)
    expected = 0.5 * sum(np.sum(step**2) for step in steps)
    np.testing.assert_allclose(float(sum(layer.losses)), expected, rtol=1e-4)
    permutation = penalties.NearPermutation(1.0, free=0)
    layer = layers.XDConv1D(2, 3, depth=2, architecture_regularizer=permutation)
    layer.build((None, 9, 2))
    assert len(layer.losses) == 3 and float(sum(layer.losses)) > 0
    config = layers.XDConv1D.from_config(layer.get_config()).get_config()
    assert config == layer.get_config()


def test_large_matrices_are_described_by_an_overview(rng):
    layer = layers.XDConv1D(1, 3, padding="circular", depth=2)
    layer.build((None, 1100, 1))
    for variable in layer.architecture_variables:
        variable.assign_add(0.02 * rng.standard_normal(variable.shape))
    described = layer.describe()
    assert not [name for name in described if name.startswith("matrix/")]
    dense = np.array(layer.kmatrices["K"][0].dense())
    values = np.abs(dense[0] + 1j * dense[1]).T
    overview = described["magnitude/K0"]
    assert overview.shape == (367, 367)  # every third column, three rows each
    np.testing.assert_allclose(overview[4, 7], np.sqrt(np.mean(values[12:15, 21] ** 2)), rtol=1e-4)
    np.testing.assert_allclose(overview[-1, 0], np.sqrt(np.mean(values[1098:, 0] ** 2)), rtol=1e-4)


def test_describing_a_long_layer_takes_little_memory():
    program = """
import resource
import keras_xd
from keras_xd import layers
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
small, large = (layers.XDConv1D(1, 3, padding="circular") for _ in range(2))
small.build((None, 1024, 1))
large.build((None, 4096, 1))
small.describe()
before = peak()
found = large.describe()
print(peak() - before, sum(getattr(value, "nbytes", 0) for value in found.values()) / 2**20)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    grown, kept = map(float, done.stdout.split())
    assert grown < 100 and kept < 4  # MiB; three matrices of 4096 × 4096 are 384
