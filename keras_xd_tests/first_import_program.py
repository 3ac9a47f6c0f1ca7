"""What the package brings where it is imported first, and what serves without it, as JSON.

Each function runs in a copy of this process, which has not imported the package. The copies share
what was imported before: nothing, TensorFlow without Keras, or both.

The argument is a folder with models that `first_import_test` has exported and saved there.
"""

import importlib.abc
import importlib.machinery
import json
import pathlib
import sys
import warnings

from keras_xd_tests import programs

FILES = programs.ROOT / "keras_xd_tests" / "data" / "version_0_1_0"


def registered():
    """Return the names of the package's classes and functions that Keras finds in files."""
    names = sys.modules["keras"].saving.get_custom_objects()
    return [name.removeprefix("keras_xd>") for name in names if name.startswith("keras_xd>")]


def files():
    import keras

    import keras_xd

    model = keras.saving.load_model(FILES / "xd.keras")
    search = keras.saving.load_model(FILES / "search.keras")
    layer = type(model.get_layer("conv")).__name__
    return layer, isinstance(search, keras_xd.SearchModel), registered()


def pictures():
    sys.modules["matplotlib"] = None  # as if it was not installed
    import keras_xd

    names = "keras_xd.visualization" in sys.modules, "visualization" in dir(keras_xd)
    try:
        _ = keras_xd.visualization
    except ImportError as error:
        message = str(error)
    del sys.modules["matplotlib"]
    plot = keras_xd.visualization.plot_operators.__name__
    return names, message, plot, "matplotlib" in sys.modules


class Blocked(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Refuses to import what has a name.

    TensorFlow asks where Keras lies, without importing it; so the refusal is in the loading.
    """

    def __init__(self, *names):
        self.names = names
        sys.meta_path.insert(0, self)
        for name in names:
            try:
                __import__(name)
            except ImportError as error:
                assert "blocked" in str(error)
            else:
                raise AssertionError(f"{name} can be imported")

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, origin="blocked")

    def create_module(self, spec):
        raise ImportError(f"{spec.name} is blocked")

    def exec_module(self, module):
        pass


def served(folder, names, batches):
    """Write the outputs of exported models; return the keys of their inputs, and our modules."""
    Blocked("keras_xd", "keras")
    warnings.simplefilter("error", UserWarning)
    import numpy as np
    import tensorflow as tf

    found = {}
    for name in names:
        loaded = tf.saved_model.load(str(folder / name / "exported"))
        signature = loaded.signatures["serving_default"]
        _, keys = signature.structured_input_signature
        data = np.load(folder / name / "inputs.npz")
        results = {}
        for batch in batches:
            arguments = {key: tf.constant(data[f"{key}_{batch}"]) for key in keys}
            for output, value in signature(**arguments).items():
                results[f"{output}_{batch}"] = value.numpy()
        np.savez(folder / name / "outputs.npz", **results)
        found[name] = sorted(keys)
    return found, [name for name in sys.modules if name.split(".")[0] in ("keras_xd", "keras")]


def snapped(folder, names):
    """Write the outputs of files of Keras; return the error of one that needs the package."""
    Blocked("keras_xd")
    warnings.simplefilter("error", UserWarning)
    import keras
    import numpy as np

    for name in names:
        model = keras.models.load_model(folder / f"{name}.keras")
        outputs = model(np.load(folder / f"{name}_inputs.npy"))
        np.save(folder / f"{name}_outputs.npy", outputs)
    try:
        keras.models.load_model(folder / "finalized.keras")
    except TypeError as error:
        return str(error)


def killed(cases):
    """Return how processes end that are killed while they save."""
    from keras_xd_tests.core import saving_program

    return saving_program.statuses(cases)


def main(folder):
    assert not {"keras", "numpy", "tensorflow", "keras_xd"} & set(sys.modules)
    models = json.loads((folder / "models.json").read_text())
    found = {}
    sys.modules["keras"] = None  # or TensorFlow imports it
    import tensorflow  # noqa: F401

    del sys.modules["keras"]
    found["files"] = programs.returned(files)
    found["served"] = programs.returned(lambda: served(folder, models["served"], models["batches"]))
    import keras  # noqa: F401

    found["snapped"] = programs.returned(lambda: snapped(folder, models["snapped"]))
    found["killed"] = programs.returned(lambda: killed(models["killed"]))
    found["pictures"] = programs.returned(pictures)
    assert "keras_xd" not in sys.modules
    print("RESULT", json.dumps(found))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
