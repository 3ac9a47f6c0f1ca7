import math

import pytest

from keras_xd import kmatrix, layers
from keras_xd.kmatrix.radix import parameter_count
from keras_xd.layers.xd import finalized_sizes
from keras_xd.layers.xd.axis_layout import axis_geometry


def axes(sizes, kernel_size, depth=1):
    geometry = [axis_geometry(size, kernel_size, 1, 1, "same") for size in sizes]
    return geometry, [kmatrix.plan(g.padded_size, depth=depth) for g in geometry]


@pytest.mark.parametrize("sizes", [(32, 32), (16, 200), (1024,), (7, 9, 8)])
@pytest.mark.parametrize("depth", [1, 3])
def test_compact_plans_hold_no_more_numbers_than_the_search(sizes, depth):
    geometry, plans = axes(sizes, 3, depth)
    depths = (depth,) * 3
    compact = finalized_sizes.compact_plans(geometry, plans, depths)
    assert [plan.radices for plan in compact] == [plan.radices for plan in plans]
    options = {"use_bias": True, "frequency_bias": False, "channel_gates": False}
    found = finalized_sizes.sizes("kernel", geometry, plans, depths, (4, 8, 1), **options)
    stages = sum(parameter_count(plan.n, plan.radices, 3 * depth) for plan in plans)
    kernel = 3 ** len(sizes) * 4 * 8
    assert kernel + 8 < found.parameters <= stages + kernel + 8


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
