import itertools

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.finalizing.candidate_choice import mixtures, within_budget

FAMILIES = ("low_rank", "monarch", "dense")


def space_of(*units, seed=0):
    """Return a model of mixtures with random shares."""
    model = keras.Sequential([keras.Input((16,))])
    for number, count in enumerate(units):
        model.add(layers.MixedDense(count, FAMILIES, (0.75, 0.5, 0.25), seed=10 * number))
    return keras_xd.randomize_architecture(model, seed)


def counts_of(space):
    """Return the numbers and the log-shares of the candidates of each layer."""
    return [
        (
            [one.product.parameters for one in layer.kernel.kernels],
            np.log(keras.ops.convert_to_numpy(layer.probabilities).astype("float64")),
        )
        for layer in mixtures(space)
    ]


def test_the_most_likely_choice_within_a_budget():
    space = space_of(16, 64, 32)
    biases, counts = 16 + 64 + 32, counts_of(space)
    choices = [
        (
            sum(numbers[k] for k, (numbers, _) in zip(choice, counts, strict=True)) + biases,
            sum(shares[k] for k, (_, shares) in zip(choice, counts, strict=True)),
            choice,
        )
        for choice in itertools.product(*(range(len(numbers)) for numbers, _ in counts))
    ]
    sizes = sorted({size for size, _, _ in choices})
    before = [keras.ops.convert_to_numpy(v) for v in keras_xd.architecture_variables(space)]
    middle = sizes[len(sizes) // 2]
    for target in (sizes[0], sizes[len(sizes) // 3], middle, sizes[-1]):
        found = within_budget(space, target, "parameters")
        best = max((value, choice) for size, value, choice in choices if size <= target)[1]
        assert found == [
            layer.operation_names[k] for layer, k in zip(mixtures(space), best, strict=True)
        ]
        if target not in (sizes[0], middle):
            continue
        small = keras_xd.finalize(space, complexity_target=target, complexity_measure="parameters")
        assert small.count_params() <= target
        assert [row.candidate for row in small.report.rows] == found
    for old, variable in zip(before, keras_xd.architecture_variables(space), strict=True):
        np.testing.assert_array_equal(old, keras.ops.convert_to_numpy(variable))


def test_a_search_model_brings_its_own_budget():
    space = space_of(64, 32)
    for layer in mixtures(space):
        layer.logits.assign(np.arange(float(len(layer.operation_names))))  # "dense" is the last
    search = keras_xd.SearchModel(space)
    target = 96 + 0.4 * (16 * 64 + 64 * 32)
    options = {"complexity_target": target, "complexity_measure": "parameters"}
    search.compile("sgd", "sgd", "mse", complexity_weight=1.0, **options)
    assert keras_xd.finalize(space).count_params() == 96 + 16 * 64 + 64 * 32
    assert keras_xd.finalize(search).count_params() <= target
    larger = keras_xd.finalize(search, complexity_target=10**6)
    assert larger.count_params() == 96 + 16 * 64 + 64 * 32


@pytest.mark.parametrize("to", ["darts", "dash"])
def test_convolutions_are_chosen_by_their_multiply_adds(to):
    model = keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            keras.layers.Conv2D(4, 3, padding="same"),
            keras.layers.SeparableConv2D(4, 5, padding="same"),
        ]
    )
    space = keras_xd.rewrite(model, to=to)
    keras_xd.randomize_architecture(space, 3)
    whole = keras_xd.complexity(keras_xd.finalize(space))
    small = keras_xd.finalize(space, complexity_target=0.6 * whole)
    assert 0 < keras_xd.complexity(small) <= 0.6 * whole


def test_costs_are_rounded_up():
    """Two candidates cost .05 % more than the budget, less than the unit it is counted in."""
    space = keras.Sequential([keras.Input((16,))])
    for _ in range(2):
        space.add(layers.MixedDense(16, ("low_rank", "dense"), (0.5,)))
    for layer in mixtures(space):
        layer.logits.assign([0.0, 3.0])

    def cost(model):
        return 1.0005 * sum(layer.probabilities[1] for layer in mixtures(model))

    assert sorted(within_budget(space, 2.0, cost)) == ["dense", "low_rank_0.5"]


def test_budgets_that_cannot_be_kept():
    space = space_of(32, 16)
    with pytest.raises(ValueError, match=r"cheapest candidates, 2\d\d.*complexity_target=100"):
        keras_xd.finalize(space, complexity_target=100, complexity_measure="parameters")
    with pytest.raises(ValueError, match="must be a positive number.*-1"):
        keras_xd.finalize(space, complexity_target=-1)
    with pytest.raises(ValueError, match="complexity_measure.*'numbers'"):
        keras_xd.finalize(space, complexity_target=600, complexity_measure="numbers")
    plain = keras.Sequential([keras.Input((9, 1)), layers.XDConv1D(2, 3)])
    with pytest.raises(ValueError, match="mixtures.*complexity_target=600"):
        keras_xd.finalize(plain, complexity_target=600)
