import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import genotypes, layers
from keras_xd_tests.layers.cells.relaxed_cell_test import FEW, decide, network


def test_derived_genotype_is_that_of_the_shared_weights(rng):
    model = network()
    cells = model.layers[1:4]
    for cell in cells[:2]:
        decide(cell.architecture, rng)
    found = layers.derived_genotype(keras_xd.SearchModel(model))
    kinds = [genotypes.derive_cell(np.asarray(cell.architecture.logits), FEW) for cell in cells[:2]]
    assert found == genotypes.Genotype(*kinds)
    x = keras.Input((4, 4, 3))
    other = layers.HeterogeneousCell(2, layers.CellArchitecture(operations=FEW))([x, x])
    with pytest.raises(ValueError, match="1 normal and 0 reduction"):
        layers.derived_genotype(keras.Model(x, other))
