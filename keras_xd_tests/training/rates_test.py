"""One learning rate for two optimizers: read, set, and by Keras' callbacks."""

import keras
import numpy as np
import pytest

from keras_xd.training import rates
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import classification_data, small_model, small_search

# Keras reads a rate by `np.array(variable)`, of which NumPy 2 complains.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

FIT = {"batch_size": 20, "verbose": 0}
SCHEDULE = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
CALLBACKS = keras.callbacks


@pytest.fixture(params=["float32", "mixed_float16", "mixed_bfloat16"])
def policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


def search_model(weights=0.4, architecture=0.1, **options):
    optimizers = keras.optimizers.SGD(weights), keras.optimizers.Adam(architecture)
    return small_search(*optimizers, **options)


def both(search):
    optimizer = search.search_optimizer
    return [
        rates.value(group)
        for group in (optimizer.weights_optimizer, optimizer.architecture_optimizer)
    ]


def fit(search, callbacks, epochs=3):
    data = {} if search.mode == "joint" else {"architecture_validation_split": 0.5}
    return search.fit(
        *classification_data(), epochs=epochs, callbacks=callbacks, **FIT, **data
    ).history


def test_the_rate_is_read_and_set(policy):
    search = search_model()
    assert float(search.optimizer.learning_rate) == pytest.approx(0.4)
    search.optimizer.learning_rate = 0.2
    assert both(search) == pytest.approx([0.2, 0.05])
    search.search_optimizer.architecture_optimizer.learning_rate = 0.1
    search.optimizer.learning_rate = np.float32(0.4)
    assert both(search) == pytest.approx([0.4, 0.2])


@pytest.mark.parametrize(
    ("policy", "mode"),
    [("float32", "joint"), ("mixed_float16", "first_order"), ("mixed_bfloat16", "joint")],
    indirect=["policy"],
)
def test_keras_callbacks_keep_the_ratio(policy, mode):
    search = search_model(mode=mode)
    history = fit(search, [CALLBACKS.LearningRateScheduler(lambda epoch: [0.4, 0.0, 0.8][epoch])])
    assert history["learning_rate"] == pytest.approx([0.4, 0.0, 0.8])
    assert history["architecture_learning_rate"] == pytest.approx([0.1, 0.0, 0.2])
    plateau = CALLBACKS.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=1e9, min_lr=0.3)
    history = fit(search, [plateau], 4)
    assert history["learning_rate"] == pytest.approx([0.8, 0.8, 0.4, 0.3])
    assert history["architecture_learning_rate"] == pytest.approx([0.2, 0.2, 0.1, 0.075])
    assert not [name for name in history if name.startswith("learning_rate_")]


def test_compiled_steps_take_the_rate_that_was_set():
    """Also under loss scaling and XLA: at a rate of zero nothing moves."""
    search = search_model(run_eagerly=False, jit_compile=True)
    x, y = classification_data()
    before = [v.numpy() for v in search.trainable_variables]
    search.fit(x, y, callbacks=[CALLBACKS.LearningRateScheduler(lambda epoch: 0.0)], **FIT)
    for old, variable in zip(before, search.trainable_variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)
    search.fit(x, y, callbacks=[CALLBACKS.LearningRateScheduler(lambda epoch: 0.4)], **FIT)
    for old, variable in zip(before, search.trainable_variables, strict=True):
        assert not np.array_equal(variable.numpy(), old)


@pytest.mark.parametrize("name", ["search.keras", "search.weights.h5"])
def test_the_ratio_outlasts_a_file_saved_at_zero(name, tmp_path):
    search = search_model()
    search.optimizer.learning_rate = 0.0
    if name.endswith(".keras"):
        search.save(tmp_path / name)
        loaded = keras.saving.load_model(tmp_path / name)
    else:
        search.save_weights(tmp_path / name)
        loaded = search_model()
        loaded.load_weights(tmp_path / name)
    assert both(loaded) == [0.0, 0.0]
    loaded.optimizer.learning_rate = 0.8
    assert both(loaded) == pytest.approx([0.8, 0.2])


@pytest.mark.parametrize("group", ["weights", "architecture"])
def test_what_follows_a_schedule_cannot_be_set(policy, group):
    search = search_model(**{group: SCHEDULE})
    before = [v.numpy() for v in search.trainable_variables]
    for callback in (
        CALLBACKS.ReduceLROnPlateau("loss"),
        CALLBACKS.LearningRateScheduler(lambda epoch: 0.1),
    ):
        with pytest.raises(ValueError, match="no optimizer follows.*a schedule in"):
            fit(search, [callback])
    for old, variable in zip(before, search.trainable_variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)
    with pytest.raises(ValueError, match="no optimizer follows"):
        search.optimizer.learning_rate = 0.1
    assert float(search.optimizer.learning_rate) == pytest.approx(
        0.4 if group != "weights" else 0.1
    )


@pytest.mark.parametrize("rate", ["fast", SCHEDULE, None])
def test_only_numbers_can_be_set(rate):
    search = search_model()
    with pytest.raises(ValueError, match="`learning_rate` must be a number"):
        search.optimizer.learning_rate = rate
    assert both(search) == pytest.approx([0.4, 0.1])


def test_two_rates_of_zero_have_no_ratio():
    search = search_model(0.0, 0.0)
    with pytest.raises(ValueError, match="two rates of zero"):
        search.optimizer.learning_rate = 0.1


def grouped_search(default=0.4, biases=0.2, architecture=0.1):
    """Return a search whose biases have a rate of their own."""
    groups = keras.optimizers.OptimizerMap(keras.optimizers.SGD(default))
    groups[".*/bias"] = keras.optimizers.SGD(biases)
    search = SearchModel(small_model())
    search.compile(
        keras.optimizers.MultiOptimizer(groups),
        keras.optimizers.Adam(architecture),
        "sparse_categorical_crossentropy",
        jit_compile=False,
    )
    return search


def all_rates(search):
    optimizer = search.search_optimizer
    groups = [*optimizer.weights_optimizers, optimizer.architecture_optimizer]
    return [rates.value(group) for group in groups]


def test_a_file_with_one_number_for_the_ratio_is_read():
    config = search_model().get_compile_config()
    search = SearchModel(small_model())
    search.compile_from_config({**config, "rate_ratio": 0.5})
    assert search.search_optimizer.rate_ratio == [0.5]
    optimizer = search.search_optimizer.get_config()
    restored = type(search.search_optimizer).from_config({**optimizer, "rate_ratio": 0.5})
    assert restored.rate_ratio == [0.5]


@pytest.mark.parametrize("zero", [True, False])
def test_a_group_that_follows_a_schedule_is_named(zero):
    search = grouped_search(biases=SCHEDULE, default=0.0 if zero else 0.4)
    named = r"no optimizer follows.*in \[\"optimizer\['\.\*/bias'\]\"\]"
    with pytest.raises(ValueError, match=named):
        fit(search, [CALLBACKS.ReduceLROnPlateau("loss")])
    with pytest.raises(ValueError, match=named):
        search.optimizer.learning_rate = 0.1
    assert all_rates(search)[::2] == pytest.approx([0.0 if zero else 0.4, 0.1])
