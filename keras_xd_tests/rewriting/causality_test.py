"""Models that are causal stay so in every search space, whatever is learned."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd import layers as xd_layers
from keras_xd.rewriting import spaces

STEPS, CHANGE = 12, 7


@pytest.fixture(autouse=True)
def own_spaces(monkeypatch):
    """Let the spaces of this module be forgotten."""
    monkeypatch.setattr(spaces, "SEARCH_SPACES", dict(spaces.SEARCH_SPACES))


def network():
    """Causal, dilated and pointwise convolutions, one after padding of one's own."""
    inputs = keras.Input((STEPS, 4))
    x = layers.Conv1D(4, 3, padding="causal", activation="tanh", name="causal")(inputs)
    x = layers.Conv1D(4, 2, padding="causal", dilation_rate=2, name="dilated")(x) + x
    x = layers.Conv1D(4, 2, name="padded")(layers.ZeroPadding1D((1, 0))(x))
    x = layers.Dense(4, name="dense")(x)
    return keras.Model(inputs, layers.Conv1D(3, 1, name="pointwise")(x))


def tcn(levels=1):
    options = {"dropout": 0.0, "weight_normalization": True}
    return keras_xd.models.tcn((STEPS, 4), 3, channels=4, levels=levels, **options)


def movement(model, rng):
    """Return how far outputs before and after a step move with the inputs from that step on."""
    x = rng.standard_normal((2, STEPS, 4)).astype("float32")
    changed = x.copy()
    changed[:, CHANGE:] += 1
    before, after = (keras.ops.convert_to_numpy(model(value)) for value in (x, changed))
    difference = np.abs(after - before)
    return difference[:, :CHANGE].max(), difference[:, CHANGE:].max()


OPTIONS = {
    "xd": {"kernel_size": 4, "depth": 2, "padding": "circular"},
    "k_operation": {"padding": "circular"},
    "darts": {"other_weight": None},
    "dash": {"other_weight": None, "kernel_sizes": (3, 5), "dilations": (1, 2)},
    "masked": {},
    "structured": {"family": ("dense", "low_rank"), "density": 0.8, "only": ["dense|outputs"]},
    "registered": {},
}


class Registered(xd_layers.SearchableLayer, layers.Dense):
    """A layer of a registered space, which stays causal."""

    architecture_variables = ()

    def complexity(self, input_shape):
        return 0.0

    def finalize(self):
        plain = layers.Dense.from_config(self.get_config())
        plain.build(self.get_build_config()["input_shape"])
        plain.set_weights(self.get_weights())
        return plain


@pytest.mark.parametrize("space", OPTIONS)
def test_a_causal_model_stays_causal_in_every_space(space, rng):
    """With all weights moved at random."""
    if space == "registered":
        keras_xd.register_search_space(space, {layers.Dense: Registered})
    model = network()
    rewritten = keras_xd.rewrite(model, to=space, **OPTIONS[space])
    x = rng.standard_normal((2, STEPS, 4)).astype("float32")
    if "other_weight" not in OPTIONS[space] and space != "structured":
        np.testing.assert_allclose(rewritten(x), model(x), atol=1e-5)
    for variable in rewritten.trainable_variables:
        variable.assign_add(rng.standard_normal(variable.shape))
    for result in (rewritten, keras_xd.finalize(rewritten)):
        earlier, later = movement(result, rng)
        assert earlier <= 1e-5 * later, (earlier, later)


class Ahead(xd_layers.SearchableLayer, layers.Dense):
    """A dense layer that sees one step ahead."""

    architecture_variables = ()

    def call(self, inputs):
        return super().call(keras.ops.roll(inputs, -1, axis=1))


@pytest.mark.parametrize(
    ("replaced", "twin", "name"),
    [(layers.Conv1D, xd_layers.XDConv1D, "causal"), (layers.Dense, Ahead, "dense")],
)
def test_a_space_of_ones_own_that_looks_ahead_is_refused(replaced, twin, name):
    keras_xd.register_search_space("ahead", {replaced: twin})
    message = f"must stay causal.*layer '{name}' of class {twin.__name__}"
    with pytest.raises(ValueError, match=message):
        keras_xd.rewrite(network(), to="ahead")


def test_layers_that_would_see_later_steps_are_left(rng, caplog):
    rewritten = keras_xd.rewrite(network(), operations=("convolution", "skip"))
    kinds_of = {layer.name: type(layer).__name__ for layer in rewritten.layers}
    assert kinds_of["padded"] == "Conv1D" and kinds_of["pointwise"] == "XDCausalConv1D"
    assert "padded" in caplog.text and "later steps" in caplog.text
    with pytest.raises(ValueError, match="no skip.*later steps|later steps"):
        keras_xd.rewrite(network(), operations="skip")


def padded(x):
    return layers.Conv1D(4, 3)(layers.ZeroPadding1D((2, 0))(x))


def recurrent(x):
    return layers.LSTM(4, return_sequences=True)(x)


def transposed(x):
    return layers.Permute((2, 1))(recurrent(layers.Permute((2, 1))(x)))


def bidirectional(x):
    return layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)


def with_pointwise(*parts, shape=(STEPS, 4), data_format="channels_last"):
    inputs = keras.Input(shape, dtype="int32" if len(shape) == 1 else "float32")
    outputs = []
    for number, part in enumerate(parts):
        convolution = layers.Conv1D(3, 1, data_format=data_format, name=f"pointwise{number}")
        outputs.append(convolution(part(inputs)))
    return keras.Model(inputs, outputs if len(outputs) > 1 else outputs[0])


@pytest.mark.parametrize(
    "model, causal",
    [
        (lambda: with_pointwise(lambda x: recurrent(layers.Embedding(9, 4)(x)), shape=(12,)), True),
        (lambda: with_pointwise(transposed, shape=(4, 12), data_format="channels_first"), True),
        (lambda: with_pointwise(bidirectional, recurrent), True),
        (lambda: with_pointwise(bidirectional), False),
        (lambda: with_pointwise(lambda x: x), False),
        (lambda: with_pointwise(layers.Dense(4, activation="relu")), False),
        (lambda: with_pointwise(layers.Conv1D(4, 3)), False),
        (lambda: with_pointwise(layers.Conv1D(4, 3, padding="same")), False),
    ],
)
def test_which_models_are_causal(model, causal):
    rewritten = keras_xd.rewrite(model())
    found = type(rewritten.get_layer("pointwise0")) is xd_layers.XDCausalConv1D
    assert found == causal


def test_a_causal_model_with_nothing_to_search_is_refused():
    model = keras.Sequential([keras.Input((STEPS, 4)), layers.ZeroPadding1D((2, 0))])
    model.add(layers.Conv1D(4, 3, name="valid"))
    with pytest.raises(ValueError, match="Nothing is left.*later steps"):
        keras_xd.rewrite(model)
    rewritten = keras_xd.rewrite(model, causal="windowed")
    assert type(rewritten.get_layer("valid")) is xd_layers.XDConv1D


def test_windows_are_an_option(rng):
    model = tcn()
    rewritten = keras_xd.rewrite(model, causal="windowed")
    assert {type(layer) for layer in rewritten.layers if "conv" in layer.name} == {
        xd_layers.XDConv1D
    }
    x = rng.standard_normal((2, STEPS, 4)).astype("float32")
    np.testing.assert_allclose(rewritten(x), model(x), atol=1e-5)
    assert keras_xd.forecast(model, causal="windowed").parameters_after == rewritten.count_params()


def test_long_sequences_are_refused():
    model = keras.Sequential([keras.Input((3000, 1)), layers.Conv1D(1, 2, padding="causal")])
    with pytest.raises(ValueError, match='at most 2048.*causal="windowed".*3000 steps'):
        keras_xd.rewrite(model)


@pytest.mark.parametrize("space", ["xd", "k_operation"])
def test_what_builds_on_rewritten_causal_layers(space, rng, tmp_path):
    model = tcn()
    x = rng.standard_normal((2, STEPS, 4)).astype("float32")
    rewritten = keras_xd.rewrite(model, to=space)
    forecast = keras_xd.forecast(model, to=space)
    assert forecast.parameters_after == rewritten.count_params()
    assert forecast.multiply_adds_after == keras_xd.complexity(rewritten)
    assert keras_xd.compare(model, rewritten, x).output_error < 1e-5
    table = keras_xd.nearest_operation(rewritten)
    assert {row.operation for row in table.rows.values()} == {"convolution"}
    assert len(keras_xd.describe(rewritten)) == len(table.rows) == 2
    keras_xd.randomize_architecture(rewritten, seed=0)
    expected = keras.ops.convert_to_numpy(rewritten(x))
    rewritten.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x), expected)
    for result in (keras_xd.finalize(rewritten), keras_xd.finalize(loaded, form="kernel")):
        np.testing.assert_allclose(result(x), expected, atol=1e-4)
    found = spaces.space_of(rewritten.get_layer("level1_conv1"), spaces.SEARCH_SPACES.values())
    assert found.name == space


def test_causal_layers_share_an_operation(rng):
    operation = xd_layers.KOperation(warm_start="random_unitary", seed=1)
    model = keras.Sequential(
        [keras.Input((STEPS, 4))]
        + [layers.Conv1D(4, 3, padding="causal", name=name) for name in "ab"]
    )
    rewritten = keras_xd.rewrite(model, to="k_operation", operation=operation)
    assert len(keras_xd.architecture_variables(rewritten)) == 3
    earlier, later = movement(rewritten, rng)
    assert earlier <= 1e-5 * later
    with pytest.raises(ValueError, match="same sizes.*dilation_rate=2"):
        keras_xd.rewrite(tcn(2), to="k_operation", operation=xd_layers.KOperation(), only=".*conv.")
