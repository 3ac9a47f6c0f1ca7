"""What a server needs of exported files."""

import pathlib

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_xd_tests.docstrings_test import code_blocks

DEPLOYING = pathlib.Path(__file__).parent.parent / "docs" / "deploying.md"


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
