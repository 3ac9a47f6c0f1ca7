import dataclasses
import math

import numpy as np
import pytest

from keras_xd import kmatrix, layers
from keras_xd.layers.xd import axis_layout, functional
from keras_xd.layers.xd.conv import XDConv
from keras_xd.testing import assert_close
from keras_xd_tests.layers.xd import definition


@pytest.mark.parametrize(
    "rank, pieces, groups, direct",
    [  # Any two of them in all combinations.
        (2, 1, 1, False),
        (1, 3, 1, True),
        (1, 1, 2, False),
        (2, 3, 2, True),
        (2, 3, 4, False),
        (1, 1, 4, True),
    ],
)
def test_the_operation_is_its_definition(rng, monkeypatch, rank, pieces, groups, direct):
    """`y_i = Σ_j C[i, j] Re(K diag(L w_ij + b) M x_j)`, all matrices dense."""
    options = {"padding": "same", "groups": groups, "depth": (2, 1, 3), "seed": 1}
    extras = {"frequency_bias": rank == 1, "channel_gates": rank == 2}
    layer = XDConv(
        *(rank, 8, (3, 2)[:rank], (1, 2)[:rank]), **options, **extras, warm_start="random_unitary"
    )
    x = rng.standard_normal((3, *(5, 6)[:rank], 4)).astype("float32")
    layer.build(x.shape)
    for weight in layer.weights:
        weight.assign_add(0.1 * rng.standard_normal(weight.shape))
    numbers = 2 * math.prod(plan.n for plan in layer.plans) * 4 // groups * 8
    monkeypatch.setattr(functional, "LARGEST_PIECE", -(-numbers // pieces))
    axes = [dataclasses.replace(axis, direct=direct) for axis in layer._kernel_axes]
    layer._kernel_axes = tuple(axes)
    expected = definition.outputs(layer, x)
    assert_close(np.array(layer(x)), expected)
    assert_close(np.array(layer.finalize("kernel")(x)), expected)
    assert len(layer.finalize().spectrum) == pieces


@pytest.mark.parametrize(
    "sizes, frequencies",
    [
        ((1024,), [256, 256, 256, 256]),  # of 2²³ numbers, at most 2²¹ in each
        ((32, 36), [6, 6, 7, 6, 7]),
        ((128, 128), [16] * 8),  # no more than 8, however large
        ((3, 4096), [1, 1, 1]),
        ((32, 8), [32]),
    ],
)
def test_pieces_of_a_spectrum(sizes, frequencies):
    assert functional.spectrum_pieces(sizes, 64, 64) == frequencies


def test_multiply_adds_by_hand():
    geometry = [axis_layout.axis_geometry(32, 3, 1, 1, "circular")] * 2
    plans = [kmatrix.plan(32)] * 2
    # Per element 12 n for the transforms (real 2 n and complex 4 n, twice) and 4 C for channels.
    count = functional.multiply_adds(plans, geometry, (1, 1, 1), 64, 64, 1)
    assert count == 32 * 32 * 64 * (12 * 32 + 4 * 64) == 32 * 32 * 64 * 640
    # Fewer outputs and filters, more groups: every term by itself.
    geometry = [axis_layout.axis_geometry(32, 3, 2, 1, "same")]
    n = geometry[0].padded_size
    plans = [kmatrix.plan(n)]
    count = functional.multiply_adds(plans, geometry, (3, 1, 3), 8, 16, 4)
    assert count == 2 * n * 32 * 8 + 2 * n * 16 * 16 + 4 * n * 2 * 16


def test_multiply_adds_are_the_entries_of_the_matrices():
    """Of matrices of different depths, whose transforms have different costs."""
    layer = layers.XDConv2D(6, (3, 2), (1, 2), "same", groups=2, depth=(2, 1, 3))
    shape = (None, 250, 9, 4)
    layer.build(shape)
    plans, outputs = layer.plans, layer.geometry[1].output_size
    assert len(plans[0].groups) > 1
    analyses, _, syntheses = layer.architecture_transforms(plans)
    columns = [9 * 4, plans[0].n * 4, outputs * 6, plans[0].n * 6]
    expected = sum(
        count * math.prod(matrix.shape)
        for count, transform in zip(columns, [*analyses, *syntheses], strict=True)
        for matrix in transform.matrices
    )
    expected += 4 * plans[0].n * plans[1].n * 2 * 6
    assert layer.complexity(shape) == expected
