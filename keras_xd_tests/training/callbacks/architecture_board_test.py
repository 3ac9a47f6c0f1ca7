"""The event files are read back by TensorBoard's own reader."""

import io
import random
import sys
import weakref

import keras
import numpy as np
import pytest
from matplotlib.image import imread
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
from tensorboard.util import tensor_util

import keras_xd
from keras_xd import layers, visualization
from keras_xd.training.callbacks.architecture_board import ArchitectureBoard
from keras_xd.visualization.images import heatmap
from keras_xd.visualization.operators import operator_matrix
from keras_xd_tests.training.gated_dense import (
    GatedDense,
    Uncounted,
    classification_data,
    gated_model,
)

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


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Odd(GatedDense):
    """Describes itself in every way that nobody expects."""

    def describe(self):
        return {
            "number": np.float32(2.5),
            "whole": np.array([[3]]),
            "not a number": float("nan"),
            "flag": True,
            "complex": 1 + 1j,
            "list": [1.0, 2.0, 3.0],
            "tensor": np.ones((2, 3, 4)),
            "mask": np.array([[True, False]]),
            "broken": np.full((3, 3), np.nan),
            "empty": np.zeros((0, 4)),
            "ragged": [[1.0], [1.0, 2.0]],
            "text|with\nlines": "a|b\nc",
            "objects": np.array([None, "x"], dtype=object),
            "matrix/K0": np.eye(2),
        }


def odd_model():
    return keras.Sequential([keras.Input((4,)), Odd(3, name="odd"), keras.layers.Softmax()])


def test_layers_may_describe_themselves_in_any_way(tmp_path):
    model = odd_model()
    model.compile("sgd", LOSS, run_eagerly=True)
    x, y = classification_data(4)
    model.fit(x, y, callbacks=[ArchitectureBoard(tmp_path)], verbose=0)
    contents, plugins = read(tmp_path)
    written = {tag: steps[1] for tag, steps in contents.items()}
    assert written["odd/number"] == 2.5 and written["odd/whole"] == 3
    assert np.isnan(written["odd/not a number"]) and written["odd/flag"] == 1
    images = {tag for tag, plugin in plugins.items() if plugin == "images"}
    names = ("complex", "list", "tensor", "mask", "broken", "matrix/K0", "spectra")
    assert images == {f"odd/{name}" for name in names}
    assert not {"odd/empty", "odd/ragged", "odd/objects", "odd/operator"} & set(contents)
    (text,) = np.ravel(written["architecture"])
    lines = text.decode().split("\n")
    assert r"| odd | Odd | text\|with lines | a\|b c |" in lines
    assert r"| odd | Odd | empty | 0 × 4, float64 |" in lines
    assert len(lines) == 2 + 14 + 2  # head, what is described, distance and multiply–adds


def test_mixtures_and_masks_need_no_images(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((8, 2)),
            layers.MixedOperation1D(2, 3, padding="same", perturb=0.5, name="mixed"),
            layers.DifferentiableMask(axis=1, temperature=8.0, name="mask"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Softmax(),
        ]
    )
    search = keras_xd.SearchModel(model)
    search.compile("sgd", keras.optimizers.SGD(2.0), LOSS, run_eagerly=True)
    x, y = xd_data()
    board = ArchitectureBoard(tmp_path, images=False)
    search.fit(x, y % 2, callbacks=[board], verbose=0)
    contents, plugins = read(tmp_path)
    described = keras_xd.describe(search)
    assert described["mask"].pop("mask").shape == (8,)
    for path in ("mixed", "mask"):
        for name, value in described[path].items():
            np.testing.assert_allclose(contents[f"{path}/{name}"][1], value, rtol=1e-6)
    assert contents["mixed/entropy"][0] != contents["mixed/entropy"][1]
    assert contents["mask/size"][0] == 4.0 != contents["mask/size"][1]
    assert "images" not in plugins.values()


def test_hyperparameters_are_those_of_a_session(tmp_path):
    model = gated_model()
    model.layers[0].describe = lambda: {}
    model.compile("sgd", LOSS, run_eagerly=True)
    given = {"rate": np.float32(0.5), "depth": np.int64(3), "mode": "joint", "frozen": False}
    board = ArchitectureBoard(tmp_path, images=False, hparams=given)
    model.fit(*classification_data(4), callbacks=[board], verbose=0)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    start, end = (
        events.SummaryMetadata(tag).plugin_data.content
        for tag in (metadata.SESSION_START_INFO_TAG, metadata.SESSION_END_INFO_TAG)
    )
    found = metadata.parse_session_start_info_plugin_data(start).hparams
    assert found["rate"].number_value == 0.5 and found["depth"].number_value == 3
    assert found["mode"].string_value == "joint" and found["frozen"].bool_value is False
    assert metadata.parse_session_end_info_plugin_data(end).status == 1  # success


def test_files_are_left_alone_and_added_to(tmp_path):
    model = odd_model()
    model.compile("sgd", LOSS, run_eagerly=True)
    data = classification_data(4)
    folder = tmp_path / "deep" / "logs"
    board = ArchitectureBoard(folder, images=False)
    before = {}
    for fit in range(3):
        model.fit(*data, epochs=fit + 1, initial_epoch=fit, callbacks=[board], verbose=0)
        files = {path: path.read_bytes() for path in folder.iterdir()}
        assert len(files) == fit + 1
        assert {path: files[path] for path in before} == before
        before = files
    contents, _ = read(folder)
    distances = contents["odd/distance_from_start"]
    assert list(distances) == [0, 1, 2, 3] and distances[0] == 0
    assert distances[1] < distances[2] < distances[3]


def test_training_goes_on_as_without_it(tmp_path, monkeypatch):
    monkeypatch.setattr(visualization, "spectra", lambda *arguments: None)
    x, y = xd_data()
    found = []
    for callbacks in ([], [ArchitectureBoard(tmp_path)]):
        keras.utils.set_random_seed(3)
        search = xd_search()
        before = len(search.weights)
        search.fit(x, y, batch_size=3, callbacks=callbacks, verbose=0)
        assert len(search.weights) == before
        found.append(([v.numpy() for v in search.variables], random.random(), np.random.random()))
    for ours, theirs in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert found[0][1:] == found[1][1:]


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
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(ImportError, match="tensorboard, which the extra `tuner`"):
        ArchitectureBoard(tmp_path, images=False)


def test_layers_are_described_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(visualization, "spectra", lambda *arguments: None)
    living = []

    class Large(GatedDense):
        def describe(self):
            assert not [reference for reference in living if reference() is not None]
            array = np.ones((3, 3))
            living.append(weakref.ref(array))
            return {"array": array}

    model = keras.Sequential([keras.Input((4,)), Large(3), Large(2)])
    model.compile("sgd", "mse", run_eagerly=True)
    board = ArchitectureBoard(tmp_path)
    model.fit(np.ones((2, 4)), np.ones((2, 2)), callbacks=[board], verbose=0)
    assert len(living) == 4


def test_layers_without_a_count_are_in_the_table(tmp_path):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, GatedDense(2)(Uncounted(name="own")(inputs)))
    model.compile("sgd", "mse", run_eagerly=True)
    board = ArchitectureBoard(tmp_path, images=False)
    model.fit(np.ones((2, 4)), np.ones((2, 2)), callbacks=[board], verbose=0)
    (text,) = np.ravel(read(tmp_path)[0]["architecture"][0])
    assert "complexity/without | own |" in text.decode()


def test_it_has_its_public_name():
    assert keras_xd.callbacks.ArchitectureBoard is ArchitectureBoard
