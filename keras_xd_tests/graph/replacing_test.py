"""Subclassed models and layers of several layers, with some layers exchanged."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd import layers as xd_layers
from keras_xd.core.searchable import architecture_variables, named_layers, searchable_layers
from keras_xd.finalizing.finalizer import finalize
from keras_xd.graph import replacing
from keras_xd.layers.xd.finalized import StaticXD
from keras_xd.rewriting.comparison import compare
from keras_xd.rewriting.forecast import forecast
from keras_xd.rewriting.rewriter import rewrite
from keras_xd.training.search_model import SearchModel
from keras_xd_tests import sample_models

RELATIVE_ERROR = 1e-4


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Block(layers.Layer):
    """A layer of several layers with a weight and a layer made in `build`."""

    def __init__(self, filters, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.first = layers.Conv1D(filters, 3, padding="same", name="first")
        self.norm = layers.BatchNormalization(name="norm")
        self.second = layers.DepthwiseConv1D(3, padding="same", use_bias=False, name="second")

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(self.filters,), initializer="ones", name="scale")
        self.late = layers.Dense(self.filters, name="late")
        self.late.build((*input_shape[:-1], self.filters))

    def call(self, inputs, shift=None, training=None):
        x = self.norm(self.first(inputs), training=training)
        x = self.late(self.second(x)) * self.scale
        return x if shift is None else x + shift

    def get_config(self):
        return {**super().get_config(), "filters": self.filters}


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Network(keras.Model):
    """Layers in attributes, an alias, lists, tuples, dictionaries, a Sequential, and nested."""

    def __init__(self, filters=3, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.stem = layers.Conv1D(filters, 3, padding="same", name="stem")
        self.alias = self.stem
        in_list = layers.Conv1D(filters, 3, padding="same", name="in_list")
        self.blocks = [Block(filters, name="block"), in_list]
        self.pair = (layers.ReLU(name="relu"), layers.Conv1D(filters, 1, name="in_tuple"))
        self.table = {"deep": {"conv": layers.Conv1D(filters, 3, name="in_dict")}}
        self.body = keras.Sequential(
            [layers.Conv1D(filters, 2, name="in_sequential"), layers.AveragePooling1D(2)],
            name="body",
        )
        self.steps = layers.TimeDistributed(layers.Conv1D(2, 2, name="inner"), name="steps")
        self.dropout = layers.Dropout(0.5, name="dropout")
        self.head = layers.Dense(2, name="head")

    def call(self, inputs, training=None):
        x = self.stem(inputs)
        for block in self.blocks:
            x = x + block(x)
        x = self.pair[1](self.pair[0](x))
        x = self.body(self.table["deep"]["conv"](x))
        x = self.steps(keras.ops.expand_dims(x, 1))
        x = self.dropout(keras.ops.mean(x, axis=(1, 2)), training=training)
        return self.head(x)

    def get_config(self):
        return {**super().get_config(), "filters": self.filters}


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Small(keras.Model):
    """A model of one block, for training."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.blocks = {"only": Block(2, name="block")}
        self.head = layers.Dense(2, name="head")

    def call(self, inputs, training=None):
        x = self.blocks["only"](inputs, training=training)
        return self.head(keras.ops.mean(x, axis=1))


SMALL = {"block/first": "XDConv1D", "block/second": "XDDepthwiseConv1D"}
EXCHANGED = {
    "stem": "XDConv1D",
    "block/first": "XDConv1D",
    "block/second": "XDDepthwiseConv1D",
    "in_list": "XDConv1D",
    "in_tuple": "XDConv1D",
    "in_dict": "XDConv1D",
    "body/in_sequential": "XDConv1D",
    "steps/inner": "XDConv1D",
}


def built(model, rng, shape=(9, 2)):
    x = rng.normal(size=(3, *shape)).astype("float32")
    model(x)
    return sample_models.randomize(model, rng), x


def kinds(model):
    return {
        path: type(layer).__name__
        for path, layer in named_layers(model)
        if isinstance(layer, (xd_layers.SearchableLayer, StaticXD))
    }


@pytest.fixture(scope="module")
def network():
    """A network of every container, and its inputs."""
    return built(Network(name="network"), np.random.default_rng(20))


def state(model):
    """Return what must not change when a model is left untouched."""
    weights = [weight.tobytes() for weight in model.get_weights()]
    return weights, [id(layer) for _, layer in named_layers(model)]


@pytest.fixture(scope="module")
def rewritten(network):
    """The network, its inputs, the space that it is rewritten to, and its state before that."""
    model, x = network
    before = state(model)
    return model, x, rewrite(model, depth=1), before


@pytest.fixture
def small(rng):
    return built(Small(name="small"), rng)


def test_every_container_is_reached_and_the_original_untouched(rewritten):
    model, x, space, before = rewritten
    assert kinds(space) == EXCHANGED
    assert space.model.alias is space.model.stem and space.name == "network"
    assert [layer.name for layer in space.model.layers] == [layer.name for layer in model.layers]
    sample_models.assert_same_outputs(model, space, x, RELATIVE_ERROR)
    values = space.get_weights()
    space.set_weights([0 * value for value in values])
    assert state(model) == before
    space.set_weights(values)
    weights = {id(weight) for weight in space.weights}
    inside = {id(w) for _, layer in named_layers(space) for w in layer.weights}
    assert weights == inside and len(weights) == len(space.weights)


def test_a_network_of_every_container_is_saved_and_finalized(rewritten, tmp_path):
    _, x, space, _ = rewritten
    space.save(tmp_path / "space.keras")
    loaded = keras.models.load_model(tmp_path / "space.keras")
    assert kinds(loaded) == EXCHANGED
    sample_models.assert_same_outputs(space, loaded, x, 1e-6)
    plain = finalize(loaded, form="spectrum")
    assert set(kinds(plain).values()) == {"StaticXD"} and kinds(plain).keys() == EXCHANGED.keys()
    sample_models.assert_same_outputs(plain, space, x, RELATIVE_ERROR)


@pytest.mark.filterwarnings("ignore:.*without those of 'block:UserWarning")  # its `scale`
def test_selection_options_and_forecast(network, small):
    with pytest.raises(ValueError, match="only='block', which cannot be"):
        rewrite(small[0], only=["block", "first"])
    model, x = network
    only = ["first", "in_[lt].*", "average.*"]
    arguments = {"operations": ("convolution", "pooling"), "only": only, "depth": 1}
    space = rewrite(model, **arguments)
    names = [layer.name.partition("_pooling")[0] for layer in searchable_layers(space)]
    assert names == ["first", "in_list", "in_tuple", "average"]
    sample_models.assert_same_outputs(model, space, x, RELATIVE_ERROR)
    expected = forecast(model, **arguments)
    assert expected.parameters_after == space.count_params()
    rows = {row.name: row for row in compare(model, space, x).rows}
    for row in expected.rows:
        actual = rows[row.name].__dict__
        known = {
            name: value
            for name, value in row.__dict__.items()
            if name != "form" and not name.endswith("_finalized")
        }
        assert known == {name: actual[name] for name in known}


@pytest.mark.filterwarnings("ignore:.*without those of 'block:UserWarning")  # its `scale`
def test_searched_finalized_and_exported(small, tmp_path):
    model, x = small
    space = rewrite(model, depth=1)
    search = SearchModel(space)
    options = {"complexity_target": 1000, "complexity_weight": 0.0, "run_eagerly": True}
    search.compile("adam", "adam", "mse", **options)
    before = [np.copy(v) for v in map(keras.ops.convert_to_numpy, architecture_variables(space))]
    history = search.fit(x, np.ones((3, 2), "float32"), verbose=0).history
    assert history["complexity"][0] == pytest.approx(keras_xd.complexity(space) / 1000)
    after = architecture_variables(space)
    assert len(after) == len(before) == 2 * 5
    assert all(
        np.any(a != keras.ops.convert_to_numpy(b)) for a, b in zip(before, after, strict=True)
    )
    search.save(tmp_path / "search.keras")
    loaded = keras.models.load_model(tmp_path / "search.keras")
    sample_models.assert_same_outputs(search, loaded, x, 1e-6)
    plain = finalize(search, form="spectrum")
    assert set(kinds(plain).values()) == {"StaticXD"} and kinds(plain).keys() == SMALL.keys()
    sample_models.assert_same_outputs(space, plain, x, RELATIVE_ERROR)
    plain.save(tmp_path / "plain.keras")
    again = keras.models.load_model(tmp_path / "plain.keras")
    sample_models.assert_same_outputs(plain, again, x, 1e-6)
    plain.export(tmp_path / "served", verbose=False)
    served = keras.layers.TFSMLayer(tmp_path / "served", call_endpoint="serve")
    np.testing.assert_allclose(served(x), plain(x), atol=1e-5)
    with pytest.raises(ValueError, match="never overwrites"):
        plain.export(tmp_path / "served")


def test_composite_layers_in_a_graph(rng, tmp_path):
    """With a second argument, a shared layer and a frozen one."""
    image, shift = keras.Input((8, 2), name="image"), keras.Input((8, 2), name="shift")
    block = Block(2, name="block")
    x = block(block(image, shift=shift))
    frozen = Block(2, name="frozen")
    # As Keras makes it from its configuration.
    model = keras.Model.from_config(keras.Model([image, shift], frozen(x)).get_config())
    model = sample_models.randomize(model, rng)
    model.get_layer("frozen").trainable = False
    model.get_layer("block").norm.trainable = False
    inputs = sample_models.inputs_of(model, rng)
    space = rewrite(model, depth=1)
    assert list(kinds(space)) == ["block/first", "block/second", "frozen/first", "frozen/second"]
    sample_models.assert_same_outputs(model, space, inputs, RELATIVE_ERROR)
    trainable = {v.path.split("/", 1)[1] for v in space.trainable_variables}
    assert not any(path.startswith(("frozen", "norm")) for path in trainable)
    assert {"scale", "late/kernel"} <= {
        "/".join(p.split("/")[-k:]) for p in trainable for k in (1, 2)
    }
    assert space.get_layer("frozen").trainable is False
    comparison = compare(model, space, inputs)
    assert all(0 < row.relative_error < 1e-5 for row in comparison.rows)
    assert len(comparison.rows) == 4
    space.save(tmp_path / "space.keras")
    loaded = keras.models.load_model(tmp_path / "space.keras")
    sample_models.assert_same_outputs(space, loaded, inputs, 1e-6)
    sample_models.assert_same_outputs(space, finalize(loaded), inputs, RELATIVE_ERROR)


def test_a_layer_shared_by_several_containers(rng):
    class Holder(layers.Layer):
        def __init__(self, shared, **kwargs):
            super().__init__(**kwargs)
            self.shared, self.own = shared, layers.Dense(3)

        def call(self, inputs):
            return self.own(self.shared(inputs))

    class Sharing(keras.Model):
        def __init__(self):
            super().__init__()
            shared = layers.Conv1D(3, 3, padding="same", name="shared")
            self.blocks = [Holder(shared, name="a"), Holder(shared, name="b")]

        def call(self, inputs):
            return self.blocks[1](self.blocks[0](inputs))

    model, x = built(Sharing(), rng, (8, 3))
    space = rewrite(model, depth=1)
    assert space.model.blocks[0].shared is space.model.blocks[1].shared
    sample_models.assert_same_outputs(model, space, x, RELATIVE_ERROR)
    sample_models.assert_same_outputs(model, finalize(space), x, RELATIVE_ERROR)


def test_a_place_that_is_not_there():
    block = replacing.SubclassedModelWrapper(Small(), [((("missing",),), layers.ReLU())])
    with pytest.raises(ValueError, match=r"Received: Small .* at \(\('missing"):
        block(keras.Input((8, 3)))


def test_a_wrapper_without_reference_places_build_time_sublayers_at_its_first_call(tmp_path, rng):
    inputs = keras.Input((5, 4))
    x = layers.MultiHeadAttention(1, 4, name="attention")(inputs, inputs)
    model = sample_models.randomize(keras.Model(inputs, x), rng)
    space = rewrite(model, to="structured", family="low_rank", density=0.9)
    x = rng.normal(size=(2, 5, 4)).astype("float32")
    space.save(tmp_path / "space.keras")
    loaded = keras.models.load_model(tmp_path / "space.keras")
    sample_models.assert_same_outputs(space, loaded, x, 1e-6)
    kind = type(loaded.get_layer("attention").model.query_dense)
    assert kind is type(space.get_layer("attention").model.query_dense)
    assert kind is not layers.EinsumDense


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class NoKwargs(keras.Model):
    """As most subclassed models are written: no `**kwargs`, no `get_config`."""

    def __init__(self, filters=3):
        super().__init__()
        self.filters = filters
        self.blocks = [layers.Conv1D(filters, 3, padding="same"), layers.ReLU()]
        self.again = self.blocks[0]

    def call(self, inputs):
        return self.again(self.blocks[1](self.blocks[0](inputs)))


class NotKept(NoKwargs):
    """Keras would make it again with the default."""

    def __init__(self, size=2):
        super().__init__(size + 1)
        self.rescaling = layers.Rescaling(size)

    def call(self, inputs):
        return self.rescaling(super().call(inputs))


class Holding(keras.Model):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone

    def call(self, inputs):
        return self.backbone(inputs)


def functional():
    inputs = keras.Input((8, 3))
    return keras.Model(inputs, layers.Conv1D(3, 3, padding="same")(inputs))


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Applying(layers.Layer):
    """Takes a function or a layer, of which Keras makes no configuration."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function
        self.conv = layers.Conv1D(3, 3, padding="same", name="conv")

    def call(self, inputs):
        return self.function(self.conv(inputs))


class Declaring(Applying):
    """Its `get_config` is what `from_config` takes, but not once it was in a file."""

    def get_config(self):
        return {**super(Applying, self).get_config(), "function": self.function}


def applying(layer):
    return keras.Sequential([keras.Input((8, 3)), layer, layers.Conv1D(3, 1, name="last")])


@pytest.mark.parametrize(
    ("make", "saved"),
    [
        (NoKwargs, True),
        (lambda: NotKept(2), True),
        (lambda: Holding(functional()), False),
        (lambda: applying(Applying(lambda x: keras.ops.tanh(x))), False),
        (lambda: applying(Declaring(keras.ops.tanh)), False),
        (lambda: applying(Declaring(layers.Dense(3))), False),
    ],
)
def test_models_without_kwargs_and_configuration(make, saved, rng, tmp_path, caplog):
    model, x = built(make(), rng, (8, 3))
    if isinstance(model, NotKept):
        model.rescaling.scale, saved = 5.0, False  # as that of an argument that is not kept
    before = keras.ops.convert_to_numpy(model(x))
    space = rewrite(model, depth=1)
    assert kinds(space) and ("cannot be saved" in caplog.text) == (not saved)
    sample_models.assert_same_outputs(model, space, x, RELATIVE_ERROR)
    space.compile("sgd", "mse", run_eagerly=True)
    space.train_on_batch(x, x)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(model(x)), before)
    plain = finalize(space)
    sample_models.assert_same_outputs(space, plain, x, RELATIVE_ERROR)
    if saved:
        plain.save(tmp_path / "plain.keras")
        loaded = keras.models.load_model(tmp_path / "plain.keras")
        sample_models.assert_same_outputs(plain, loaded, x, 1e-6)
    else:
        with pytest.raises(ValueError, match=r"add to the class\n +def get_config"):
            plain.save(tmp_path / "plain.keras")
