import math

import keras
import pytest

from keras_xd import layers
from keras_xd.layers.xd import finalized_sizes


@pytest.mark.parametrize(
    ("costs", "best"),
    [
        ({"kernel": (100, 3.0), "spectrum": (200, 2.9)}, "spectrum"),  # the fastest of the small
        ({"kernel": (100, 3.0), "spectrum": (201, 2.1)}, "kernel"),
        ({"kernel": (100, 3.0), "spectrum": (201, 1.9)}, "spectrum"),  # more than 1.5 times as fast
        ({"kernel": (100, 3.0), "low_rank": (150, 2.0), "spectrum": (999, 1.4)}, "low_rank"),
        ({"kernel": (100, 3.0), "low_rank": (150, 2.2), "spectrum": (999, 1.4)}, "spectrum"),
    ],
)
def test_auto_takes_the_fastest_of_the_small_forms(costs, best):
    costs = [finalized_sizes.FormCost(form, *numbers) for form, numbers in costs.items()]
    assert finalized_sizes.best_form(costs).form == best


def test_auto_is_forecast_by_the_smaller_form():
    for layer, shape, form in (
        (layers.XDConv2D(16, 3, padding="same"), (None, 32, 32, 16), "kernel"),
        (layers.XDConv1D(4, 63, padding="same"), (None, 64, 4), "spectrum"),
    ):
        assert layer.finalized_sizes(shape, "auto") == layer.finalized_sizes(shape, form)


def test_equal_operations_are_measured_once(monkeypatch):
    made = []

    def make():
        made.append(keras.layers.Dense(3))
        made[-1].build((None, 4))
        return made[-1]

    monkeypatch.setattr(finalized_sizes, "_measured", {})
    found = {finalized_sizes.milliseconds(key, make, (None, 4)) for key in ("one", "one", "two")}
    assert len(made) == 2 == len(found) and min(found) > 0


@pytest.mark.parametrize("depth, extras", [((1, 2, 3), True), ((3, 1, 2), False)])
@pytest.mark.parametrize("keep", ["spectrum", "kernel"])
def test_sizes_are_those_of_the_layer_that_is_made(depth, extras, keep):
    options = {"frequency_bias": extras, "channel_gates": extras}
    layer = layers.XDConv2D(6, 3, strides=2, padding="same", groups=2, depth=depth, **options)
    shape = (None, 250, 9, 4)  # the first axis is so long that its depth matters
    layer.build(shape)
    found, made = layer.finalized_sizes(shape, keep), layer.finalize(keep)
    assert found.parameters == made.count_params()
    plans = layer.plans
    if keep == "kernel":
        plans = finalized_sizes.compact_plans(layer.geometry, plans, layer.depth)
    assert len(plans[0].groups) > 1
    analyses, _, syntheses = layer.architecture_transforms(plans)
    # Channels and filters times the entries of the other axis before or after.
    outputs = layer.geometry[1].output_size
    columns = [4 * 9, 4 * plans[0].n, 6 * outputs, 6 * plans[0].n]
    products = sum(
        count * math.prod(matrix.shape)
        for count, transform in zip(columns, [*analyses, *syntheses], strict=True)
        for matrix in transform.matrices
    )
    assert found.multiply_adds == products + 4 * plans[0].n * plans[1].n * 2 * 6
