"""Identity skips: found in every form of an addition, rewritten to the same function."""

import keras
import pytest
from keras import layers, ops

from keras_xd.core.searchable import searchable_layers
from keras_xd.finalizing.finalizer import finalize
from keras_xd.graph.skips import find_skips
from keras_xd.rewriting.rewriter import rewrite
from keras_xd_tests import sample_models

RELATIVE_ERROR = 1e-5


def paths(model):
    return [skip.path for skip in find_skips(model)]


def convolution(x, name=None):
    return layers.Conv1D(2, 3, padding="same", name=name)(x)


@pytest.mark.parametrize(
    ("combine", "places"),
    [
        (lambda x: layers.Add(name="sum")([x, convolution(x)]), [0]),
        (lambda x: layers.Add(name="sum")([convolution(x), x]), [1]),
        (lambda x: x + convolution(convolution(x)), [0]),
        (lambda x: ops.add(convolution(x), x), [1]),
        (lambda x: layers.add([x, y := convolution(x), convolution(y)], name="sum"), [0, 1]),
        (lambda x: layers.Add(name="sum")([convolution(x), convolution(x)]), []),
        (lambda x: layers.Add(name="sum")([x, x]), []),
        (lambda x: layers.Subtract(name="sum")([x, convolution(x)]), []),
        (lambda x: x + 1.0, []),
        (lambda x: x + layers.GlobalAveragePooling1D(keepdims=True)(x), [0]),
        (lambda x: layers.Conv1D(1, 3, padding="same")(x) + ops.mean(x, 1, keepdims=True), []),
    ],
    ids=range(11),
)
def test_what_is_a_skip(combine, places, rng):
    inputs = keras.Input((7, 2), name="x")
    model = keras.Model(inputs, combine(inputs))
    assert [skip.place for skip in find_skips(model)] == places
    if places:
        space = rewrite(model, operations="skip")
        assert [layer.name for layer in searchable_layers(space)] == paths(model)
        x = sample_models.inputs_of(model, rng)
        sample_models.assert_same_outputs(model, space, x, RELATIVE_ERROR)


def test_residual_network(rng, tmp_path):
    model = sample_models.randomize(sample_models.residual(), rng)
    operations = ("convolution", "skip")
    space = rewrite(model, operations=operations, depth=1, only="block0_.*")
    assert [layer.name for layer in searchable_layers(space) if "skip" in layer.name] == [
        "block0_add_skip"
    ]
    assert len(searchable_layers(space)) == 3
    inputs = sample_models.inputs_of(model, rng)
    sample_models.assert_same_outputs(model, space, inputs, RELATIVE_ERROR * 10)
    sample_models.assert_same_outputs(space, finalize(space), inputs, RELATIVE_ERROR)
    space.save(tmp_path / "space.keras")
    loaded = keras.models.load_model(tmp_path / "space.keras")
    sample_models.assert_same_outputs(space, loaded, inputs, 1e-6)
    operations = {"operations": operations, "depth": 1}
    again = rewrite(model, **operations, skip=["block0_add_skip", "block._."])
    assert not any("skip" in layer.name for layer in searchable_layers(again))
    again = rewrite(model, **operations, only=lambda layer: layer.kernel_size == (3, 3))
    assert "shortcut" not in [layer.name for layer in searchable_layers(again)]
    assert "block0_add_skip" in [layer.name for layer in searchable_layers(again)]
    (layer,) = searchable_layers(rewrite(model, **operations, only="block._add_skip"))
    assert layer.name == "block0_add_skip"
    (layer,) = searchable_layers(rewrite(model, operations="skip", padding="circular"))
    assert layer.padding == "circular" and layer.kernel_size == (3, 3) and not layer.use_bias


def test_integers_have_no_skips():
    inputs = keras.Input((7, 2), dtype="int32")
    model = keras.Model(inputs, inputs + inputs * 2)
    assert model.output.dtype == "int32" and find_skips(model) == []


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((5,), r"it has no spatial axes, \(None, 5\)"),
        ((None, 2), r"its spatial size is unknown, \(None, None, 2\)"),
    ],
)
def test_skips_that_are_left(shape, reason):
    inputs = keras.Input(shape)
    x = layers.Dense(shape[-1])(inputs)
    model = keras.Model(inputs, layers.Add(name="sum")([inputs, x]))
    with pytest.raises(ValueError, match=f"Nothing is left.*'sum_skip': {reason}"):
        rewrite(model, operations="skip")
