"""The protocol of every search space, and the functions that walk a model by it."""

import keras
from keras import ops


class SearchableLayer(keras.layers.Layer):
    """Base class of a layer whose operation, not only whose weights, is searched.

    A subclass implements four things beside what every Keras layer has, and every part of the
    package (search, finalizing, callbacks, visualization) works with it.

    - `architecture_variables`: the list of Keras variables that choose the operation.
      All other variables of the layer are its model weights.
    - `complexity(input_shape)`: the multiply–adds of one sample, a scalar that may be a tensor
      differentiable in the architecture variables.
    - `finalize()`: a built plain layer, without architecture variables, that computes the same
      outputs.
    - `describe()`: a dictionary of named scalars (`float`) and NumPy arrays for inspection.

    Layers of several parts may hold searchable layers in attributes, lists or dictionaries.
    """

    @property
    def architecture_variables(self):
        """The variables that choose the operation."""
        raise TypeError(f"{type(self).__name__} must implement `architecture_variables`.")

    def complexity(self, input_shape):
        """Multiply–adds of one sample whose (batched) shape is `input_shape`."""
        raise TypeError(f"{type(self).__name__} must implement `complexity`.")

    def finalize(self):
        """Return a built plain layer with the same outputs."""
        raise TypeError(f"{type(self).__name__} must implement `finalize`.")

    def describe(self):
        """Return named scalars and arrays that tell what the operation has become."""
        raise TypeError(f"{type(self).__name__} must implement `describe`.")


def flatten_layers(model):
    """Return every distinct layer inside `model` once, depth first, containers before content.

    Nested models, shared layers (listed once), wrappers such as `TimeDistributed`, and layers kept
    in attributes, lists, tuples or dictionaries of other layers are reached.
    """
    found = {}

    def visit(value):
        if isinstance(value, keras.layers.Layer):
            if id(value) in found:
                return
            found[id(value)] = value
            if isinstance(value, keras.Model):
                visit(value.layers)
            visit(list(vars(value).values()))
            if hasattr(value, "named_children"):  # the torch backend keeps sublayers there
                visit([child for _, child in value.named_children()])
        elif isinstance(value, dict):
            visit(list(value.values()))
        elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            for item in value:
                if isinstance(item, (keras.layers.Layer, list, tuple, dict)):
                    visit(item)

    visit(model)
    return list(found.values())


def searchable_layers(model):
    """Return every distinct `SearchableLayer` of `model` (a model or a single layer)."""
    return [layer for layer in flatten_layers(model) if isinstance(layer, SearchableLayer)]


def architecture_variables(model):
    """Return the variables of `model` that choose its operations, each once.

    Args:
        model: a Keras model or layer; nested models and shared layers are followed.
    """
    found = {}
    for layer in searchable_layers(model):
        for variable in layer.architecture_variables:
            found[id(variable)] = variable
    return list(found.values())


def model_variables(model):
    """Return the trainable variables of `model` that are not architecture variables."""
    architecture = {id(variable) for variable in architecture_variables(model)}
    return [v for v in model.trainable_variables if id(v) not in architecture]
