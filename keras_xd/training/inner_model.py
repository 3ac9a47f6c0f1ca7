"""A model around another model that answers as that one does."""

import math
import os
from collections.abc import Callable
from typing import Any, Self

import keras

from keras_xd.core import protocol
from keras_xd.core.searchable import architecture_variables
from keras_xd.core.type_aliases import Config, Tensor
from keras_xd.graph.replacing import SubclassedModelWrapper, export_model
from keras_xd.training.architecture_signature import check_stored_signature, store_signature
from keras_xd.training.random_state import load_random_state, store_random_state


class InnerModel(keras.Model):
    """Base class of a model that holds another one, its attribute `model`, and shows that one."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]).__module__.partition(".")[0] == "keras_tuner":
            raise ValueError(
                "A tuner needs what makes a model for each trial: give it a "
                "`tuner_integration.SearchHyperModel`, or a function from hyperparameters to a "
                f"compiled SearchModel. Received: hypermodel='{self.name}', a SearchModel itself"
            )
        return super().__call__(*args, **kwargs)

    quantize = protocol.refuse_to_quantize

    @property
    def inputs(self) -> list[Tensor]:
        """The input tensors of the model inside, a list."""
        return self.model.inputs

    @property
    def outputs(self) -> list[Tensor]:
        """The output tensors of the model inside, a list."""
        return self.model.outputs

    @property
    def input_shape(self) -> Any:
        """The input shape of the model inside, batch size included."""
        return self.model.input_shape

    @property
    def output_shape(self) -> Any:
        """The output shape of the model inside, batch size included."""
        return self.model.output_shape

    @property
    def output_names(self) -> list[str]:
        """The names of the model's outputs, for a dictionary of losses or metrics."""
        return self.model.output_names

    def get_layer(self, name: str | None = None, index: int | None = None) -> keras.layers.Layer:
        """Return a layer of the model inside, or by its name that model itself."""
        if name is not None and index is None and name == self.model.name:
            return self.model
        return _with_layers(self.model).get_layer(name=name, index=index)

    def summary(
        self, *args: Any, print_fn: Callable[..., Any] | None = None, **kwargs: Any
    ) -> None:
        """Print the summary of the model inside, and what of it are weights and architecture."""
        _with_layers(self.model).summary(*args, print_fn=print_fn, **kwargs)
        architecture = architecture_variables(self.model)
        identities = {id(variable) for variable in architecture}
        weights = [v for v in self.model.weights if id(v) not in identities]
        for name, variables in (("Weights", weights), ("Architecture", architecture)):
            trainable = _count([variable for variable in variables if variable.trainable])
            line = f" {name}: {_count(variables):,} parameters, {trainable:,} trainable"
            (print_fn or print)(line)

    def export(self, filepath: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Export the model in it as it is; for serving export `keras_xd.finalize(self)` instead."""
        export_model(self.model, filepath, *args, **kwargs)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
        }

    @classmethod
    def from_config(cls, config: Config, custom_objects: dict[str, Any] | None = None) -> Self:
        config = dict(config)
        config["model"] = keras.saving.deserialize_keras_object(
            config["model"], custom_objects=custom_objects
        )
        return cls(**config)

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        store_signature(self.model, store)
        store_random_state(self, store)

    def load_own_variables(self, store: Any) -> None:
        """Check that a file's searchable layers are those of the model; load its random state."""
        check_stored_signature(self.model, store)
        load_random_state(self, store)


def _with_layers(model):
    """Return the model whose layers a user knows: that in a `SubclassedModelWrapper`."""
    return model.model if isinstance(model, SubclassedModelWrapper) else model


def _count(variables):
    return sum(math.prod(variable.shape) for variable in variables)
