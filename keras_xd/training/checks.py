"""Checks of the arguments of `SearchModel`."""

import inspect
import warnings

import keras
import numpy as np

from keras_xd.core.compile_config import warn_of_own_training
from keras_xd.core.searchable import (
    architecture_variables,
    flatten_layers,
    is_graph,
    searchable_layers,
)
from keras_xd.core.validation import check_finite_data, is_integer, one_of, positive_number
from keras_xd.core.warning_location import stacklevel
from keras_xd.layers.fourier.point_normalization import PointNormalization
from keras_xd.layers.masked.base import MaskedLayer
from keras_xd.training import bilevel, rates
from keras_xd.training.callbacks.complexity_weight import ComplexityWeight
from keras_xd.training.callbacks.early_stop import EarlyStop, StopRecorder
from keras_xd.training.callbacks.epoch_counter import EpochCounter
from keras_xd.training.callbacks.rate_callbacks import ONE_RATE, OneRate, TwoRates

MODES = ("joint", *bilevel.MODES)
SPARSE = ("sparse_categorical_crossentropy", "SparseCategoricalCrossentropy")
ONE_HOT = ("categorical_crossentropy", "CategoricalCrossentropy")
BATCH_SIZE = 32  # of Keras, where none is given


def check_model(model, wrapper):
    """Raise `ValueError` unless `model` is a built model to search, and no `wrapper` itself."""
    if not isinstance(model, keras.Model) or not model.built:
        raise ValueError(
            "`model` must be a built Keras model: give it an Input or call it on data first. "
            f"Received: model={model!r}"
        )
    if isinstance(model, wrapper):
        raise ValueError(
            f"`model` must not be a {wrapper.__name__} itself. Received: model={model!r}"
        )
    if not architecture_variables(model):
        raise ValueError(
            "`model` must have searchable layers: see `keras_xd.rewrite`. "
            f"Received: model={model!r}"
        )
    warn_of_own_training(model, "A SearchModel")


def check_mode(mode, perturbation):
    """Raise `ValueError` unless `mode` is one that runs here, with a sound perturbation."""
    if one_of(mode, MODES, "mode") != "joint":
        bilevel.check_backend(mode)
    positive_number(perturbation, "perturbation")


def check_trainable_variables(search):
    """Raise `ValueError` if variables of a search were frozen or unfrozen since `compile`."""
    built_on = sorted(search.search_optimizer.built_paths)
    now = sorted(variable.path for variable in search.trainable_variables)
    if built_on != now:
        raise ValueError(
            "The trainable variables must be those of `compile`. Compile the model again "
            "after freezing or unfreezing the architecture or layers. Received: variables "
            f"{sorted(set(built_on) ^ set(now))}, trainable either then or now"
        )


def warn_of_missing_weight(search, callbacks):
    """Warn if a search has a complexity target that nothing makes it aim at, or masks and none."""
    masked = any(isinstance(layer, MaskedLayer) for layer in searchable_layers(search))
    if masked and search.complexity_target is None:
        warnings.warn(
            "The masks of a rewritten model begin at full size, and nothing but a "
            "`complexity_target` makes them smaller; a target with complexity_weight=0.0 measures "
            "only. Received: complexity_target=None",
            stacklevel=stacklevel(),
        )
    if not search.weight_is_missing or search.complexity_weight:
        return
    callbacks = getattr(callbacks, "callbacks", callbacks) or []
    if any(isinstance(item, ComplexityWeight) for item in keras.tree.flatten(callbacks)):
        return
    warnings.warn(
        "Without a `complexity_weight` the complexity is measured and never moved to "
        "`complexity_target`. Give `complexity_weight`, or 0.0 to measure only. "
        f"Received: complexity_target={search.complexity_target}, complexity_weight=None",
        stacklevel=stacklevel(),
    )


def warn_of_unadapted(search):
    """Warn of normalizations that `fit` would train a model around as identities."""
    names = [
        layer.name
        for layer in flatten_layers(search)
        if isinstance(layer, PointNormalization) and layer.built and not layer.is_adapted
    ]
    if names:
        warnings.warn(
            "A PointNormalization does nothing until its `adapt` is called on training data, "
            f"before `fit`. Received: layers {names}, which are not adapted",
            stacklevel=stacklevel(),
        )


def warn_of_logits(model, loss):
    """Warn if a loss takes probabilities for logits, or logits for probabilities."""
    if not is_graph(model):
        return
    names = getattr(model, "output_names", [None])  # a Sequential model has no names
    if isinstance(loss, dict):
        losses = [loss.get(name) for name in names]
    else:
        losses = loss if isinstance(loss, (list, tuple)) else [loss] * len(names)
    for output, one in zip(model.outputs, losses, strict=False):
        from_logits, activation = takes_logits(one), _last_activation(model, output)
        if from_logits and activation in ("softmax", "sigmoid"):
            fault = f"the outputs are probabilities ({activation}), and the loss takes logits"
        elif from_logits is False and activation == "linear":
            fault = "the outputs are logits (no activation), and the loss takes probabilities"
        else:
            continue
        warnings.warn(
            "Outputs and loss must agree: probabilities with `from_logits=False`, or logits with "
            f"`from_logits=True`. Received: model '{model.name}' with loss={one!r}; {fault}",
            stacklevel=stacklevel(),
        )


def takes_logits(loss):
    """Return whether a loss takes logits, `None` where that means nothing or is not known."""
    if isinstance(loss, str) or inspect.isfunction(loss):
        try:
            loss = keras.losses.get(loss)
        except ValueError:  # Keras says so itself
            return None
        if getattr(keras.losses, getattr(loss, "__name__", ""), None) is not loss:
            return None  # a function of your own
        parameters = inspect.signature(loss).parameters
        return parameters["from_logits"].default if "from_logits" in parameters else None
    return getattr(loss, "from_logits", None)


def _last_activation(model, output):
    """Return the name of the activation that ends in an output of a graph, or `None`."""
    for layer in reversed(model.layers):
        try:
            made = keras.tree.flatten(layer.output)
        except (AttributeError, ValueError):  # a layer of several calls has not one output
            continue
        places = [place for place, tensor in enumerate(made) if tensor is output]
        if places:
            if is_graph(layer):
                return _last_activation(layer, layer.outputs[places[0]])
            if isinstance(layer, keras.layers.Softmax):
                return "softmax"
            return getattr(getattr(layer, "activation", None), "__name__", None)
    return None


def prepare_fit(search, x, y, epochs, held_out, held_out_split, given):
    """Check the arguments of `fit` of a compiled search; begin its phases."""
    check_trainable_variables(search)
    samples = {name: given.get(name) for name in ("sample_weight", "validation_data")}
    for name, data in {"x": x, "y": y, **samples, "architecture_validation_data": held_out}.items():
        check_finite_data(data, name)
    search.cooldown_begins = first_cooldown_epoch(search, epochs, given.get("initial_epoch", 0))
    if search.mode != "joint":
        return bilevel.fit_arguments(search, x, y, held_out, held_out_split, given)
    if held_out is not None or held_out_split is not None:
        raise ValueError(
            "`architecture_validation_data` and `architecture_validation_split` are for the "
            f"bilevel modes. Received: mode={search.mode!r}"
        )
    return x, y, given


def first_cooldown_epoch(search, epochs, initial_epoch):
    """Return the first epoch of a `fit` in which its architecture has to be fixed again."""
    if not search.cooldown_epochs:
        return None
    limit = keras.config.max_epochs()
    epochs = min(epochs, limit) if limit else epochs
    warmup = max(search.warmup_epochs - int(search.search_optimizer.epochs.numpy()), 0)
    can_move = any(variable.trainable for variable in architecture_variables(search))
    if can_move and not initial_epoch and warmup + search.cooldown_epochs >= epochs:
        raise ValueError(
            "`epochs` must leave an epoch in which the architecture moves: warm-up and "
            "`cooldown_epochs` together must be fewer. Give `initial_epoch` where training goes "
            f"on in its cool-down. Received: epochs={epochs}, "
            f"cooldown_epochs={search.cooldown_epochs}, {warmup} epochs of warm-up to come"
        )
    return epochs - search.cooldown_epochs


def with_own_callbacks(callbacks, search):
    """Return callbacks for `fit`, with those that a search needs around them."""
    listed = isinstance(callbacks, keras.callbacks.CallbackList)
    found = callbacks.callbacks if listed else keras.tree.flatten(callbacks or [])
    if search.compiled:
        rates.check_callbacks(search.search_optimizer, found)
    _warn_of_backups_within_epochs(found)
    if any(isinstance(callback, EpochCounter) for callback in found):
        return callbacks  # a list that was given before
    result = [EpochCounter()]
    for callback in found:
        front, behind = _surroundings(callback)
        result += [*front, callback, *behind]
    if not listed:
        return result
    for callback in result:
        if not any(callback is old for old in found):
            callback.set_model(search)
            callback.set_params(callbacks.params)
    callbacks.callbacks[:] = result
    return callbacks


def _warn_of_backups_within_epochs(callbacks):
    """Warn of backups from which Keras does not go on where training was."""
    for callback in callbacks:
        frequency = getattr(callback, "save_freq", "epoch")
        if isinstance(callback, keras.callbacks.BackupAndRestore) and is_integer(frequency):
            warnings.warn(
                "From a backup within an epoch Keras goes on with the first batch of that epoch, "
                "so its first batches are trained on twice, and the result is another one than "
                "without interruption. With save_freq='epoch' it is the same to the bit. "
                f"Received: BackupAndRestore with save_freq={frequency}",
                stacklevel=stacklevel(),
            )


def _surroundings(callback):
    """Return lists of the callbacks to put in front of one and behind it."""
    if isinstance(callback, ONE_RATE):
        return [OneRate()], [TwoRates()]
    if isinstance(callback, keras.callbacks.EarlyStopping):
        recorder = StopRecorder()
        return [recorder], [EarlyStop(callback, recorder)]
    return [], []


def check_samples(model, x, y, loss, data):
    """Raise `ValueError` for samples that a training would go wrong with, by their places."""
    if y is None:
        return
    inputs, targets = _validation_arrays(data)
    for name, part in {"x": x, "y": y, "validation_data": (inputs, targets)}.items():
        check_finite_data(part, name)
    _classes_of(model, (y, targets), loss)


def check_parts(model, y, loss, data):
    """Raise `ValueError`, or warn, of too few samples or classes, when a part validates."""
    if y is None:
        return
    count, size = len(keras.tree.flatten(y)[0]), data.get("batch_size") or BATCH_SIZE
    if count < size:
        warnings.warn(
            "An epoch of fewer samples than a batch is one step. Received: "
            f"{count} training samples, batch_size={size}",
            stacklevel=stacklevel(),
        )
    _check_classes(*_classes_of(model, (y, _validation_arrays(data)[1]), loss))


def _validation_arrays(data):
    """Return inputs and targets for validation; `None` where they are no arrays."""
    given = data.get("validation_data")
    return tuple(given)[:2] if isinstance(given, (tuple, list)) else (None, None)


def _classes_of(model, parts, loss):
    """Return the class of each sample of parts, `None` where there is none."""
    outputs = getattr(model, "outputs", None) or ()
    if not len(outputs) == len(keras.tree.flatten(parts[0])) == 1:
        return (None,)
    return [_labels(part, loss, outputs[0].shape) for part in parts if part is not None]


def _labels(y, loss, output):
    """Return the class of each sample, `None` where there is none; check that they fit a loss."""
    values = np.asarray(keras.tree.flatten(y)[0])
    if isinstance(loss, str):
        try:
            loss = keras.losses.get(loss)
        except ValueError:  # Keras says so itself
            return None
    name, classes = getattr(loss, "__name__", type(loss).__name__), output[-1]
    if name not in (*SPARSE, *ONE_HOT) or classes in (None, 1):
        binary = "binary_crossentropy" in name or "BinaryCrossentropy" in name
        return values.ravel() if binary and values.size == len(values) else None
    one_hot = values.ndim == len(output) and values.shape[-1] == classes
    if one_hot == (name in SPARSE):
        taken, given, other = (
            ("integer", "one-hot", "") if one_hot else ("one-hot", "integer", "sparse_")
        )
        raise ValueError(
            f"Labels must fit the loss, which takes {taken} ones: use the loss "
            f"{other}categorical_crossentropy. Received: {given} labels of shape {values.shape}, "
            f"loss {name}, outputs of shape {tuple(output)}"
        )
    if one_hot:
        return values.argmax(axis=-1) if values.ndim == 2 else None
    wrong = np.argwhere((values < 0) | (values >= classes))
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        raise ValueError(
            f"Labels must lie from 0 to {classes - 1}, as the model has {classes} outputs. "
            f"Received: {values[index]} at index {', '.join(map(str, index))}"
        )
    return values.ravel() if values.size == len(values) else None


def _check_classes(training, validation=None):
    """Raise `ValueError` for one class only; warn if a part lacks a class that the other has."""
    if training is None:
        return
    classes = set(training.tolist())
    if len(classes) == 1:
        raise ValueError(
            f"Training samples must have two classes at least. Received: class {training[0]} only"
        )
    if validation is not None and classes ^ (others := set(validation.tolist())):
        found = {"validation": sorted(classes - others), "training": sorted(others - classes)}
        lacks = "; ".join(
            f"the {part} part lacks {names}" for part, names in found.items() if names
        )
        warnings.warn(
            "Training and validation samples should have the same classes: shuffle before a "
            f"split. Received: {lacks}",
            stacklevel=stacklevel(),
        )
