"""The protocol of every search space, and the functions that walk a model by it."""

import warnings
from typing import Any

import keras
import numpy as np

from keras_xd.core import protocol, randomness
from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Config, Description, Shape, Tensor

# What the bias of a spectrum and the channel gates are where a file, of before, has none.
NEUTRAL = {"frequency_bias": 0.0, "channel_gates": 1.0}
_PLAIN = {type(None), bool, int, float, str}


class SearchableLayer(keras.layers.Layer):
    """Base class of a layer whose operation, not only whose weights, is searched.

    A subclass implements four things besides what every Keras layer has, and every part of the
    package (search, finalizing, callbacks, visualization) works with it.

    - `architecture_variables`: the list of Keras variables that choose the operation.
      All other variables of the layer are its model weights.
    - `complexity(input_shape)`: the multiply–adds of one sample, a scalar that may be a tensor
      differentiable in the architecture variables. It includes the layers inside.
    - `finalize()`: a built plain layer, without architecture variables, that computes the same
      outputs. A mixture of operations becomes one of them, which computes the same outputs only
      once that has probability 1.
    - `describe()`: a dictionary of named scalars (`float`) and NumPy arrays for inspection.

    Two more have a default, `architecture_signature` for files of architectures and
    `random_architecture` for random controls.

    All of these are asked of built layers only; of another one each raises `ValueError`, so that a
    subclass need not check it.

    Layers of several parts may hold searchable layers in attributes, lists or dictionaries.
    Which architecture variables are frozen is saved with the layer.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> class Gate(keras_xd.layers.SearchableLayer):
    ...     def build(self, input_shape):
    ...         self.gate = self.add_weight(shape=input_shape[-1:], initializer="ones")
    ...
    ...     @property
    ...     def architecture_variables(self):
    ...         return [self.gate]
    ...
    ...     def call(self, inputs):
    ...         return inputs * self.gate
    ...
    ...     def complexity(self, input_shape):
    ...         return input_shape[-1]
    ...
    ...     def finalize(self):
    ...         plain = keras.layers.Rescaling(keras.ops.convert_to_numpy(self.gate))
    ...         plain.build(self.get_build_config()["input_shape"])
    ...         return plain
    ...
    ...     def describe(self):
    ...         return {"gate": keras.ops.convert_to_numpy(self.gate)}
    >>> model = keras.Sequential([keras.Input((3,)), Gate(), keras.layers.Dense(2)])
    >>> [tuple(variable.shape) for variable in keras_xd.architecture_variables(model)]
    [(3,)]
    >>> keras_xd.complexity(model), len(keras_xd.finalize(model).layers)
    (9, 3)
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        protocol.require_built(cls)

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """The variables that choose the operation."""
        raise TypeError(f"{type(self).__name__} must implement `architecture_variables`.")

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """Multiply–adds of one sample whose (batched) shape is `input_shape`."""
        raise TypeError(f"{type(self).__name__} must implement `complexity`.")

    def finalize(self) -> keras.layers.Layer:
        """Return a built plain layer with the same outputs."""
        raise TypeError(f"{type(self).__name__} must implement `finalize`.")

    def describe(self) -> Description:
        """Return named scalars and arrays that tell what the operation has become."""
        raise TypeError(f"{type(self).__name__} must implement `describe`.")

    @protocol.of_built_layer
    def architecture_signature(self) -> Config:
        """Return what tells the meaning of the architecture variables besides names and shapes.

        An architecture is moved only between layers of equal signatures: see
        `keras_xd.load_architecture`. By default it is the name of the class.

        Returns:
            A dictionary of what JSON knows, independent of weights and of the data set.
        """
        return {"class": type(self).__name__}

    @protocol.of_built_layer
    def random_architecture(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return a random value of each architecture variable: see `randomize_architecture`.

        By default the entries of a variable are normal of mean 0 and of the root mean square that
        they have where the layer's search begins, 1 if these are all 0. So logits that begin as
        zeros become standard normal. The beginning is that of a copy made by `get_config()`.

        Args:
            generator: a `numpy.random.Generator`.

        Returns:
            A list of arrays in the order of `architecture_variables`.
        """
        with randomness.python_state(int(generator.integers(2**31))):
            start = _fresh_copy(self, generator)
        if start is None:
            raise ValueError(
                "A layer that cannot be made again from its `get_config()` and "
                "`get_build_config()` must implement `random_architecture`. "
                f"Received: layer '{self.name}', {self!r}"
            )
        values = map(keras.ops.convert_to_numpy, start.architecture_variables)
        return [
            generator.standard_normal(value.shape)
            * (np.sqrt(np.mean(np.square(value, dtype="float64"))) if value.any() else 1.0)
            for value in values
        ]

    add_weight = protocol.add_bounded_weight
    quantize = protocol.refuse_to_quantize
    enable_lora = protocol.refuse_lora

    def get_build_config(self) -> Config | None:
        config = super().get_build_config()
        if config is None or not self.trainable:
            return config
        frozen = [not variable.trainable for variable in architecture_variables(self)]
        return {**config, "frozen_architecture": frozen} if any(frozen) else config

    def build_from_config(self, config: Config) -> None:
        config = dict(config or {})
        frozen = config.pop("frozen_architecture", None)
        super().build_from_config(config)
        if frozen:
            for variable, fixed in zip(architecture_variables(self), frozen, strict=True):
                variable.trainable = not fixed


def sublayers(layer):
    """Return the layers directly inside `layer`, each once."""
    found, seen = {}, set()

    def visit(value):
        if isinstance(value, keras.layers.Layer):
            found[id(value)] = value
        elif isinstance(value, (dict, list, tuple, set)) and id(value) not in seen:
            seen.add(id(value))  # it may hold itself
            for item in value.values() if isinstance(value, dict) else value:
                if type(item) not in _PLAIN:
                    visit(item)

    if isinstance(layer, keras.Model):
        visit(layer.layers)
    if not isinstance(layer, keras.Sequential):  # which keeps its graph as one more model inside
        visit(list(vars(layer).values()))
    found.pop(id(layer), None)
    return list(found.values())


def named_layers(model):
    """Return `(path, layer)` of every distinct layer inside `model`, and of `model` itself."""
    found: dict[int, tuple[str, keras.layers.Layer]] = {}
    paths: dict[str, int] = {}

    def visit(layer, path):
        if id(layer) in found:
            return
        number = paths[path] = paths.get(path, -1) + 1
        found[id(layer)] = (f"{path}:{number}" if path and number else path, layer)
        inside = sublayers(layer)
        if len(inside) == 1 and isinstance(layer, keras.Model) and not is_graph(layer):
            (inner,) = inside
            if inner.name == layer.name or (not path and isinstance(inner, keras.Model)):
                visit(inner, path)
                return
        for sublayer in inside:
            visit(sublayer, f"{path}/{sublayer.name}" if path else sublayer.name)

    visit(model, "")
    return list(found.values())


def is_graph(layer):
    """Return whether `layer` is a Functional model or a built Sequential model."""
    if isinstance(layer, keras.Sequential):
        return hasattr(layer, "inputs")
    return isinstance(layer, keras.Model) and isinstance(layer, keras.Function)


def flatten_layers(model):
    """Return every distinct layer inside `model` once, depth first, containers before content."""
    return [layer for _, layer in named_layers(model)]


def searchable_layers(model):
    """Return every distinct `SearchableLayer` of `model` (a model or a single layer)."""
    return [layer for layer in flatten_layers(model) if isinstance(layer, SearchableLayer)]


def searchable_by_path(model):
    """Return the same by their paths."""
    return {path or x.name: x for path, x in named_layers(model) if isinstance(x, SearchableLayer)}


@check_types
def architecture_variables(model: keras.layers.Layer) -> list[keras.Variable]:
    """Return the variables of `model` that choose its operations, each once.

    Args:
        model: a Keras model or layer; nested models and shared layers are followed.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [keras.Input((9, 1)), keras_xd.layers.XDConv1D(2, 3, name="conv")]
    ... )
    >>> [variable.name for variable in keras_xd.architecture_variables(model)]
    ['K0', 'L0', 'M0', 'frequency_bias', 'channel_gates']
    """
    found = {}
    for layer in searchable_layers(model):
        for variable in layer.architecture_variables:
            found[id(variable)] = variable
    return list(found.values())


@check_types
def model_variables(model: keras.layers.Layer) -> list[keras.Variable]:
    """Return the trainable variables of `model` that are not architecture variables."""
    architecture = {id(variable) for variable in architecture_variables(model)}
    return [v for v in model.trainable_variables if id(v) not in architecture]


def non_finite_weights(model, only=None):
    """Return `{path: names}` of the weights in `model` that have NaN or infinite entries."""
    found: dict[str, list[str]] = {}
    seen = set()
    wanted = None if only is None else _ids(only)
    for path, layer in reversed(named_layers(model)):  # content before containers
        for weight in layer.weights:
            if id(weight) in seen or (wanted is not None and id(weight) not in wanted):
                continue
            seen.add(id(weight))
            if not np.all(np.isfinite(keras.ops.convert_to_numpy(weight))):
                found.setdefault(path or layer.name, []).append(weight.name)
    return dict(reversed(found.items()))


def listed_weights(found, most=8):
    """Return in words what `non_finite_weights` returned."""
    texts = [f"'{path}' ({', '.join(names)})" for path, names in list(found.items())[:most]]
    more = f", … ({len(found)} layers)" if len(found) > most else ""
    return ", ".join(texts) + more


def check_finite(model, only=None):
    """Raise `ValueError` with the names of layers and weights that are not finite."""
    found = non_finite_weights(model, only)
    if found:
        raise ValueError(
            "Weights must be finite, or nothing can be said of the operations. Training has "
            "diverged: load an earlier state, look for NaN in the data, or train with lower "
            "learning rates; `keras_xd.callbacks.TerminateOnNonFinite` keeps the last finite "
            f"state. Received: NaN or infinity in layers {listed_weights(found)}"
        )


@check_types
def describe(model: keras.layers.Layer) -> dict[str, dict[str, Any]]:
    """Return what the searchable layers of `model` have become.

    Args:
        model: a Keras model (a `SearchModel` too) or a single layer.

    Returns:
        A dictionary from the path of each searchable layer (its name, after those of the nested
        models around it, joined by "/") to its `describe()`.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [keras.Input((9, 1)), keras_xd.layers.XDConv1D(2, 3, name="conv")]
    ... )
    >>> keras_xd.describe(model)["conv"]["distance_from_start/K"]
    0.0
    """
    check_finite(model)
    return {path: layer.describe() for path, layer in searchable_by_path(model).items()}


@check_types
def freeze_architecture(model: keras.layers.Layer) -> keras.layers.Layer:
    """Make the architecture variables of `model` non-trainable, in place.

    Training then moves the weights only, and `.keras` files keep it so. A compiled
    model retraces its train step, so that its next `fit` leaves the architecture alone. Where
    its optimizer has to know all variables (that of `SearchModel`, an `architecture_optimizer`, or
    any on the JAX backend), the next `fit` raises `ValueError` until the model is compiled again.
    Compile again a model that holds it, too. Setting `layer.trainable`
    or `model.trainable` to `True` sets all variables inside, those of the architecture too.

    Args:
        model: a built Keras model (a `SearchModel` too) or a single layer.

    Returns:
        `model`.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [keras.Input((9, 1)), keras_xd.layers.XDConv1D(2, 3, name="conv")]
    ... )
    >>> model = keras_xd.freeze_architecture(model)
    >>> [variable.name for variable in model.trainable_variables]
    ['kernel', 'bias']
    """
    variables = architecture_variables(model)
    if not variables:
        raise ValueError(
            "Only a built model with searchable layers has an architecture to freeze: see "
            f"`keras_xd.rewrite`. Received: model={model!r}"
        )
    for variable in variables:
        variable.trainable = False
    for layer in flatten_layers(model):
        if isinstance(layer, keras.Model) and layer.compiled:
            layer.make_train_function(force=True)
    return model


@check_types
def reset_weights(model: keras.layers.Layer, seed: int | None = None) -> keras.layers.Layer:
    """Reinitialise the weights of `model` and leave its architecture as it is, in place.

    Every weight gets a fresh value of its layer's own initializer; the statistics of batch
    normalization are reset too. Kept are architecture variables, layers with `trainable=False`,
    adapted `Normalization` layers, the states of random generators, and the optimizer (compile
    again for a fresh one). The values come from copies of the layers made by `get_config()`. A
    model class with weights of its own besides its layers' is refused, since nothing tells how to
    initialise them. If anything is refused, nothing has been changed.

    Args:
        model: a built Keras model (a `SearchModel` too) or a single layer.
        seed: an integer makes the fresh values reproducible. Initializers with a seed of their own
            keep it. `None` draws them as Keras does (see `keras.utils.set_random_seed`).

    Returns:
        `model`.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> model = keras.Sequential([keras.Input((9, 1)), keras_xd.layers.XDConv1D(2, 3)])
    >>> before = model.layers[0].kernel.numpy()
    >>> bool((keras_xd.reset_weights(model).layers[0].kernel.numpy() != before).all())
    True
    """
    kept = {id(variable) for variable in architecture_variables(model)}
    for layer in flatten_layers(model):
        if getattr(layer, "weights_hold_architecture", False):
            raise ValueError(
                "Only the weights of a search space can be reinitialised; in a finalized layer "
                f"weights and architecture are one. Received: layer '{layer.name}', {layer!r}"
            )
        if isinstance(layer, keras.layers.Normalization) or not layer.trainable:
            kept |= _ids(layer.weights)
    fresh: list[tuple[keras.Variable, np.ndarray]] = []
    if seed is None:
        _collect_fresh(model, kept, None, fresh, set())
    else:
        # Keras draws the seeds of initializers that no configuration shows from Python.
        with randomness.python_state(seed):
            _collect_fresh(model, kept, np.random.default_rng(seed), fresh, set())
    for variable, value in fresh:
        variable.assign(value)
    return model


def _collect_fresh(layer, kept, generator, fresh, visited):
    """Append `(variable, fresh value)` for the weights of `layer` that are not `kept`."""
    needed = _ids(layer.weights) - kept - visited
    if not needed:
        return
    copy = None if isinstance(layer, keras.Model) else _fresh_copy(layer, generator)
    if copy is not None:
        for old, new in zip(layer.weights, copy.weights, strict=True):
            if id(old) in needed:
                fresh.append((old, keras.ops.convert_to_numpy(new)))
        visited |= needed
        return
    inside = sublayers(layer)
    own = needed - {i for sublayer in inside for i in _ids(sublayer.weights)}
    if own:
        raise ValueError(
            "Weights can be reinitialised only where their layer can be made again from its "
            f"`get_config()` and `get_build_config()`. Received: {layer!r} with its own weights "
            f"{[weight.path for weight in layer.weights if id(weight) in own]}"
        )
    for sublayer in inside:
        _collect_fresh(sublayer, kept, generator, fresh, visited)


def _fresh_copy(layer, generator):
    """Return a built copy of `layer` with initial weights, or `None` if it cannot be made."""
    try:
        config = layer.get_config()
        copy = type(layer).from_config(_seeded(config, generator) if generator else config)
        if not copy.built:
            with warnings.catch_warnings():  # Keras' own, of layers that cannot be built alone
                warnings.simplefilter("ignore")
                copy.build_from_config(layer.get_build_config() or {})
    except (RuntimeError, TypeError, ValueError):  # what Keras raises here
        return None
    # A layer in which `rewrite` has exchanged others hands these on to what is made of its class.
    shared = _ids(copy.weights) & _ids(layer.weights)
    same = [w.shape for w in copy.weights] == [w.shape for w in layer.weights]
    return copy if same and not shared else None


def _seeded(config, generator):
    """Return a copy of a configuration with a number for every seed that is `None`."""
    if isinstance(config, dict):
        return {
            key: int(generator.integers(2**31))
            if key == "seed" and value is None
            else _seeded(value, generator)
            for key, value in config.items()
        }
    if isinstance(config, (list, tuple)):
        return type(config)(_seeded(item, generator) for item in config)
    return config


def _ids(variables):
    return {id(variable) for variable in variables}
