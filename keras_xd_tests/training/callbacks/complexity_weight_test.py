import keras
import pytest

import keras_xd
from keras_xd_tests.training.gated_dense import classification_data, gated_model

LOSS = "sparse_categorical_crossentropy"


def compiled(**kwargs):
    search = keras_xd.SearchModel(gated_model())
    still = [keras.optimizers.SGD(0.0) for _ in range(2)]
    search.compile(*still, LOSS, jit_compile=False, **kwargs)
    return search


def test_the_term_weighs_what_the_schedule_says():
    x, y = classification_data()
    search = compiled(complexity_target=70)  # twice the 35 multiply–adds
    schedule = keras_xd.callbacks.ComplexityWeight(lambda epoch: 2.0 * epoch)
    fit = {"batch_size": 20, "verbose": 0}
    history = search.fit(x, y, epochs=3, callbacks=[schedule], **fit).history
    assert history["complexity_weight"] == [0.0, 2.0, 4.0]
    assert [loss - history["loss"][0] for loss in history["loss"]] == pytest.approx(
        [0.0, 2.0 * 0.25, 4.0 * 0.25], rel=1e-4
    )
    assert search.complexity_weight == 4.0
    assert search.model.layers[0].traces == 1
    resumed = search.fit(x, y, epochs=5, initial_epoch=4, callbacks=[schedule], **fit).history
    assert resumed["complexity_weight"] == [8.0]


def test_what_it_needs_is_checked():
    x, y = classification_data()
    with pytest.raises(ValueError, match="schedule=3"):
        keras_xd.callbacks.ComplexityWeight(3)
    schedule = keras_xd.callbacks.ComplexityWeight(lambda epoch: 1.0)
    with pytest.raises(ValueError, match="`complexity_target`. Received: model="):
        compiled().fit(x, y, callbacks=[schedule], verbose=0)
    negative = keras_xd.callbacks.ComplexityWeight(lambda epoch: -1.0)
    with pytest.raises(ValueError, match="complexity_weight=-1.0"):
        compiled(complexity_target=70).fit(x, y, callbacks=[negative], verbose=0)
