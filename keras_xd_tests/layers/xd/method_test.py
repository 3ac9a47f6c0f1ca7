"""The methods by which K-matrices are computed: auto, dense, stages and fft."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd import layers
from keras_xd.testing import assert_close

LAYERS = {
    "1d": (lambda **options: layers.XDConv1D(3, 5, padding="same", depth=2, **options), (36, 2)),
    "long": (lambda **options: layers.XDConv1D(3, 200, padding="same", **options), (200, 2)),
    "circular": (
        lambda **options: layers.XDConv1D(
            *(4, 3, 2, "circular", "channels_first", 3), groups=2, **options
        ),
        (4, 36),
    ),
    "2d": (lambda **options: layers.XDConv2D(3, (3, 2), (2, 1), "same", **options), (12, 9, 2)),
    "depthwise": (lambda **options: layers.XDDepthwiseConv2D(3, **options), (12, 9, 2)),
    "transposed": (lambda **options: layers.XDConv1DTranspose(3, 3, 2, **options), (9, 2)),
}


def outputs_and_gradients(layer, x, jit):
    """Outputs, and the gradients of inputs and of all weights that are trained."""

    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tf.reduce_sum(tf.sin(y))
        return y, *tape.gradient(loss, [x, *(v.value for v in layer.trainable_variables)])

    compiled = tf.function(step, jit_compile=True) if jit else step
    return [np.array(value) for value in compiled(tf.constant(x))]


@pytest.mark.parametrize(
    ("name", "dtype", "jit"),
    [
        *((name, "float64", False) for name in LAYERS),
        ("circular", "float32", True),
    ],
)
def test_methods_compute_the_same(name, dtype, jit, rng):
    make, shape = LAYERS[name]
    x, found, values = rng.normal(size=(2, *shape)).astype(dtype), {}, None
    for method in make().methods:
        layer = make(method=method, dtype=dtype)
        layer.build(x.shape)
        values = values or [rng.normal(size=v.shape) for v in (layer.kernel, layer.bias)]
        layer.kernel.assign(values[0])
        layer.bias.assign(values[1])
        found[method] = outputs_and_gradients(layer, x, jit)
        groups = [plan.groups for plan in layer.plans]
        if method in ("dense", "stages"):
            kernel_groups = [axis.plan.groups for axis in layer._kernel_axes]
            one = [len(plan.radices) if method == "dense" else 1 for plan in layer.plans]
            assert [set(g) for g in groups] == [{n} for n in one] and kernel_groups == groups
    assert len(found) == (3 if name == "transposed" else 4)
    for method, tensors in found.items():
        assert len(tensors) == (4 if method == "fft" else len(found["auto"])), method
        for tensor, expected in zip(tensors, found["auto"], strict=False):
            assert_close(tensor, expected, 1e-12 if dtype == "float64" else 1e-4)


def test_a_frozen_convolution_trains_its_kernel_alone(tmp_path, rng):
    """From `rewrite` through training and files; before and after outputs are the convolution's."""
    model = keras.Sequential(
        [keras.Input((12, 2)), keras.layers.Conv1D(3, 3, padding="same", name="conv")]
    )
    x = rng.normal(size=(4, 12, 2)).astype("float32")
    space = keras_xd.rewrite(model, method="fft", depth=2)
    assert_close(space.predict(x, verbose=0), model.predict(x, verbose=0))
    start = space.get_weights()[2:]
    space.compile("sgd", "mse")
    space.fit(x, 2 * model.predict(x, verbose=0), verbose=0)
    model.set_weights(space.get_weights()[:2])
    assert all((a == b).all() for a, b in zip(start, space.get_weights()[2:], strict=True))
    assert len(start) == len(keras_xd.architecture_variables(space)) == 5
    space.save(tmp_path / "space.keras")
    loaded = keras.saving.load_model(tmp_path / "space.keras")
    assert loaded.layers[0].method == "fft" and loaded.layers[0].depth == (2, 2, 2)
    outputs = model.predict(x, verbose=0)
    for other in (loaded, keras_xd.finalize(loaded)):
        assert_close(other.predict(x, verbose=0), outputs)
    assert space.layers[0].complexity((None, 12, 2)) == 12 * 3 * 2 * 3


def test_configuration():
    layer = layers.XDConv2D(3, 3, method="stages")
    config = layer.get_config()
    assert layers.XDConv2D.from_config(config).method == config.pop("method") == "stages"
    assert layers.XDConv2D.from_config(config).method == "auto"  # a file of before
    assert layers.XDSeparableConv1D(2, 3, method="dense").depthwise.method == "dense"
    assert "method" not in layers.XDCausalConv1D(2, 3).get_config()


def built(layer=layers.XDConv1D, size=12, **options):
    found = layer(2, 3, **options)
    found.build((None, size, 2))
    return found


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: built(method="butterfly"), "'stages', 'fft'. Received: method='b"),
        (lambda: built(layers.XDConv1DTranspose, method="fft"), "'stages'. Received: method='fft'"),
        (lambda: built(layers.XDCausalConv1D, method="dense"), "no `method`. Received: method="),
        (
            lambda: built(size=13, padding="circular", method="stages"),
            r"factors into several stages. Received: size 13 with radices=\(13,\)",
        ),
        (
            lambda: built(size=2**14, method="dense"),
            "at most 268,435,456 numbers. Received: a K-matrix with `method='dense'` of 5",
        ),
        (
            lambda: built(padding="same", method="fft", warm_start="identity"),
            "warm_start='convolution'. Received: warm_start=.*Identity",
        ),
    ],
)
def test_refuses_a_method_that_does_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_refuses_fft_once_the_architecture_moves(tmp_path):
    models = [
        keras.Sequential([keras.Input((12, 2)), layers.XDConv1D(2, 3, method=method)])
        for method in ("auto", "fft")
    ]
    (moved, *_), (frozen, *_) = map(keras_xd.architecture_variables, models)
    path = tmp_path / "layer.weights.h5"
    models[0].save_weights(path)
    models[1].load_weights(path)
    moved.assign_add(np.full(moved.shape, 1e-3))
    models[0].save_weights(path)
    with pytest.raises(ValueError, match="not moved from the convolution. Received: .*0.001 away"):
        models[1].load_weights(path)
    frozen.trainable = True
    with pytest.raises(ValueError, match="frozen. Received: .* with trainable architecture"):
        models[1](np.ones((1, 12, 2)))
