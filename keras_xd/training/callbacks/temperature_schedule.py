"""A temperature that falls while operations are drawn."""

import keras

from keras_xd.core.searchable import flatten_layers
from keras_xd.core.type_aliases import Logs
from keras_xd.core.validation import positive_integer, positive_number
from keras_xd.training.callbacks import training_state


class TemperatureSchedule(keras.callbacks.Callback):
    """Lets the temperature of a search fall linearly.

    In epoch `e`, counted from 0 as by Keras' callbacks, that of every `DashConv` and of cells with
    the relaxation `"gumbel"` or `"single_path"` is `start + (end - start) * e / (epochs - 1)`. High
    ones spread the gradient over all operations of an edge or a tier, low ones keep it to the drawn
    one. The temperature is a variable, so nothing is retraced, and it is saved with the model.

    Args:
        start: the temperature of the first epoch.
        end: that of the last one.
        epochs: the number of epochs; by default that of the present `fit`.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> import numpy as np
    >>> layer = keras_xd.layers.DashConv1D(2, 3, relaxation="gumbel")
    >>> model = keras.Sequential([keras.Input((8, 1)), layer])
    >>> model.compile("sgd", "mse")
    >>> schedule = keras_xd.callbacks.TemperatureSchedule(start=8.0, end=2.0)
    >>> x, y = np.ones((2, 8, 1)), np.ones((2, 6, 2))
    >>> _ = model.fit(x, y, callbacks=[schedule], verbose=0)
    >>> float(layer.temperature)
    8.0

    Reference:
        Dong and Yang, "Searching for a Robust Neural Architecture in Four GPU Hours", 2019, whose
        temperatures these are.
    """

    def __init__(self, start: float = 10.0, end: float = 0.1, epochs: int | None = None):
        super().__init__()
        self.start, self.end = positive_number(start, "start"), positive_number(end, "end")
        self.epochs = None if epochs is None else positive_integer(epochs, "epochs")

    def on_train_begin(self, logs: Logs = None) -> None:
        found = [getattr(x, "temperature", None) for x in flatten_layers(self.model)]
        self._temperatures = [v for v in found if isinstance(v, keras.Variable)]
        if not self._temperatures:
            raise ValueError(
                "`TemperatureSchedule` needs a model with a `DashConv`, or cells that have the "
                "relaxation 'gumbel' or 'single_path'. "
                f"Received: model={self.model!r}"
            )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        progress = min(epoch / max((self.epochs or self.params["epochs"]) - 1, 1), 1.0)
        training_state.synchronize(self.model)
        for temperature in self._temperatures:
            temperature.assign(self.start + (self.end - self.start) * progress)
