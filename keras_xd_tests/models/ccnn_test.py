import math

import keras
import numpy as np
import pytest
from keras import ops

import keras_xd
from keras_xd import layers, models
from keras_xd.graph.size_counts import count_parameters


def network():
    return layers.KernelNetwork(units=4, features=4, frequency=2.0, seed=1, name="network")


def ccnn(*args, **kwargs):
    return models.ccnn(*args, network=network(), seed=1, **kwargs)


@pytest.mark.parametrize(
    "kwargs, shape, output_shape",
    [
        ({"input_shape": (9, 2), "learn": "K"}, (2, 9, 2), (2, 3)),
        ({"input_shape": (6, 4, 2), "learn": "KRWD", "dense": True}, (2, 6, 4, 2), (2, 6, 4, 3)),
        ({"input_shape": (9,), "vocabulary": 5, "learn": "WD"}, (2, 9), (2, 3)),
        ({"input_shape": (9, 2), "learn": "WE", "dense": True}, (2, 9, 2), (2, 9, 3)),
    ],
)
def test_networks_of_all_kinds(kwargs, shape, output_shape, tmp_path, rng):
    blocks = 1 + ("D" in kwargs["learn"])
    model = ccnn(blocks, 4, classes=3, **kwargs)
    tokens = "vocabulary" in kwargs
    x = rng.integers(5, size=shape) if tokens else rng.normal(size=shape).astype("float32")
    y = model(x)
    assert y.shape == output_shape
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(x), y, atol=1e-6)
    found = [len(keras_xd.architecture_variables(m)) for m in (model, loaded)]
    assert (
        found
        == [
            blocks * sum("KR".count(c) for c in kwargs["learn"])
            + blocks * 3 * ("W" in kwargs["learn"])
            + ("D" in kwargs["learn"])
            + ("E" in kwargs["learn"])
        ]
        * 2
    )
    plain = keras_xd.finalize(model)
    np.testing.assert_allclose(plain(x), y, atol=1e-4)
    if kwargs["learn"] == "K":
        return  # finalized to what layers are whose masks have all of their sizes
    plain.save(tmp_path / "plain.keras")
    np.testing.assert_allclose(keras.models.load_model(tmp_path / "plain.keras")(x), y, atol=1e-4)


def test_a_search_begins_as_the_network_of_half_the_size():
    """4 blocks and 280 channels begin as 2 blocks and 140 channels, and cost as much."""
    model = ccnn(4, 280, (4, 2), 2)
    found = keras_xd.describe(model)
    blocks = [found[f"block{index}"] for index in range(1, 5)]
    assert [block["depth"] > 0 for block in blocks] == [True] * 2 + [False] * 2
    for block in blocks:
        assert [block[f"channels/{place}"] for place in ("input", "middle", "output")] == [140] * 3
        assert block["resolution/0"] == 4
    half = keras_xd.complexity(ccnn(2, 140, (4, 2), 2, learn=""))
    linear = 4 * 2 * 140 + 140 * 2  # the encoder and decoder of twice the width
    assert float(keras_xd.complexity(model)) == pytest.approx(half + linear, rel=1e-5)


@pytest.mark.parametrize(
    "padding, size, seed",
    [
        *[("same", 16, 0), ("same", 40, 1), ("causal", 17, 2)],
        *[("causal", 40, 3), ("circular", 17, 4), ("circular", 40, 5)],
    ],
)
def test_a_search_counts_what_random_masks_leave(padding, size, seed):
    """Whole channels, taps and blocks, by FFT or not, of even and odd kernels."""
    space = ccnn(2, 12, (size, 2), 3, learn="KWD", padding=padding, counting="per_channel")
    keras_xd.randomize_architecture(space, seed=seed)
    plain = keras_xd.finalize(space)
    count = keras_xd.complexity(plain)
    found = [keras_xd.complexity(space), count_parameters(space)]
    found = [float(ops.convert_to_numpy(number)) for number in found]
    assert found == pytest.approx([count, count_parameters(plain)], rel=1e-5)


@pytest.mark.parametrize("shape, dense", [((8, 3), False), ((4, 6, 2), True)])
def test_complexity_is_what_one_counts_by_hand(shape, dense):
    points = math.prod(shape[:-1])
    encoder, decoder = points * shape[-1] * 6, (points if dense else 1) * 6 * 5
    block = points * 6 + points * math.log2(points) + points * (36 + 12 + 36 + 6)
    plain = ccnn(2, 6, shape, 5, learn="", dense=dense)
    assert keras_xd.complexity(plain) == pytest.approx(encoder + decoder + 2 * block)
    assert keras_xd.complexity(ccnn(2, 6, shape, 5, learn="K", dense=dense)) == pytest.approx(
        encoder + decoder + 2 * block
    )
    half = points * 3 + points * math.log2(points) + points * (9 + 6 + 9 + 3)
    for counting in ("counts", "continuous"):  # at whole sizes both are the same
        masked = ccnn(4, 6, shape, 5, dense=dense, counting=counting)
        assert float(keras_xd.complexity(masked)) == pytest.approx(
            encoder + decoder + 2 * half, rel=1e-5
        )


def test_targets_out_of_reach_are_refused():
    model = ccnn(2, 40, (16, 2), 2)
    before = [float(v[0]) for v in keras_xd.architecture_variables(model)]
    search = keras_xd.SearchModel(model)
    for variable in keras_xd.architecture_variables(model):
        variable.assign([variable.constraint.low[0]])
    smallest = float(keras_xd.complexity(model))
    for variable, value in zip(keras_xd.architecture_variables(model), before, strict=True):
        variable.assign([value])
    text = f"smallest masks that are allowed, {smallest:.6g}.*complexity_target={smallest / 2}"
    with pytest.raises(ValueError, match=text):
        search.compile("sgd", "sgd", "mse", complexity_target=smallest / 2)
    search.compile("sgd", "sgd", "mse", complexity_target=smallest * 1.001)
    assert [float(v[0]) for v in keras_xd.architecture_variables(model)] == before
    fixed = keras_xd.SearchModel(ccnn(1, 4, (16, 2), 2, learn="K"))
    with pytest.raises(ValueError, match="learn more of the model"):
        fixed.compile("sgd", "sgd", "mse", complexity_target=100)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"blocks": 0}, "blocks=0"),
        ({"blocks": 1}, "`blocks` must be an integer.*Received: blocks=1"),
        ({"channels": 1.5}, "channels=1.5"),
        ({"classes": 0}, "classes=0"),
        ({"input_shape": (None, 3)}, "input_shape=\\(None, 3\\)"),
        ({"input_shape": (8,)}, "input_shape=\\(8,\\), vocabulary=None"),
        ({"input_shape": (8, 3), "vocabulary": 5}, "input_shape=\\(8, 3\\), vocabulary=5"),
        ({"vocabulary": 0, "input_shape": (8,)}, "vocabulary=0"),
        ({"learn": "KX"}, "among 'KRWDE'. Received: learn='KX'"),
        ({"temperatures": (25.0, 25.0)}, "temperatures=\\(25.0, 25.0\\)"),
        ({"temperatures": (25.0, 25.0, 2.0)}, "temperature=2.0, which takes 1.285"),
        ({"initial_channels": 1}, "Received: initial_size=1"),
        ({"rendering": "both"}, "rendering='both'"),
    ],
)
def test_bad_arguments_are_refused(changes, message):
    arguments = {"blocks": 2, "channels": 20, "input_shape": (8, 3), "classes": 2, **changes}
    with pytest.raises(ValueError, match=message):
        models.ccnn(**arguments)


@pytest.mark.parametrize("shape, learned", [((64, 3), ("", "KRWD")), ((12, 16, 3), ("K",))])
def test_a_network_begins_with_outputs_of_the_size_of_its_inputs(shape, learned, rng):
    """The means of GELUs add up: 1.5 (1 + 4 · 0.65)² = 19, of the decoder, encoder, 4 branches."""
    x = rng.normal(size=(4, *shape)).astype("float32")
    smooth = np.cumsum(x, axis=1) / np.sqrt(shape[0] / 2)
    for learn in learned:
        model = models.ccnn(4, 32, shape, 10, learn=learn, seed=1)
        assert model.get_layer("block1").network.kind == "magnet"
        assert model.get_layer("block1").normalization.statistics == "moving"
        for inputs in (x, smooth):
            assert 0.02 < np.var(np.asarray(model(inputs, training=True))) < 19
