"""One search from a Keras model to a plain one again, and layers beside those of Keras.

`backend_results_program` does the same on each backend and saves the search in a folder, where the
other backends load it too.
"""

import os
import time

import keras
import numpy as np

import keras_xd
from keras_xd import layers
from keras_xd.core.searchable import architecture_variables
from keras_xd.training import bilevel
from keras_xd_tests import sample_models
from keras_xd_tests.training.gated_dense import classification_data, gated_model

LOSS = "sparse_categorical_crossentropy"
FIT = {"batch_size": 8, "shuffle": False, "verbose": 0}
LONGEST_WAIT = 500  # seconds, for the files of other backends


def numbers(values):
    return np.ravel(keras.ops.convert_to_numpy(values)).tolist()


def randomize(model):
    """Give all weights values that do not depend on the backend."""
    generator = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(generator.normal(size=variable.shape) / 3)
    return model


def images():
    x = np.random.default_rng(2).normal(size=(16, 6, 6, 1)).astype("float32")
    return x, np.argmax(x[:, :3].mean((2, 3)), axis=1)


def whole_search(folder):
    """rewrite → compile → fit → save → load → fit → finalize → predict."""
    x, y = images()
    backbone = randomize(
        keras.Sequential(
            [
                keras.Input((6, 6, 1)),
                keras.layers.Conv2D(2, 3, padding="same", activation="relu"),
                keras.layers.GlobalAveragePooling2D(),
                keras.layers.Dense(3, activation="softmax"),
            ]
        )
    )
    rewritten = keras_xd.rewrite(backbone, depth=2)
    start = np.abs(rewritten.predict(x, verbose=0) - backbone.predict(x, verbose=0)).max()
    search = keras_xd.SearchModel(rewritten)
    search.compile(
        keras.optimizers.SGD(0.2, momentum=0.9),
        keras.optimizers.SGD(0.02),
        LOSS,
        metrics=["accuracy"],
        warmup_epochs=1,
    )
    history = search.fit(x, y, epochs=3, validation_data=(x, y), **FIT).history
    path = folder / f"unfinished_{keras.backend.backend()}.keras"
    search.save(path)
    loaded = keras.saving.load_model(path)
    os.replace(path, folder / f"{keras.backend.backend()}.keras")
    same = search.fit(x, y, **FIT).history["loss"] == loaded.fit(x, y, **FIT).history["loss"]
    plain = keras_xd.finalize(loaded)
    return {
        "start": float(start),
        "history": history,
        "resumes": bool(same),
        "architecture": [numbers(v) for v in architecture_variables(loaded)],
        "searched": numbers(loaded.predict(x, verbose=0)),
        "finalized": numbers(plain.predict(x, verbose=0)),
    }


def saved_by(backends, folder):
    """Return what the searches that each backend saved compute here; wait for their files."""
    x, _ = images()
    found, start = {}, time.monotonic()
    for backend in backends:
        path = folder / f"{backend}.keras"
        while not path.exists():
            if time.monotonic() - start > LONGEST_WAIT:
                raise TimeoutError(f"{path} has not been written.")
            time.sleep(0.1)
        # Keras records whether it compiled the steps, which each backend decides otherwise.
        model = keras.saving.load_model(path, compile=False)
        found[backend] = numbers(model.predict(x, verbose=0))
    return found


def modes():
    """Return the losses of a search with batch normalization in every bilevel mode."""
    x, y = classification_data(16)
    found = {}
    for mode in bilevel.MODES:
        search = keras_xd.SearchModel(randomize(gated_model()))
        optimizers = keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.SGD(0.1)
        search.compile(*optimizers, LOSS, mode=mode)
        options = {**FIT, "batch_size": 4, "architecture_validation_split": 0.5}
        history = search.fit(x, y, epochs=2, **options).history
        found[mode] = {**history, "variables": [numbers(v) for v in search.model.variables]}
    return found


def spectral_reference(x, kernel):
    """NumPy's definition of a spectral convolution that keeps 4 rows and 3 columns."""
    spectrum = np.fft.rfft2(x.astype("float64"), axes=(1, 2))
    weights = (kernel[0] + 1j * kernel[1]).reshape(4, 3, *kernel.shape[-2:])
    result = np.zeros((*spectrum.shape[:-1], kernel.shape[-1]), "complex128")
    for place, row in enumerate((0, 1, -2, -1)):
        for column in range(3):
            result[:, row, column] = spectrum[:, row, column] @ weights[place, column]
    return np.fft.irfft2(result, s=x.shape[1:3], axes=(1, 2))


def resumed(folder):
    """Return whether a search that is begun again after its first epoch ends as in one piece."""
    x, y = classification_data(16)

    def train(epochs, **options):
        search = keras_xd.SearchModel(randomize(gated_model()))
        search.compile("adam", "sgd", LOSS, mode="first_order")
        options = {"architecture_validation_split": 0.5, "epochs": epochs, **FIT, **options}
        history = keras_xd.distributed.fit(search, x, y, **options).history
        return history, [numbers(v) for v in search.variables]

    backup = folder / f"backup_{keras.backend.backend()}"
    train(1, backup_dir=backup)
    return train(2, backup_dir=backup) == train(2)


def outputs_of(model, x):
    """Call a model; JAX compiles it as a whole, because it would compile each operation else.

    TensorFlow would trace a graph for a single call.
    """
    if keras.backend.backend() == "jax":
        return model.predict_on_batch(x)
    return keras.ops.convert_to_numpy(model(x))


def twins():
    """Return the largest difference of searchable layers and finalized ones from Keras' twins."""
    rng = np.random.default_rng(3)
    conv = keras.layers
    cases = {
        "XDConv1D": (conv.Conv1D(4, 3, strides=2, groups=2), {"method": "stages"}),
        "XDConv1D, fft": (conv.Conv1D(3, 7, padding="same"), {"method": "fft"}),
        "XDConv2DTranspose": (conv.Conv2DTranspose(3, 3, strides=2), {}),
        "XDDepthwiseConv2D": (conv.DepthwiseConv2D(3, padding="same", depth_multiplier=2), {}),
        "XDSeparableConv1D": (conv.SeparableConv1D(3, 3), {}),
        "KOpConv2D": (conv.Conv2D(3, 3, padding="same"), {"to": "k_operation"}),
        "MixedOperation2D": (conv.Conv2D(4, 3, padding="same"), {"to": "darts", "other_weight": 0}),
    }
    found = {}
    for name, (layer, options) in cases.items():
        rank = 2 if "2D" in name else 1
        model = keras.Sequential([keras.Input((8, 7, 2)[-rank - 1 :]), layer])
        sample_models.randomize(model, rng)
        x = rng.normal(size=(2, *model.input_shape[1:])).astype("float32")
        searched = keras_xd.rewrite(model, **options)
        expected = outputs_of(model, x)
        kinds = type(searched.layers[0]).__name__, type(layer).__name__
        outputs = [outputs_of(model, x) for model in (searched, keras_xd.finalize(searched))]
        errors = [np.abs(y - expected).max() for y in outputs]
        found[name] = {"kinds": kinds, "error": float(max(errors))}
    layer = layers.SpectralConv2D(3, (2, 3), kernel_initializer="normal")
    x = rng.normal(size=(2, 8, 7, 2)).astype("float32")
    model = keras.Sequential([keras.Input(x.shape[1:]), layer])
    layer.kernel.assign(rng.normal(size=layer.kernel.shape))
    expected = spectral_reference(x, keras.ops.convert_to_numpy(layer.kernel))
    error = np.abs(outputs_of(model, x) - expected).max()
    found["SpectralConv2D"] = {"kinds": ("SpectralConv2D", "NumPy"), "error": float(error)}
    return found


def results(folder):
    found = {"search": whole_search(folder), "modes": modes(), "twins": twins()}
    return found | {"resumed": resumed(folder)}
