"""The parts of a model's architecture, and architectures drawn at random."""

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import SearchableLayer, named_layers, searchable_layers


def architecture_parts(model):
    """Return `(path, layer, variables)` of the searchable layers that hold the architecture."""
    if not searchable_layers(model):
        raise ValueError(
            "Only a model with searchable layers has an architecture: see `keras_xd.rewrite`. "
            f"Received: model={model!r}"
        )
    parts = []
    for path, layer in named_layers(model):
        if not isinstance(layer, SearchableLayer):
            continue
        if not layer.built:
            raise ValueError(
                "An architecture has values only once all searchable layers are built: give the "
                f"model an Input. Received: layer '{path or layer.name}', which is not built"
            )
        inside = {
            id(variable)
            for inner in searchable_layers(layer)
            if inner is not layer
            for variable in inner.architecture_variables
        }
        own = [v for v in layer.architecture_variables if id(v) not in inside]
        if own:
            parts.append((path, layer, own))
    return parts


@check_types
def randomize_architecture(
    model: keras.layers.Layer, seed: int | None = None
) -> keras.layers.Layer:
    """Draw the architecture of `model` at random and leave its weights as they are, in place.

    The control of a search: whatever a random architecture gains or loses, trained in the same way
    as the found one, is not due to the search.

    - XD- and K-operations: all stages of `K`, `L` and `M` are Haar-random unitary, at the layer's
      own depth; `L` is scaled by `√n` as the Fourier transform of a convolution is, and `K` so
      that outputs have the variance of a convolution's; `b = 0` and `C = 1`. This is where a
      search from scratch begins, and the "random K-operations" of the
      reference. `XDCausalConv1D`: its `"random_triangular"`.
    - Mixtures of operations: probabilities drawn evenly from all possible ones.
    - Other searchable layers: their `random_architecture`; by default normal entries of the scale
      that the variables begin with (see `SearchableLayer.random_architecture`).

    What layers share stays shared. Constraints of the variables are applied.

    Args:
        model: a built Keras model (a `SearchModel` too) or a single layer.
        seed: an integer makes the architecture reproducible. `None`: drawn by NumPy's generator,
            which `keras.utils.set_random_seed` seeds.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [keras.Input((9, 1)), keras_xd.layers.XDConv1D(2, 3, name="conv")]
    ... )
    >>> model = keras_xd.randomize_architecture(model, seed=0)
    >>> keras_xd.describe(model)["conv"]["distance_from_start/K"] > 1
    True

    Reference:
        Roberts et al., "Searching for Convolutions and a More Ambitious NAS", 2020, section 4.1;
        Li and Talwalkar, "Random Search and Reproducibility for Neural Architecture Search", 2019.
    """
    if validation.seed(seed) is None:
        seed = int(np.random.randint(2**31))
    generator = np.random.default_rng(seed)
    drawn = {}
    for path, layer, variables in architecture_parts(model):
        own = {id(variable) for variable in variables}
        values = list(layer.random_architecture(generator))
        shapes = [np.shape(value) for value in values]
        expected = [tuple(variable.shape) for variable in layer.architecture_variables]
        if shapes != expected:
            raise ValueError(
                "`random_architecture` must return an array for each architecture variable. "
                f"Received: for layer '{path or layer.name}' shapes {shapes}, variables of shapes "
                f"{expected}"
            )
        for variable, value in zip(layer.architecture_variables, values, strict=True):
            if id(variable) in own:
                drawn.setdefault(id(variable), (variable, value))  # a shared one is drawn once
    for variable, value in drawn.values():
        value = ops.convert_to_tensor(value, dtype=variable.dtype)
        variable.assign(value if variable.constraint is None else variable.constraint(value))
    return model
