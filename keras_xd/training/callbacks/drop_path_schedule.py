"""Drop-path whose probability grows while a network is trained."""

import keras

from keras_xd.core.searchable import flatten_layers
from keras_xd.core.type_aliases import Logs
from keras_xd.core.validation import positive_integer
from keras_xd.training.callbacks import training_state


class DropPathSchedule(keras.callbacks.Callback):
    """Lets drop-path begin with the probability 0 and grow linearly to that of the cells.

    In epoch `e`, counted from 0 as by Keras' callbacks, each `keras_xd.layers.DerivedCell` drops
    paths with the probability `drop_path * e / epochs`. The factor is a variable of the cells, so
    nothing is retraced, and it is saved with them.

    Args:
        epochs: the number of epochs at which the whole probability would be reached; by default
            that of the present `fit`.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> import numpy as np
    >>> genotype = keras_xd.genotypes.random_genotype(np.random.default_rng(0))
    >>> cell = keras_xd.layers.DerivedCell(genotype.normal, 2, drop_path=0.2)
    >>> image = keras.Input((8, 8, 3))
    >>> model = keras.Model(
    ...     image, keras.layers.GlobalAveragePooling2D()(cell([image, image]))
    ... )
    >>> model.compile("sgd", "mse", run_eagerly=True)
    >>> schedule = keras_xd.callbacks.DropPathSchedule(epochs=4)
    >>> x, y = np.ones((2, 8, 8, 3)), np.ones((2, 8))
    >>> _ = model.fit(x, y, epochs=2, callbacks=[schedule], verbose=0)
    >>> float(cell.drop_path_progress)
    0.25

    Reference:
        Larsson et al., "FractalNet", 2017; Zoph et al., "Learning Transferable Architectures for
        Scalable Image Recognition", 2018, whose schedule it is.
    """

    def __init__(self, epochs: int | None = None):
        super().__init__()
        self.epochs = None if epochs is None else positive_integer(epochs, "epochs")

    def on_train_begin(self, logs: Logs = None) -> None:
        found = [getattr(x, "drop_path_progress", None) for x in flatten_layers(self.model)]
        self._factors = [variable for variable in found if variable is not None]
        if not self._factors:
            raise ValueError(
                "`DropPathSchedule` needs a model whose cells have a `drop_path`. "
                f"Received: model={self.model!r}"
            )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        progress = min(epoch / (self.epochs or self.params["epochs"]), 1.0)
        training_state.synchronize(self.model)
        for factor in self._factors:
            factor.assign(progress)
