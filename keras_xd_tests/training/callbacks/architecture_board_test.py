"""The event files are read back by TensorBoard's own reader."""

import io
import sys

import keras
import numpy as np
import pytest
from matplotlib.image import imread
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

import keras_xd
from keras_xd import layers
from keras_xd.training.callbacks.architecture_board import ArchitectureBoard
from keras_xd.visualization.images import heatmap
from keras_xd.visualization.operators import operator_matrix

LOSS = "sparse_categorical_crossentropy"


def read(folder):
    """Return `{tag: {step: content}}` of all event files in a folder, and the tags' plugins."""
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    tags = events.Tags()["tensors"]
    contents = {
        tag: {event.step: tensor_util.make_ndarray(event.tensor_proto) for event in found}
        for tag, found in ((tag, events.Tensors(tag)) for tag in tags)
    }
    return contents, {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags}


def pixels(content):
    """Return the image of a content, whose stated size has to be the file's."""
    width, height, file = content
    image = np.round(255 * imread(io.BytesIO(file)))[..., :3].astype("uint8")
    assert image.shape[:2] == (int(height), int(width))
    return image


def xd_search():
    model = keras.Sequential(
        [
            keras.Input((8, 2)),
            layers.XDConv1D(3, 3, padding="same", frequency_bias=True, name="conv"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Softmax(),
        ]
    )
    search = keras_xd.SearchModel(model)
    search.compile(
        "sgd",
        keras.optimizers.SGD(0.1),
        LOSS,
        complexity_target=100.0,
        complexity_weight=0.0,
        run_eagerly=True,
    )
    return search


def xd_data():
    generator = np.random.default_rng(1)
    return generator.normal(size=(6, 8, 2)).astype("float32"), np.array([0, 1, 2] * 2)


def states(seen):
    """Return a callback that keeps what the board should write at the end of each epoch."""

    def keep(epoch, logs=None):
        model = callback.model
        variables = keras_xd.architecture_variables(model)
        values = np.concatenate([np.ravel(variable.numpy()) for variable in variables])
        operator = operator_matrix(model.model.layers[0])
        seen[epoch] = keras_xd.describe(model)["conv"], values, operator

    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: keep(0) if epoch == 0 else None,
        on_epoch_end=lambda epoch, logs: keep(epoch + 1),
    )
    return callback


def test_what_is_written_is_what_the_layers_are(tmp_path):
    search, seen = xd_search(), {}
    board = ArchitectureBoard(tmp_path, every_epochs=2, hparams={"rate": np.float32(0.5)})
    search.fit(*xd_data(), epochs=3, callbacks=[states(seen), board], verbose=0)
    contents, plugins = read(tmp_path)
    start = seen[0][1]
    for step in (0, 2, 3):
        described, now, operator = seen[step]
        written = {tag: steps[step] for tag, steps in contents.items() if step in steps}
        for name in ("K", "L", "M", "b"):
            tag = f"conv/distance_from_start/{name}"
            expected = described[f"distance_from_start/{name}"]
            np.testing.assert_allclose(written[tag], expected, rtol=1e-6)
        expected = np.linalg.norm(now - start) / np.linalg.norm(start)
        np.testing.assert_allclose(written["conv/distance_from_start"], expected, rtol=1e-5)
        count = float(keras_xd.complexity(search))
        np.testing.assert_allclose(written["complexity/multiply_adds"], count)
        np.testing.assert_allclose(written["complexity/relative_to_target"], count / 100)
        for name in ("matrix/K0", "matrix/L0", "matrix/M0"):
            expected = heatmap(described[name])
            np.testing.assert_array_equal(pixels(written[f"conv/{name}"]), expected)
        expected = heatmap(operator)
        np.testing.assert_array_equal(pixels(written["conv/operator"]), expected)
        assert pixels(written["conv/spectra"]).shape == (320, 480, 3)
        (text,) = np.ravel(written["architecture"])
        distance = f"{described['distance_from_start/K']:.6g}"
        assert f"| conv | XDConv1D | distance_from_start/K | {distance} |" in text.decode()
        rows, columns = described["matrix/K0"].shape
        assert f"| matrix/K0 | {rows} × {columns}, complex" in text.decode()
    assert seen[3][0]["distance_from_start/K"] > seen[2][0]["distance_from_start/K"] > 0
    assert all(
        set(steps) == {0, 2, 3} for tag, steps in contents.items() if plugins[tag] != "hparams"
    )
    kinds = {"conv/matrix/K0": "images", "architecture": "text", "conv/operator": "images"}
    assert kinds.items() <= plugins.items()
    assert plugins["conv/distance_from_start/K"] == "scalars"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every_epochs": 0}, "`every_epochs`"),
        ({"images": 3}, "`images` must be True or False. Received: images=3"),
        ({"hparams": ["rate"]}, "`hparams` must be a dictionary"),
        ({"hparams": {"rate": [1]}}, r"Received: 'rate': \[1\]"),
        ({"hparams": {3: 1}}, "Received: 3: 1"),
    ],
)
def test_arguments_are_checked(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        ArchitectureBoard(tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


def test_missing_packages_are_named(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("keras_xd.visualization")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(keras_xd, "visualization")
    with monkeypatch.context() as context:
        context.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match="matplotlib, which the extra `plot`"):
            ArchitectureBoard(tmp_path)
        ArchitectureBoard(tmp_path, images=False)
    monkeypatch.setitem(sys.modules, "tensorboard.plugins.hparams.api", None)
    with pytest.raises(ImportError, match="tensorboard, which the extra `tuner`"):
        ArchitectureBoard(tmp_path, images=False)
