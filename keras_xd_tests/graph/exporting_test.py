"""Exported files: as in inference, tried before they are written, in the formats that serve."""

import errno
import importlib.util
import os
import pathlib
import re
import shutil
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import keras_xd
from keras_xd.core import files
from keras_xd.graph import exporting
from keras_xd.graph.exporting import InferenceModel
from keras_xd.graph.runtimes import FORMATS
from keras_xd_tests import sample_models

RELATIVE_ERROR = 1e-5


def sequence_model(**options):
    stack = [
        keras.Input((16, 3), name="signal"),
        layers.AveragePooling1D(2),
        layers.Conv1D(3, 3, activation="relu", **options),
        layers.GlobalAveragePooling1D(),
    ]
    return keras.Sequential(stack)


def convolution_model():
    return keras.Sequential(
        [keras.Input((8, 3), name="signal"), layers.Conv1D(4, 3, activation="relu", name="conv")]
    )


def image_model():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            layers.RandomFlip(),
            layers.Conv2D(2, 3, activation="relu", name="conv"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(2),
        ]
    )


def spectral_model(*sizes):
    inputs = keras.Input((*sizes, 3), name="field")
    x = keras_xd.layers.SpectralConv2D(2, (3, 4), use_bias=True)(inputs)
    return keras.Model(inputs, layers.Conv2D(2, 3)(x))


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Spectrum(layers.Layer):
    """A layer of a user that calls an FFT, which LiteRT and ONNX do not have."""

    def call(self, inputs):
        return keras.ops.rfft(inputs)[0]

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], input_shape[-1] // 2 + 1)


def foreign_model():
    return keras.Sequential([keras.Input((8, 6)), layers.Conv1D(6, 3), Spectrum(name="fft")])


def ccnn_model():
    """Long convolutions by FFT: of one the resolution is learned, of the other it is not."""
    inputs = keras.Input((16, 2))
    x = keras_xd.layers.CKConv1D(kernel_size=9, convolution="fourier")(inputs)
    x = keras_xd.layers.CKConv1D(kernel_size=9, learn_resolution=True)(x)
    return keras.Model(inputs, x)


def operator(*sizes):
    """A Fourier neural operator between normalized functions, not periodic, and on another grid."""
    inputs = keras.Input((*sizes, 2), name="function")
    x = layers.Normalization(axis=-1, mean=[0.1, 0.2], variance=[2.0, 3.0])(inputs)
    x = keras_xd.layers.PointNormalization(channels=1)(x)
    options = {"width": 4, "modes": 3, "blocks": 1, "continuation": 2, "local_kernel": 3}
    x = keras_xd.models.fno((*sizes, 2), **options)(x)
    return keras.Model(inputs, keras_xd.layers.FourierResampling((7,) * len(sizes))(x))


def half_operator():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return operator(17)
    finally:
        keras.config.set_dtype_policy("float32")


def points_model():
    """Any number of scattered points, the last two channels their places, to a grid and back."""
    inputs = keras.Input((None, 3), name="points")
    values, places = keras.ops.split(inputs, [1], axis=-1)
    grid = keras_xd.layers.PointsToGrid((8, 6))([values, places])
    return keras.Model(inputs, keras_xd.layers.GridToPoints()([grid, places]))


FINALIZED = {
    "images": lambda: keras_xd.finalize(
        keras_xd.SearchModel(keras_xd.rewrite(image_model(), depth=2)), form="spectrum"
    ),
    "sequence": lambda: finalized(sequence_model(padding="same", strides=2), depth=2),
    "groups": lambda: finalized(sequence_model(groups=3, padding="causal")),
    "k_operation": lambda: finalized(convolution_model(), to="k_operation", depth=2),
    "long": lambda: finalized(
        keras.Sequential([keras.Input((300, 2)), layers.Conv1D(2, 3, padding="same")]), depth=3
    ),
    "masked": lambda: finalized(image_model(), to="masked"),
    "kernel_groups": lambda: kept("kernel", sequence_model(groups=3), depth=2),
    "kernel_float16": lambda: kept("kernel", convolution_model(), "float16"),
    "spectrum_float16": lambda: kept("spectrum", convolution_model(), "float16"),
    "any_size": lambda: spectral_model(None, None),
    "ccnn": lambda: keras_xd.finalize(ccnn_model()),
    "operator1": lambda: operator(17),
    "half": half_operator,
    "points": points_model,
    "operator2": lambda: keras_xd.finalize(operator(10, 9)),
    "spectrum_bfloat16": lambda: kept("spectrum", convolution_model(), "bfloat16"),
}


def kept(form, model, weight_dtype=None, **options):
    return keras_xd.finalize(
        keras_xd.rewrite(model, **options), form=form, weight_dtype=weight_dtype
    )


def finalized(model, **options):
    return keras_xd.finalize(keras_xd.rewrite(model, **options), form="spectrum")


def interpreter(path):
    """Return the interpreter that a LiteRT file is served by."""
    if importlib.util.find_spec("ai_edge_litert") is not None:
        from ai_edge_litert.interpreter import Interpreter

        return Interpreter(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tf.lite.Interpreter(str(path))


def assert_served(runner, model, rng, batch, sizes):
    """Compare the outputs of a file, called by names of inputs, with those of a model.

    Those of its sizes that are not known are `sizes`.
    """
    inputs = sample_models.inputs_of(model, rng, batch, sizes)
    names = [tensor.name for tensor in model.inputs]
    actual = runner(dict(zip(names, keras.tree.flatten(inputs), strict=True)))
    expected = model(inputs, training=False)
    if not isinstance(expected, dict):
        expected = dict(zip(sorted(actual), keras.tree.flatten(expected), strict=True))
    assert set(actual) == set(expected)
    for name, value in expected.items():
        half = keras.backend.standardize_dtype(value.dtype) == "float16"
        tolerance, scale = 4 * 2.0**-10 if half else RELATIVE_ERROR, np.max(np.abs(value))
        np.testing.assert_allclose(actual[name], value, rtol=0, atol=tolerance * scale)


def litert(path):
    runner = interpreter(path).get_signature_runner()
    return lambda inputs: runner(**inputs)


def onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    outputs = [value.name for value in session.get_outputs()]
    return lambda inputs: dict(zip(outputs, session.run(None, inputs), strict=True))


def openvino(path):
    import openvino

    compiled = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(inputs):
        outputs = compiled(inputs)
        return {f"output_{i}": outputs[output] for i, output in enumerate(compiled.outputs)}

    return run


def saved_model(path):
    served = tf.saved_model.load(path).signatures["serving_default"]
    return lambda inputs: served(**{k: tf.constant(v) for k, v in inputs.items()})


# The runtime of each format, and what it is given: every kind of layer and every mechanism once.
RUNTIMES = {
    "litert": (
        "m.tflite",
        litert,
        ("images", "groups", "long", "masked", "any_size", "operator2", "points"),
    ),
    "onnx": (
        "m.onnx",
        onnx,
        (
            *("images", "sequence", "k_operation", "kernel_groups", "any_size", "ccnn"),
            *("operator1", "points", "half"),
        ),
    ),
    "openvino": (
        "m.xml",
        openvino,
        ("spectrum_float16", "any_size", "half"),
    ),
    "tf_saved_model": (
        "m",
        saved_model,
        ("kernel_float16", "spectrum_bfloat16", "any_size", "half"),
    ),
}


def side_by_side(names):
    """Return a model of several models, each with inputs of its own.

    Most of what an export takes it takes for each file.
    """
    inputs, outputs = [], []
    for name in names:
        model = FINALIZED[name]()
        model.name = name
        inputs.append(keras.Input(model.input_shape[1:], name=f"{name}_input"))
        outputs.append(model(inputs[-1]))
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize("format", RUNTIMES)
def test_files_are_served(format, tmp_path, rng):
    file, load, names = RUNTIMES[format]
    """With the outputs of inference, where layers such as `RandomFlip` do nothing."""
    model = side_by_side(names)
    keras_xd.export(model, tmp_path / file, format, False)
    runner = load(tmp_path / file)
    for batch, sizes in ((1, (7, 12)), (5, (16, 9))):
        assert_served(runner, model, rng, batch, sizes)


# Where there is no file, and where there is one to overwrite.
@pytest.mark.parametrize(
    ("format", "file", "kept"), [("litert", "m.tflite", "mine"), ("onnx", "m.onnx", None)]
)
def test_files_that_cannot_be_served_are_not_written(format, file, kept, tmp_path):
    space, path = keras_xd.rewrite(foreign_model(), depth=1), tmp_path / file
    message = "cannot be exported.*layer 'fft' of class Spectrum.*tf_saved_model.*Nothing has been"
    if kept:
        path.write_text(kept)
    model = keras_xd.SearchModel(space) if kept else keras_xd.finalize(space)
    with pytest.raises(ValueError, match=message):
        keras_xd.export(model, path, format=format, overwrite=bool(kept), verbose=False)
    assert path.read_text() == kept if kept else not list(tmp_path.iterdir())


def half_model(policy):
    stack = [layers.Conv2D(8, 3, padding="same", activation="relu", dtype=policy) for _ in range(6)]
    return keras.Sequential([keras.Input((12, 12, 3)), *stack, layers.Flatten()])


@pytest.mark.parametrize(("policy", "epsilon"), [("float16", 2.0**-10), ("bfloat16", 2.0**-7)])
def test_half_types_may_round_elsewhere(policy, epsilon, rng):
    """A wrong file is still refused, and so is what float32 would not be told from."""
    model = half_model(f"mixed_{policy}")
    expected = keras.ops.convert_to_tensor(rng.uniform(-1, 1, size=(3, 50)), policy)
    values = np.array(keras.ops.cast(expected, "float32"))
    rounded = values + 1.4 * epsilon * np.abs(values).max() * rng.uniform(-1, 1, values.shape)
    exporting._check_outputs(model, expected, [rounded])
    for factor in (1 + 8 * epsilon, float("nan")):
        with pytest.raises(ValueError, match="outputs differ"):
            exporting._check_outputs(model, expected, [factor * values])
    with pytest.raises(ValueError, match="outputs differ"):
        exporting._check_outputs(half_model("float32"), expected, [rounded])


def test_a_file_that_does_not_keep_eight_bits_is_told(tmp_path):
    """The weights of an XD-operation are constants of a graph, which ONNX files have in float32."""
    stack = [keras.Input((16, 16, 8)), layers.Conv2D(16, 3, padding="same")]
    model = finalized(keras.Sequential(stack))
    with warnings.catch_warnings(record=True) as found:
        model.export(tmp_path / "m.onnx", format="onnx", verbose=False)
    assert not [warning for warning in found if "stores as float32" in str(warning.message)]
    model.layers[-1].quantize("int8")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        model.export(tmp_path / "m.onnx", format="onnx", verbose=False, overwrite=True)
    assert any("'onnx' stores as float32" in str(warning.message) for warning in found)


def test_half_precision_that_the_runtime_has_not(tmp_path):
    layer = layers.Normalization(mean=0.1, variance=2.0, dtype="mixed_float16")
    model = keras.Sequential([keras.Input((17, 2)), layer, layers.Conv1D(2, 3)])
    with pytest.raises(ValueError, match="class Normalization has no form there"):
        keras_xd.export(model, tmp_path / "m.tflite", "litert")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def plain_convolution():
    return finalized(convolution_model())


def test_names_and_signatures_of_files(plain_convolution, tmp_path, capsys):
    model = plain_convolution
    with pytest.raises(ValueError, match=r"ends with '.tflite'.*Received: filepath='.*m.bin'"):
        model.export(tmp_path / "m.bin", format="litert")
    (tmp_path / "m.onnx").mkdir()
    with pytest.raises(ValueError, match="writes one file"):
        model.export(tmp_path / "m.onnx", format="onnx", overwrite=True)
    signature = [keras.InputSpec(shape=(1, 12, 3), dtype="float32", name="signal")]
    with pytest.raises(ValueError, match="give one with sizes that the model takes"):
        model.export(tmp_path / "m.tflite", format="litert", input_signature=signature)
    signature = tf.TensorSpec((4, 8, 3), name="signal")
    model.export(tmp_path / "m.tflite", format="litert", input_signature=signature)
    assert f"Saved artifact at '{tmp_path / 'm.tflite'}'" in capsys.readouterr().out
    details = interpreter(tmp_path / "m.tflite").get_input_details()
    assert details[0]["shape"].tolist() == [4, 8, 3]


def test_formats_and_folders_that_are_not_there(plain_convolution, tmp_path):
    model = plain_convolution
    with pytest.raises(ValueError, match=r"one of \['tf_saved_model'.*Received: format='tflite'"):
        model.export(tmp_path / "m.tflite", format="tflite")
    for format in ("torch", "stablehlo"):
        with pytest.raises(ValueError, match="KERAS_BACKEND is set so. Received: backend='tensor"):
            model.export(tmp_path / "m", format=format)
    with pytest.raises(ValueError, match="whose folder .*none' does not exist"):
        model.export(tmp_path / "none" / "m.onnx", format="onnx")
    (tmp_path / "m.bin").write_text("mine")
    with pytest.raises(ValueError, match=r"never overwrites.*m.bin"):
        model.export(tmp_path / "m.xml", format="openvino")
    with pytest.raises(ValueError, match="must be built before.*Received: model 'later'"):
        exporting.export(keras.Sequential([layers.Dense(1)], name="later"), tmp_path / "n")
    diverged = keras.Sequential([keras.Input((2,)), layers.Dense(1, "relu", name="dense")])
    diverged.layers[-1].bias.assign([np.nan])
    with pytest.raises(ValueError, match="must be finite.*dense"):
        keras_xd.export(diverged, tmp_path / "n")
    assert [path.name for path in tmp_path.iterdir()] == ["m.bin"]


def test_an_interrupted_export_leaves_nothing(tmp_path, monkeypatch):
    """Neither where it is stopped while Keras writes, nor while the folder gets its name."""
    path = tmp_path / "m"
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    copytree = shutil.copytree

    def stop_at_the_end(*args, **kwargs):
        copytree(*args, **kwargs)
        raise KeyboardInterrupt

    for broken, name, function in (
        (InferenceModel, "export", stop),
        (exporting.shutil, "copytree", stop_at_the_end),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(broken, name, function)
            with pytest.raises(KeyboardInterrupt):
                exporting.export(model, path)
        assert not list(tmp_path.iterdir())
    exporting.export(model, path, verbose=False)
    (path / "notes").write_text("mine")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(exporting.os, "replace", stop)
        exporting.export(model, path, overwrite=True)
    assert not (path / "saved_model.pb").exists()  # neither the old model nor half of a new one
    exporting.export(model, path, verbose=False, overwrite=True)
    assert (path / "notes").read_text() == "mine"
    x = np.ones((1, 2), "float32")
    served = tf.saved_model.load(path)
    np.testing.assert_allclose(served.serve(x), model(x), rtol=1e-6)


@pytest.mark.parametrize(("format", "stage"), [("onnx", 0), ("openvino", 2)])
def test_interrupted_files_leave_nothing(format, stage, plain_convolution, tmp_path, monkeypatch):
    """While they are tried, and while the first and the last of them are moved to their names."""
    path, moved, replace = tmp_path / RUNTIMES[format][0], [], os.replace

    def stop(*arguments):
        moved.append(arguments)
        if len(moved) >= stage:
            raise KeyboardInterrupt
        replace(*arguments)

    def write(_, new, format, *arguments):
        for name in exporting.written(new, FORMATS[format]):
            pathlib.Path(name).write_text("new")

    place = (files.os, "replace") if stage else (exporting, "_check_outputs")
    if stage:  # an old model, which the first new file would not fit to
        path.write_text("mine")
        path.with_suffix(".bin").write_text("mine")
        monkeypatch.setattr(exporting, "_write_and_compare", write)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(*place, stop)
        plain_convolution.export(path, format, False, overwrite=bool(stage))
    assert len(moved) == max(stage, 1) and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EDQUOT, "over quota"),
        tf.errors.ResourceExhaustedError(None, None, "variables: No space left on device"),
    ],
)
def test_a_full_disk_is_told_and_not_laid_on_the_model(error, tmp_path, monkeypatch):
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])

    def full(*arguments, **options):
        raise error

    monkeypatch.setattr(InferenceModel, "export", full)
    with pytest.raises(OSError, match=f"TMPDIR.*Nothing.*{type(error).__name__}") as raised:
        exporting.export(model, tmp_path / "m")
    assert raised.value.errno == errno.ENOSPC and not list(tmp_path.iterdir())


def wide_model():
    stack = [
        keras.Input((8, 8, 3), name="image"),
        layers.Conv2D(48, 3, activation="relu", name="first"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.Flatten(),
        layers.Dense(10),
    ]
    return keras.Sequential(stack)


def file_bytes(path):
    return sum(file.stat().st_size for file in (path, path.with_suffix(".bin")) if file.exists())


@pytest.mark.parametrize(
    ("name", "searched"), [("m.onnx", True), ("m.xml", False), ("m.tflite", False)]
)
def test_int8_by_the_quantizers_of_the_runtimes(name, searched, tmp_path, capsys, rng):
    model = wide_model()
    if searched:
        model = keras_xd.finalize(keras_xd.rewrite(model, only="first"), form="spectrum")
    format = {".onnx": "onnx", ".xml": "openvino", ".tflite": "litert"}[name[1:]]
    images = rng.normal(size=(40, 8, 8, 3)).astype("float32")
    small = tmp_path / name
    keras_xd.export(model, small, format, calibration_data=images)
    done = re.search(
        r"In int8, (.*), its outputs .* differ by (.*)% \(RMS\)", capsys.readouterr().out
    )
    assert searched or done[1] == "weights and activations"
    assert float(done[2]) <= 20
    # Of the bytes that the weights have in float32.
    assert file_bytes(small) < (0.3 if searched else 0.45) * 4 * model.count_params()
    signature = [keras.InputSpec(shape=(None, 8, 8, 3), name="image")]
    actual = FORMATS[format].run(str(small), [images], signature, None)[0]
    expected = model.predict(images, verbose=0)
    assert np.linalg.norm(actual - expected) < 0.2 * np.linalg.norm(expected)


@pytest.mark.parametrize("searched", [False, True])
def test_openvino_computes_an_onnx_file_in_int8_as_onnx_runtime(searched, tmp_path, rng):
    model = keras_xd.models.resnet20((8, 8, 3), 10, width=4)
    if searched:
        space = keras_xd.rewrite(model, only=["conv", "stage1_block1_conv1"], depth=1)
        for variable in space.trainable_variables:
            variable.assign_add(0.02 * rng.normal(size=variable.shape))
        model = keras_xd.finalize(space, form="kernel")
    images = rng.normal(size=(40, 8, 8, 3)).astype("float32")
    path, signature = str(tmp_path / "m.onnx"), [keras.InputSpec(shape=(None, 8, 8, 3))]
    keras_xd.export(model, path, "onnx", calibration_data=images, verbose=False)
    call = path, [images], signature, None
    expected, actual = (FORMATS[name].run(*call)[0] for name in ("onnx", "openvino"))
    np.testing.assert_allclose(actual, expected, atol=0.1 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("format", "shape", "message"),
    [
        ("onnx", (1, 8, 8, 3), "`calibration_data` must be finite"),
        ("tf_saved_model", (4, 8, 8, 3), "'onnx', 'openvino', 'litert'.*format='tf_saved_model'"),
        ("onnx", (4, 8, 8), r"shapes \[\(None, 8, 8, 3\)\]. Received: .*\(4, 8, 8\)"),
        ("onnx", (0, 8, 8, 3), "at least 1 samples"),
    ],
)
def test_calibration_data_that_do_not_fit(format, shape, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        path = tmp_path / "m.onnx"
        keras_xd.export(wide_model(), path, format, calibration_data=np.full(shape, np.nan))
