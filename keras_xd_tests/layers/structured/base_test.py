import keras
import numpy as np

from keras_xd import layers


def test_regularizers_act_on_each_factor():
    layer = layers.StructuredDense(
        8, "low_rank", sizes={"rank": 2}, kernel_regularizer=keras.regularizers.L2(0.5)
    )
    layer.build((None, 6))
    expected = sum(0.5 * np.sum(np.square(w)) for w in layer.get_weights()[:2])
    np.testing.assert_allclose(float(sum(layer.losses)), expected, rtol=1e-5)


def test_seeds_make_starts_equal():
    def start(seed):
        layer = layers.StructuredDense(8, "blast", share=0.9, seed=seed)
        layer.build((None, 6))
        return np.array(layer.kernel.dense())

    np.testing.assert_array_equal(start(3), start(3))
    assert np.abs(start(3) - start(4)).max() > 0.01
    keras.utils.set_random_seed(1)
    first, second = start(None), start(None)
    keras.utils.set_random_seed(1)
    np.testing.assert_array_equal(start(None), first)
    assert np.abs(second - first).max() > 0.01
