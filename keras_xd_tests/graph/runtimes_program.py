"""Export to the formats of one backend, torch or JAX: what is written, and how far it is off."""

import keras
import numpy as np

import keras_xd
from keras_xd.graph.exporting import export
from keras_xd.graph.runtimes import FORMATS
from keras_xd_tests import sample_models

FILES = {"torch": ("torch", "m.pt2"), "jax": ("stablehlo", "m.stablehlo")}


def spectral_model():
    inputs = keras.Input((9, 8, 3), name="field")
    outputs = keras_xd.layers.SpectralConv2D(4, (3, 4), kernel_initializer="normal")(inputs)
    return keras.Model(inputs, outputs, name="spectral")


def plain_model():
    return keras.Sequential([keras.Input((9, 2)), keras.layers.Conv1D(3, 2, name="conv")])


def finalized(backbone, **options):
    return keras_xd.finalize(keras_xd.rewrite(backbone), **options)


def errors_of(model, path, format, batches, static=False):
    """Export, and return the largest relative error of the file at each batch size."""
    signature = None
    if static:
        signature = [
            keras.tree.map_structure(
                lambda x: keras.InputSpec(shape=(batches[0], *x.shape[1:]), dtype=x.dtype),
                model.input,
            )
        ]
    export(model, path, format, False, signature, overwrite=True)
    return [error_of(model, path, format, batch, signature) for batch in batches]


def error_of(model, path, format, batch, signature):
    inputs = sample_models.inputs_of(model, np.random.default_rng(0), batch)
    expected = model.predict_on_batch(inputs)
    actual = FORMATS[format].run(str(path), [inputs], signature, expected)
    pairs = zip(keras.tree.flatten(expected), actual, strict=True)
    pairs = [(keras.ops.convert_to_numpy(a), keras.ops.convert_to_numpy(b)) for a, b in pairs]
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs)


def results(folder):
    format, name = FILES[keras.backend.backend()]
    models = {
        "spectrum": finalized(sample_models.shared(), form="spectrum"),
        "low rank": finalized(plain_model(), form="low_rank"),
        "spectral": spectral_model(),
    }
    path = folder / name
    batches = {key: (1, 5) if key == "spectrum" else (5,) for key in models}
    errors = {key: errors_of(model, path, format, batches[key]) for key, model in models.items()}
    errors["static"] = errors_of(models["spectrum"], path, format, (4,), static=True)
    refused = {}
    for other in ("torch", "stablehlo", "litert"):
        if keras.backend.backend() not in FORMATS[other].backends:
            try:
                export(models["spectrum"], folder / f"n{FORMATS[other].suffix}", other)
            except ValueError as error:
                refused[other] = str(error)
    return {"errors": errors, "refused": refused, "files": sorted(p.name for p in folder.iterdir())}
