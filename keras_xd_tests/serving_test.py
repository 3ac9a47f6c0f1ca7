"""What a server needs of exported files, and what a `.keras` file needs to be read."""

import pathlib
import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

import keras_xd
from keras_xd_tests.docstrings_test import code_blocks

DEPLOYING = pathlib.Path(__file__).parent.parent / "docs" / "deploying.md"
LOAD = """
import sys
import keras

for path in sys.argv[1:]:
    try:
        print(type(keras.saving.load_model(path)).__module__)
    except TypeError as error:
        print("TypeError:", str(error).splitlines()[0])
"""


def test_the_page_serves_a_model(tmp_path, monkeypatch, capsys):
    """By its signature in TensorFlow 1, as servers read it, with the request of the warm-up."""
    (block,) = (text for text in code_blocks(DEPLOYING.read_text()) if "warmup" in text)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block, names)
    said = capsys.readouterr().out.splitlines()
    assert said[2:] == ["True"] * 3 and "'image'" in said[0] and "(None, 10)" in said[1]
    folder = tmp_path / "classifier" / "1"
    path = str(folder / "assets.extra" / "tf_serving_warmup_requests")
    (record,) = tf.data.TFRecordDataset(path).as_numpy_iterator()
    request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        signature = loaded.signature_def[request.model_spec.signature_name]
        assert set(signature.inputs) == set(request.inputs) == {"image"}
        assert signature.inputs["image"].dtype == request.inputs["image"].dtype
        assert [size.size for size in signature.inputs["image"].tensor_shape.dim][0] == -1
        feed = {
            signature.inputs[key].name: tf.make_ndarray(value)
            for key, value in request.inputs.items()
        }
        answer = session.run(signature.outputs["output_0"].name, feed)
    np.testing.assert_allclose(answer, names["model"](names["images"]), atol=1e-5)


def test_only_snapped_models_load_without_the_package(tmp_path):
    model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3)])
    space = keras_xd.rewrite(model)
    keras_xd.finalize(space).save(tmp_path / "finalized.keras")
    keras_xd.finalize(space, snap=0.05).save(tmp_path / "snapped.keras")
    paths = [str(tmp_path / f"{name}.keras") for name in ("finalized", "snapped")]
    command = [sys.executable, "-c", LOAD, *paths]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, module = done.stdout.splitlines()
    assert refused.startswith("TypeError: Could not locate class 'FinalizedModel'")
    assert module.startswith("keras.")
