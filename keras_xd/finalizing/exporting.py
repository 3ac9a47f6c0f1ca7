"""`export`: a file for serving of any model, in the formats that finalized models have."""

import os
from typing import Any

import keras

from keras_xd.core.argument_types import check_types
from keras_xd.graph.replacing import export_model
from keras_xd.rewriting.candidates import check_model
from keras_xd.training.search_model import SearchModel


@check_types
def export(
    model: keras.Model,
    filepath: str | os.PathLike[str],
    format: str = "tf_saved_model",
    verbose: bool | int | str | None = None,
    input_signature: Any = None,
    *,
    overwrite: bool = False,
    calibration_data: Any = None,
    **kwargs: Any,
) -> None:
    """Export a model as it computes in inference, tried before the file gets its name.

    For models that are not from `finalize`, whose own method `export` does the same: those with
    layers of this package in which nothing is searched, such as `keras_xd.models.fno`, and any
    others. Their Fourier transforms become real matrix products where a format has no FFT. A search
    space is exported with all work on its architecture in it: `finalize` it first.

    The file is written to a temporary folder, run by the runtime of its format on random inputs and
    compared with the model; only then it is moved to `filepath`. `docs/deploying.md` has the
    formats and what they lack.

    Args:
        model: a built model: Functional, Sequential or subclassed, or a `SearchModel`.
        filepath: the path of the file, or of the folder of a SavedModel.
        format: `"tf_saved_model"`, `"onnx"`, `"openvino"` or `"litert"`; `"torch"` and
            `"stablehlo"` where the backend of Keras is torch or JAX.
        verbose: `False` prints nothing.
        input_signature: a list of `keras.InputSpec`, one for each input; by default those of the
            model, with an unknown batch.
        overwrite: whether to overwrite what is at `filepath`.
        calibration_data: arrays of typical inputs, of which at most 256 samples are used. With
            them the file is in int8, with a scale for each channel of the weights, by the
            quantizer of the runtime (`onnxruntime`, `nncf` for OpenVINO, `ai-edge-quantizer` for
            LiteRT; the extra `int8`). Activations are in int8 too, in ranges from these samples,
            unless that changes the outputs by more than 20 %, as it may where an operation
            computes with frequencies; then the weights alone are. What was done and the change
            are printed. Inputs and outputs stay float32. In ONNX files activations have no sign,
            for OpenVINO reads no others rightly; where a CPU has no VNNI, sums of products may
            saturate.
        **kwargs: options of the format, as in `keras.Model.export`; with any the outputs are not
            compared, because some change them.

    Example:

    ```python
    import keras_xd

    model = keras_xd.models.fno((32, 2), width=8, modes=4, blocks=1)
    keras_xd.export(model, "operator.onnx", format="onnx", verbose=False)
    ```
    """
    if isinstance(model, SearchModel):
        model = model.model
    check_model(model)
    options = {"overwrite": overwrite, "calibration_data": calibration_data, **kwargs}
    export_model(model, filepath, format, verbose, input_signature, **options)
