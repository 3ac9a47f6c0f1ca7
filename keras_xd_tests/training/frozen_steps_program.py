"""Warm-up by frozen forms and from the variables on one backend."""

import keras
import numpy as np

from keras_xd import layers
from keras_xd.core import frozen_forms
from keras_xd.core.searchable import architecture_variables
from keras_xd.training import SearchModel
from keras_xd.training.callbacks import training_state
from keras_xd_tests.training.device_program import make_strategy

FORMS = set()
FIT = {"batch_size": 4, "shuffle": False, "verbose": 0}


class Spied(layers.XDConv2D):
    def call(self, inputs):
        form = frozen_forms.form_of(self)
        if form is not None:
            FORMS.add(getattr(form, "name", "folded"))
        return super().call(inputs)


class WithoutForms(SearchModel):
    """A search whose train step is somebody else's, so that all is computed from variables."""

    def train_step(self, *args):
        return super().train_step(*args)


class Change(keras.callbacks.Callback):
    """Moves the architecture in the middle of an epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            training_state.synchronize(self.model)
            move(self.model)


def move(search):
    generator = np.random.default_rng(6)
    for variable in architecture_variables(search):
        value = keras.ops.convert_to_numpy(variable)
        variable.assign(value + 0.05 * generator.normal(size=value.shape))


def data():
    generator = np.random.default_rng(5)
    x = generator.normal(size=(12, 6, 5, 2)).astype("float32")
    return x, generator.normal(size=(12, 4)).astype("float32")


def search_model(kind, warmup_epochs=1, cooldown_epochs=1):
    keras.utils.set_random_seed(4)
    model = keras.Sequential(
        [
            keras.Input((6, 5, 2)),
            Spied(4, 3, padding="same", strides=2),
            layers.XDConv2D(4, 3, padding="circular", warm_start="random_unitary", seed=1),
            keras.layers.GlobalAveragePooling2D(),
        ]
    )
    generator = np.random.default_rng(3)
    for variable in model.trainable_variables:
        if variable.name.endswith("kernel"):
            variable.assign(generator.normal(size=variable.shape) / 3)
    search = kind(model)
    optimizers = keras.optimizers.SGD(0.05, momentum=0.9), keras.optimizers.SGD(0.01)
    search.compile(*optimizers, "mse", warmup_epochs=warmup_epochs, cooldown_epochs=cooldown_epochs)
    return search


def both(function, **options):
    """Return what a function of a search gives with and without forms."""
    searches = [search_model(kind, **options) for kind in (SearchModel, WithoutForms)]
    return [np.ravel(function(search)).tolist() for search in searches]


def kinds():
    """Return the largest difference of each start's form from the layer computed by variables."""
    found, generator = {}, np.random.default_rng(8)
    for layer in (
        layers.XDConv2D(4, 3, padding="same", strides=2, groups=2),
        layers.XDConv1D(4, 2, padding="causal", dilation_rate=2),
        layers.XDDepthwiseConv2D(3, padding="same"),
        layers.XDConv2DTranspose(4, 3, strides=(2, 3), padding="same"),
        layers.XDConv1DTranspose(4, 2, strides=3, padding="valid"),
        layers.XDConv2D(4, 2, padding="same", strides=2, warm_start="average_pooling"),
        layers.XDConv2D(4, 3, padding="same", strides=2, warm_start="identity"),
        layers.XDCausalConv1D(4, 3, strides=2),
    ):
        shape = (2, 9, 7, 4)[: layer.rank + 1] + (4,)
        x = generator.normal(size=shape).astype("float32")
        # `predict_on_batch` compiles it as a whole, where JAX would each operation by itself.
        model = keras.Sequential([keras.Input(shape[1:]), layer])
        expected, form = model.predict_on_batch(x), layer.frozen_form()
        with frozen_forms.using({id(layer): (layer, form)}):
            outputs = keras.ops.convert_to_numpy(layer(x))
        found[f"{type(layer).__name__}, {form.name}"] = float(np.abs(outputs - expected).max())
    return found


def losses(search, epochs=3, **options):
    """Train through warm-up, search and cool-down; the architecture changes in each."""
    history = search.fit(*data(), epochs=epochs, callbacks=[Change()], **options, **FIT).history
    return list(history.values())


def all_losses(search):
    return losses(search, validation_data=data())


def outputs_after_a_change(search):
    """Change, train in cool-down and predict; change and predict again."""
    move(search)
    search.fit(*data(), **FIT, epochs=2, initial_epoch=1)
    first = search.predict(data()[0], verbose=0)
    move(search)
    return [first, search.predict(data()[0], verbose=0)]


def mirrored():
    import tensorflow as tf

    found = []
    for strategy in (make_strategy("mirrored"), None):
        with strategy.scope() if strategy else tf.device("CPU:0"):
            search = search_model(SearchModel, cooldown_epochs=0)
        found.append(np.ravel(losses(search, epochs=2)).tolist())
    return found


def results():
    """Return all of this backend; on TensorFlow, which has more tests, what two devices change."""
    if keras.backend.backend() == "tensorflow":
        return {"mirrored": mirrored(), "forms": sorted(FORMS)}
    found = {
        "kinds": kinds(),
        "losses": both(all_losses),
        "outputs": both(outputs_after_a_change, warmup_epochs=0),
    }
    return found | {"forms": sorted(FORMS)}
