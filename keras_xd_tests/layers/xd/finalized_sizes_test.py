import math

import pytest

from keras_xd import layers
from keras_xd.layers.xd import finalized_sizes


def test_auto_takes_one_of_both_by_its_rule(monkeypatch):
    layer = layers.XDConv2D(16, 3, padding="same")
    shape = (None, 32, 32, 16)
    for saving, forming, expected in (
        (1.0, 1e9, "kernel"),
        (0.0, 1e9, "spectrum"),
        (1.0, 0.0, "spectrum"),
    ):
        monkeypatch.setattr(finalized_sizes, "LEAST_SAVING", saving)
        monkeypatch.setattr(finalized_sizes, "MOST_FORMING", forming)
        found = layer.finalized_sizes(shape, "auto")
        assert found == layer.finalized_sizes(shape, expected)


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
