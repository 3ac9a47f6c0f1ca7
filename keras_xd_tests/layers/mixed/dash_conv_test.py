"""Mixtures of convolutions equal the explicit sum of their candidates, in both forms."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_xd import layers
from keras_xd.layers.mixed.dash_conv import DashConv
from keras_xd.testing import check_layer

SMALL = {"kernel_sizes": (3, 5), "dilations": (1, 3), "other_weight": None}


def explicit(layer, x):
    """Return the sum of the candidates' own outputs, each computed by itself."""
    last = layer.data_format == "channels_last"
    probabilities = np.asarray(ops.convert_to_numpy(layer.probabilities))
    inputs = x if last else np.moveaxis(x, 1, -1)
    part = inputs[..., : inputs.shape[-1] // layer.partial_channels]
    total = sum(
        probability * np.asarray(operation.operate(ops.convert_to_tensor(part)))
        for probability, operation in zip(probabilities, layer.operations, strict=True)
    )
    return total


def built(rank, shape, convolution="direct", **options):
    layer = DashConv(rank, 4, 3, convolution=convolution, **{**SMALL, **options})
    layer.build((None, *shape))
    layer.logits.assign(np.random.default_rng(3).normal(size=layer.logits.shape))
    return layer


CASES = [
    (1, (17, 2), {"padding": "same"}),
    (1, (17, 2), {"padding": "causal"}),
    (1, (17, 2), {"padding": "valid"}),
    (1, (16, 2), {"padding": "same", "strides": 2}),
    (1, (17, 2), {"padding": "valid", "strides": 3}),
    (1, (8, 2), {"padding": "same", "dilations": (1, 7, 15), "kernel_sizes": (3, 9)}),
    (1, (9, 2), {"padding": "same", "kernel_sizes": (2, 3, 4), "dilations": (1, 2)}),
    (2, (7, 8, 2), {"padding": "same"}),
    (2, (8, 7, 2), {"padding": "same", "strides": (2, 1)}),
    (2, (7, 8, 2), {"padding": "valid", "groups": 2}),
    (2, (6, 7, 4), {"padding": "same", "partial_channels": 2}),
    (3, (5, 4, 6, 2), {"padding": "same"}),
]


@pytest.mark.parametrize("form", ["direct", "fourier"])
@pytest.mark.parametrize(("rank", "shape", "options"), CASES)
def test_equals_the_sum_of_its_candidates(rank, shape, options, form, rng):
    layer = built(rank, shape, form, **options)
    x = rng.normal(size=(2, *shape)).astype("float32")
    found = np.asarray(layer.operate(x[..., : shape[-1] // layer.partial_channels]))
    expected = explicit(layer, x)
    assert found.shape == expected.shape == (2, *layer.output_sizes(shape[:-1]), found.shape[-1])
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_sixteen_candidates_of_the_paper_reach_as_far_as_the_image(rng):
    layer = layers.DashConv2D(3, 3, padding="same", other_weight=None)
    x = rng.normal(size=(1, 12, 12, 2)).astype("float32")
    expected = np.asarray(layer(x))
    assert len(layer.operations) == 16
    np.testing.assert_allclose(expected, explicit(layer, x), atol=1e-5 * np.abs(expected).max())
    # Taps further off than the image is wide read zeros only: 5 of 9 taps 7 apart, 1 of 15.
    taps = {rate[0]: taps for rate, _, taps, _ in layer._by_dilation((12, 12))}
    assert taps == {1: (9, 9), 3: (7, 7), 7: (3, 3), 15: (1, 1)}


@pytest.mark.parametrize("rank", [1, 2])
def test_layer_checks(rank):
    """With XLA of one axis; only the sizes of training and its precision are others of more."""
    check_layer(
        getattr(layers, f"DashConv{rank}D"),
        {"filters": 3, "kernel_size": 3, "padding": "same", **SMALL},
        (2, *(6, 3, 2)[:rank], 2),
        run_jit=rank == 1,
        settle=lambda layer: layer.logits.assign([0, 0, 150, 0]),
    )


def test_finalize_keeps_the_best_as_a_keras_convolution(rng):
    layer = layers.DashConv1D(4, 3, padding="same", activation="relu", **SMALL)
    layer.build((None, 20, 2))
    chosen = layer.operation_names.index("convolution_5_dilated_3")
    layer.logits.assign(200 * np.eye(len(layer.operations))[chosen])
    found = layer.finalize()
    assert type(found) is keras.layers.Conv1D
    assert (found.kernel_size, found.dilation_rate) == ((5,), (3,))
    x = rng.normal(size=(2, 20, 2)).astype("float32")
    np.testing.assert_allclose(found(x), layer(x), atol=1e-5)


def test_temperature_sharpens_the_probabilities():
    layer = layers.DashConv1D(1, 3, temperature=2.0, **{**SMALL, "other_weight": 0.1})
    layer.build((None, 9, 1))
    before = layer.describe()
    assert layer.largest == "convolution_3"
    layer.temperature.assign(0.25)
    after = layer.describe()
    assert after["probability/convolution_3"] > before["probability/convolution_3"]
    assert after["entropy"] < before["entropy"]


def test_the_cheaper_form_is_chosen():
    few = layers.DashConv2D(4, 3, padding="same", kernel_sizes=(3, 5), dilations=(1,))
    many = layers.DashConv2D(8, 3, padding="same")
    shape = (None, 32, 32, 4)
    assert [layer.form(shape) for layer in (few, many)] == ["direct", "fourier"]
    # 32 × 32 places, 81 taps for each of three dilations and 5 × 5 of those 15 apart, 32 pairs.
    assert many.forms(shape)["direct"] == 32 * 32 * 32 * (3 * 81 + 25)
    # 62 × 62 points: 32 and then 62 frequencies of 4 channels and 8 filters, and their products.
    transforms = 2 * 32 * 32 * 32 + 32 * 4 * 62 * 32
    assert many.forms(shape)["fourier"] == 12 * transforms + 4 * 32 * 62 * 32
    asked = layers.DashConv2D(4, 3, padding="same", convolution="direct")
    assert asked.form(shape) == "direct"


def test_one_tap_is_one_candidate_whatever_the_dilation():
    layer = layers.DashConv1D(1, 3, kernel_sizes=(1, 3), dilations=(1, 2))
    assert layer.operation_names == (
        "convolution_1",
        "convolution_3",
        "convolution_3_dilated_2",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_sizes": ()}, "`kernel_sizes` must be different ones"),
        ({"kernel_sizes": (3, 3)}, "`kernel_sizes` must be different ones"),
        ({"dilations": (0,)}, r"Received: dilations\[0\]=0"),
        ({"temperature": 0}, "above 0 and finite. Received: temperature=0"),
        ({"relaxation": "hard"}, "Received: relaxation='hard'"),
        ({"convolution": "dense"}, "Received: convolution='dense'"),
        (
            {"update": "exponentiated_gradient", "temperature": 2.0},
            "needs relaxation='softmax' and temperature=1",
        ),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        layers.DashConv1D(2, 3, **options)
