import json

import keras
import numpy as np
import pytest

from keras_xd import genotypes, layers

NAMES = ("dynamic_3", "identity", "dilated_3")


def test_shares_are_the_softmax_of_the_logits(rng):
    architecture = layers.ArchitectureLogits(operations=NAMES)
    architecture.build()
    logits = rng.standard_normal((18, 3))
    architecture.logits.assign(logits)
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    for shares in (architecture.probabilities, architecture()):
        found = keras.ops.convert_to_numpy(shares)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert architecture.genotype == genotypes.derive_cell(logits.astype("float32"), NAMES)


def test_logits_begin_small_and_are_reproducible():
    first, second, other = (layers.ArchitectureLogits(seed=seed) for seed in (1, 1, 2))
    for architecture in (first, second, other):
        architecture.build()
    values = [keras.ops.convert_to_numpy(a.logits) for a in (first, second, other)]
    np.testing.assert_array_equal(values[0], values[1])
    assert np.any(values[0] != values[2])
    assert 5e-4 < np.std(values[0]) < 2e-3


def test_configuration_and_bad_arguments():
    architecture = layers.ArchitectureLogits(True, NAMES, seed=4, name="architecture")
    config = json.loads(json.dumps(architecture.get_config()))
    assert config["operations"] == list(NAMES)
    assert layers.ArchitectureLogits.from_config(config).get_config() == architecture.get_config()
    with pytest.raises(ValueError, match="make features"):
        layers.ArchitectureLogits(operations=("dynamic_3", "dynamic_5"))
    with pytest.raises(ValueError, match="different names"):
        layers.ArchitectureLogits(operations=("identity", "identity"))
