"""What the package brings where it is imported first, as JSON.

Each function runs in a copy of this process, which has not imported the package. The copies share
what was imported before: nothing, TensorFlow without Keras, or both.
"""

import json
import sys

from keras_xd_tests import programs

FILES = programs.ROOT / "keras_xd_tests" / "data" / "version_0_1_0"


def registered():
    """Return the names of the package's classes and functions that Keras finds in files."""
    names = sys.modules["keras"].saving.get_custom_objects()
    return [name.removeprefix("keras_xd>") for name in names if name.startswith("keras_xd>")]


def grammars():
    import keras_xd.grammar
    from keras_xd import grammar

    grammar.spaces.einspace().first()
    growth = keras_xd.grammar.growth(grammar.spaces.einspace())
    names = "rewrite" in dir(keras_xd), hasattr(keras_xd, "rewrites")
    imported = sorted({"keras", "numpy", "tensorflow"} & set(sys.modules))
    return growth, keras_xd.__version__, names, imported


def files():
    import keras_xd.grammar

    before = "keras" in sys.modules
    import keras

    model = keras.saving.load_model(FILES / "xd.keras")
    search = keras.saving.load_model(FILES / "search.keras")
    layer = type(model.get_layer("conv")).__name__
    return before, layer, isinstance(search, keras_xd.SearchModel), registered()


def earlier_paths():
    sys.modules["matplotlib"] = None  # as if it was not installed
    import keras_xd.layers.masked.masks
    import keras_xd.masks
    from keras_xd.genotypes import NOS_OPERATIONS
    from keras_xd.layers.rewritten import Rewritten

    same = keras_xd.masks is keras_xd.layers.masked.masks
    names = "keras_xd.visualization" in sys.modules, "visualization" in dir(keras_xd)
    try:
        _ = keras_xd.visualization
    except ImportError as error:
        message = str(error)
    del sys.modules["matplotlib"]
    plot = keras_xd.visualization.plot_operators.__name__
    return (
        len(NOS_OPERATIONS),
        Rewritten.__name__,
        same,
        names,
        message,
        plot,
        "matplotlib" in sys.modules,
    )


def layers_first():
    from keras_xd.layers import XDConv2D

    return XDConv2D.__name__, registered()


def package_first():
    import keras_xd

    return keras_xd.rewrite.__name__, registered()


def earlier_path_first():
    from keras_xd.layers.rewritten import Rewritten

    return Rewritten.__name__, registered()


def main():
    assert not {"keras", "numpy", "tensorflow", "keras_xd"} & set(sys.modules)
    found = {"grammars": programs.returned(grammars)}
    sys.modules["keras"] = None  # or TensorFlow imports it
    import tensorflow  # noqa: F401

    del sys.modules["keras"]
    found["files"] = programs.returned(files)
    import keras  # noqa: F401

    for function in (earlier_paths, layers_first, package_first, earlier_path_first):
        found[function.__name__] = programs.returned(function)
    assert "keras_xd" not in sys.modules
    print("RESULT", json.dumps(found))


if __name__ == "__main__":
    main()
