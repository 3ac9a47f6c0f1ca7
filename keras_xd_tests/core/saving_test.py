"""Models that cannot be saved, or not yet, leave the earlier file as it was.

`first_import_test` kills processes that save what is listed here.
"""

import errno
import os
import resource

import keras
import numpy as np
import pytest

from keras_xd.core.saving import write_weights
from keras_xd.core.searchable import architecture_variables
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import gated_model


def search_model():
    search = SearchModel(gated_model())
    search.compile("sgd", "sgd", "sparse_categorical_crossentropy")
    return search


def finalized_model():
    import keras_xd

    space = keras.Sequential([keras.Input((8, 1)), keras_xd.layers.XDConv1D(2, 3)])
    return keras_xd.finalize(space, form="spectrum")


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class OwnClass(keras.Model):
    """A subclassed model with a convolution in an attribute."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.convolution = keras.layers.Conv1D(2, 3)

    def call(self, inputs):
        return self.convolution(inputs)


def rewritten_model():
    import keras_xd

    model = OwnClass()
    model(np.zeros((1, 8, 1), "float32"))
    return keras_xd.rewrite(model)


def load(make, path):
    if path.endswith(".keras"):
        return keras.saving.load_model(path)
    model = make()
    model.load_weights(path)
    return model


# How processes are killed: in `save`, or where a callback saves.
CASES = {
    "search": (search_model, ".keras", "save"),
    "weights": (search_model, ".weights.h5", "checkpoint"),
    "finalized": (finalized_model, ".keras", "save"),
    "rewritten": (rewritten_model, ".keras", "save"),
}


@pytest.mark.parametrize("name", ["model.keras", "model.weights.h5"])
def test_what_cannot_be_saved_leaves_the_earlier_file(name, tmp_path, monkeypatch):
    search, path = search_model(), tmp_path / name
    save = search.save if name.endswith(".keras") else search.save_weights
    save(path)
    before = path.read_bytes()
    architecture_variables(search)[0].assign(np.zeros(4))

    def full(descriptor):
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == [name]
    save(path)
    assert path.read_bytes() != before


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("room", [0, 4096, 8192, 20_000])
def test_where_there_is_no_room_it_is_an_error_of_the_system(room, plain, tmp_path):
    """The HDF5 library itself raises others, or ends the process."""
    model, path = search_model(), tmp_path / "s.weights.h5"
    if plain:
        model = model.model
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
    write_weights(model, path)
    before, (soft, hard) = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    assert len(before) > 20_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(OSError) as raised:
            write_weights(model, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.errno == errno.EFBIG
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]


def test_other_forms_are_those_of_keras(tmp_path):
    search = search_model()
    search.save(tmp_path / "folder", zipped=False)
    assert (tmp_path / "folder").is_dir()
    search.save_weights(tmp_path / "s.weights.json", max_shard_size=1)
    twin = search_model()
    twin.load_weights(tmp_path / "s.weights.json")
    np.testing.assert_array_equal(twin.get_weights()[1], search.get_weights()[1])
    for name, save in (("s.pb", search.save), ("s.npz", search.save_weights)):
        with pytest.raises(ValueError, match=r"\.weights\.h5|extension"):
            save(tmp_path / name)
    assert not list(tmp_path.glob("*unfinished*"))
