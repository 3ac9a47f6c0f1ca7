"""Single records, read back by TensorBoard's own reader."""

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from keras_xd.training.callbacks.event_file import EventFile, checked_hparams


def test_records_are_read_back(tmp_path):
    file = EventFile(tmp_path)
    for step, value in ((2, 0.25), (5, np.float32(1.5))):
        file.scalar("number", value, step)
    file.text("words", "# ä", 1)
    file.image("picture", np.zeros((2, 3, 3), "uint8"), 4)
    file.flush()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    read = {
        tag: [
            (e.step, tensor_util.make_ndarray(e.tensor_proto).tolist()) for e in events.Tensors(tag)
        ]
        for tag in events.Tags()["tensors"]
    }
    ((step, (*sides, content)),) = read["picture"]
    assert (step, sides, content[1:4]) == (4, [b"3", b"2"], b"PNG")
    assert read["number"] == [(2, 0.25), (5, 1.5)] and read["words"] == [(1, "# ä".encode())]
    plugins = {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in read}
    assert plugins == {"number": "scalars", "words": "text", "picture": "images"}
    file.close()


def test_hyperparameters_are_copied_and_checked():
    given = {"rate": np.float64(0.5), "flag": np.bool_(True), "name": "a", "count": 3}
    found = checked_hparams(given)
    assert found == {"rate": 0.5, "flag": True, "name": "a", "count": 3} and found is not given
    assert [type(value) for value in found.values()] == [float, bool, str, int]
    with pytest.raises(ValueError, match="Received: 'rate': None"):
        checked_hparams({"rate": None})
