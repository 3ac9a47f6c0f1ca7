"""Networks of relaxed and of derived cells: sizes, parameters by hand, sharing, bad arguments."""

import numpy as np
import pytest

from keras_xd import models
from keras_xd.layers.cells.genotypes import BlockGenotype, CellGenotype, Genotype, random_genotype

SKIPS = CellGenotype((BlockGenotype((("identity", 0), ("identity", 1)), "identity"),) * 4)


def trainable(model):
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def counted(cells, channels, first, second, previous_reduction=False):
    """Count the parameters of stacked cells of identities, which have those of their inputs.

    `first` and `second` are the channels of the first cell's inputs. Returns the parameters and
    the channels behind the last cell.
    """
    total = 0
    for number in range(cells):
        reduction = number in (cells // 3, 2 * cells // 3)
        channels *= 2 if reduction else 1
        total += first * channels + second * channels + 2 * 2 * channels
        if reduction:  # eight identities with strides, which are convolutions
            total += 8 * (channels * channels + 2 * channels)
        first, second = second, 4 * channels
    return total, second


def test_parameters_by_hand():
    model = models.nos_network(Genotype(SKIPS, SKIPS), 3, 4, (32, 30, 3), 5)
    stem = 9 * 3 * 12 + 2 * 12
    cells, last = counted(3, 4, 12, 12)
    auxiliary = 64 * 128 + 2 * 128 + 4 * 128 * 768 + 2 * 768 + 769 * 5
    assert last == 64
    assert trainable(model) == stem + cells + 65 * 5 + auxiliary
    assert model.output_names == ["classifier", "auxiliary"]
    plain = models.nos_network(Genotype(SKIPS, SKIPS), 7, 4, (8, 8, 3), 5, auxiliary=False)
    cells, last = counted(7, 4, 12, 12)
    assert trainable(plain) == stem + cells + 65 * 5
    shapes = [plain.get_layer(f"cell{number}").output.shape[1:] for number in range(1, 8)]
    expected = [(8, 16)] * 2 + [(4, 32)] * 2 + [(2, 64)] * 3
    assert shapes == [(size, size, width) for size, width in expected]
    assert [plain.get_layer(f"stage{n}").output.shape[1] for n in (1, 2, 3)] == [8, 4, 2]
    reductions = [plain.get_layer(f"cell{number}").reduction for number in range(1, 8)]
    assert reductions == [False, False, True, False, True, False, False]


def test_drop_path_and_seeds(rng):
    genotype = random_genotype(np.random.default_rng(1), ("identity", "max_pooling_3"))
    x = rng.normal(size=(3, 8, 8, 3)).astype("float32")
    options = {"cells": 3, "channels": 2, "input_shape": (8, 8, 3), "auxiliary": False}
    first, second = (
        models.nos_network(genotype, drop_path=0.5, seed=3, **options) for _ in range(2)
    )
    second.set_weights(first.get_weights())
    one, two = (np.array(model(x, training=True)) for model in (first, second))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, first(x, training=True))
    cells = [first.get_layer(f"cell{number}") for number in (1, 2, 3)]
    assert [cell.drop_path for cell in cells] == [0.5] * 3
    assert len({cell.seed for cell in cells}) == 3
    without = models.nos_network(Genotype(SKIPS, SKIPS), drop_path=0.0, **options)
    assert without.get_layer("cell1").drop_path_progress is None


GOOD = {"cells": 3, "channels": 2, "input_shape": (32, 32, 3), "classes": 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cells": 2}, "at least 3"),
        ({"channels": 0}, "`channels`"),
        ({"input_shape": (32, 32)}, "`input_shape`"),
        ({"classes": 0}, "`classes`"),
        ({"genotype": SKIPS}, "`genotype` must be a Genotype"),
        ({"drop_path": 1}, "`drop_path`"),
        ({"input_shape": (28, 32, 3)}, "features of 8 pixels"),
    ],
)
def test_bad_arguments(arguments, message):
    good = {**GOOD, "genotype": Genotype(SKIPS, SKIPS)}
    with pytest.raises(ValueError, match=message):
        models.nos_network(**{**good, **arguments})


def test_bad_arguments_of_the_others():
    with pytest.raises(ValueError, match="must be even"):
        models.nos_network(Genotype(SKIPS, SKIPS), 3, 3, stem="imagenet")
    with pytest.raises(ValueError, match="features of 7 pixels"):
        models.nos_network(Genotype(SKIPS, SKIPS), 3, 2, (192, 200, 3), stem="imagenet")
    with pytest.raises(ValueError, match="`stem`"):
        models.nos_network(Genotype(SKIPS, SKIPS), stem="mnist")
    with pytest.raises(ValueError, match="at least 3"):
        models.nos_search_network(1)
    with pytest.raises(ValueError, match="`operations`"):
        models.nos_search_network(**GOOD, operations=("identity", "nothing"))
