"""The probability of drop-path by epoch, and what has no drop-path."""

import numpy as np
import pytest

from keras_xd import models
from keras_xd.layers.cells.genotypes import random_genotype
from keras_xd.training.callbacks import DropPathSchedule


def network(drop_path):
    genotype = random_genotype(np.random.default_rng(0), ("identity", "max_pooling_3"))
    return models.nos_network(genotype, 3, 1, (8, 8, 3), 2, auxiliary=False, drop_path=drop_path)


def progress(model, schedule, epochs, initial_epoch=0):
    """Return the factor that all cells have in each epoch, by the calls that `fit` makes."""
    schedule.set_model(model)
    schedule.set_params({"epochs": epochs})
    schedule.on_train_begin()
    seen = []
    for epoch in range(initial_epoch, epochs):
        schedule.on_epoch_begin(epoch)
        factors = {float(model.get_layer(f"cell{n}").drop_path_progress) for n in (1, 2, 3)}
        assert len(factors) == 1
        seen += factors
    return seen


def test_probability_grows_linearly():
    model = network(0.3)
    assert progress(model, DropPathSchedule(), 4) == [0, 0.25, 0.5, 0.75]
    assert progress(model, DropPathSchedule(8), 4, initial_epoch=2) == [0.25, 0.375]
    assert progress(model, DropPathSchedule(1), 3) == [0, 1, 1]


def test_bad_arguments():
    with pytest.raises(ValueError, match="`epochs`"):
        DropPathSchedule(0)
    with pytest.raises(ValueError, match="needs a model whose cells"):
        progress(network(0.0), DropPathSchedule(), 1)
