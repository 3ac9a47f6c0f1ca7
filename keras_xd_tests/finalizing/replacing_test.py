import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.finalizing.replacing import replace


def built(layer, shape):
    layer.build((None, *shape))
    return layer


def test_rows_of_every_form(rng):
    layer = built(layers.XDConv1D(2, 3, padding="same"), (16, 2))
    for options, form, kind in (
        ({}, "spectrum", "StaticXD"),
        ({"form": "kernel"}, "kernel", "StaticKernelXD"),
        ({"form": "kernel", "weight_dtype": "float16"}, "kernel", "StaticKernelXD"),
        ({"form": "low_rank", "tolerance": 0.1}, "low_rank", "StaticLowRankXD"),
        ({"snap": 0.05}, "snapped", "Conv1D"),
    ):
        found = replace(layer, **options)
        plain, row = found.after, found.row("conv")
        assert (row.name, row.form, row.kind_after) == ("conv", form, kind)
        assert type(plain).__name__ == kind and row.parameters_after == plain.count_params()
        halves = plain.count_params() - 2  # all but the bias
        expected = 8 + 2 * halves if "weight_dtype" in options else 4 * plain.count_params()
        assert row.bytes_after == expected
        is_low_rank = form == "low_rank"
        assert row.ranks == ((3,) if is_low_rank else None)
        assert (row.error is not None and row.error < 1e-6) if is_low_rank else row.error is None
    assert row.multiply_adds_after == 16 * 3 * 2 * 2


def test_low_ranks_of_a_separable_and_of_a_resampled_operation(rng):
    layer = built(layers.XDSeparableConv2D(4, 3, search_pointwise=True), (12, 11, 3))
    found = replace(layer, "low_rank", tolerance=0.02)
    row, inner = found.row("conv"), found.after.layers
    assert row.form == "low_rank" and row.ranks == inner[0].ranks == (3, 3)
    assert row.error == max(inner[0].error, inner[1].error) and inner[1].ranks == (1, 1)
    inputs = rng.normal(size=(2, 12, 11, 3)).astype("float32")
    np.testing.assert_allclose(found.after(inputs), layer(inputs), atol=1e-5)
    inner = layers.XDConv1D(2, 3, padding="circular")
    layer = built(layers.SearchableResampled(inner, 8), (16, 2))
    found = replace(layer, "low_rank")
    assert type(found.after.layer) is layers.StaticLowRankXD and found.after.layer.periodic
    inputs = rng.normal(size=(2, 16, 2)).astype("float32")
    np.testing.assert_allclose(found.after(inputs), layer(inputs), atol=1e-5)


L2, NORM = keras.regularizers.L2(0.1), keras.constraints.MaxNorm(1.0)
COMMON = {"bias_regularizer": L2, "bias_constraint": NORM, "activity_regularizer": L2}
OF_KERNEL = {"kernel_regularizer": L2, "kernel_constraint": NORM}


@pytest.mark.parametrize(
    ("options", "dropped"),
    [
        ({}, ("kernel_constraint", "kernel_regularizer")),
        ({"form": "low_rank"}, ("kernel_constraint", "kernel_regularizer")),
        ({"form": "kernel"}, ()),
        ({"snap": 0.05}, ()),
    ],
)
@pytest.mark.parametrize("kind", ["conv", "transposed", "depthwise", "separable"])
def test_penalties_stay_where_there_is_a_kernel(kind, options, dropped, rng):
    if kind == "separable":
        parts = {f"{part}_regularizer": L2 for part in ("depthwise", "pointwise")}
        layer = layers.XDSeparableConv1D(2, 3, padding="same", **COMMON, **parts)
        dropped = ()  # the pointwise kernel stays
    elif kind == "depthwise":
        of_kernel = {name.replace("kernel", "depthwise"): v for name, v in OF_KERNEL.items()}
        layer = layers.XDDepthwiseConv1D(3, padding="same", **COMMON, **of_kernel)
    else:
        make = layers.XDConv1D if kind == "conv" else layers.XDConv1DTranspose
        layer = make(2, 3, padding="same", **COMMON, **OF_KERNEL)
    if options.get("form") == "kernel" and kind in ("transposed", "depthwise"):
        dropped = ("kernel_constraint",)  # whose axes are others there
    layer = built(layer, (16, 2))
    found = replace(layer, **options)
    row = found.row("conv")
    assert row.dropped == dropped
    layer.bias.assign([1.0, 2.0]) if kind != "separable" else None
    if not dropped or dropped == ("kernel_constraint",):
        x = rng.normal(size=(2, 16, 2)).astype("float32")
        found = replace(layer, **options).after
        outputs = layer(x), found(x)
        np.testing.assert_allclose(*outputs, atol=1e-5)
        if kind != "separable" or "snap" in options:
            np.testing.assert_allclose(sum(found.losses), sum(layer.losses), rtol=1e-4)
    plain = replace(layer, **options).after
    again = type(plain).from_config(plain.get_config())
    assert kind == "separable" or again.bias_constraint is not None
