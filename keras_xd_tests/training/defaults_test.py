"""`SearchModel.compile` without arguments: the backbone's compilation, and the defaults."""

import keras
import pytest

import keras_xd
from keras_xd_tests.core.compile_config_test import backbone


def space(**compile_arguments):
    return keras_xd.rewrite(backbone(**compile_arguments))


def groups(search):
    optimizer = search.search_optimizer
    return optimizer.weights_optimizer, optimizer.architecture_optimizer


def test_the_backbone_fills_in_what_is_missing(rng):
    optimizer = keras.optimizers.SGD(0.5, momentum=0.25)
    search = keras_xd.SearchModel(space(optimizer=optimizer, loss="mae", metrics=["mse"]))
    search.compile(run_eagerly=True)
    weights, architecture = groups(search)
    assert search.loss == "mae" and weights is not optimizer
    assert weights.get_config() == {**optimizer.get_config(), "name": "weights"}
    assert isinstance(architecture, keras.optimizers.Adam)
    assert float(architecture.learning_rate) == pytest.approx(1e-3)
    x, y = rng.normal(size=(4, 9, 1)), rng.normal(size=(4, 2))
    assert set(search.fit(x, y, verbose=0).history) == {"architecture_change", "loss", "mse"}


@pytest.mark.parametrize(
    ("to", "options", "rate"),
    [
        ("xd", {"depth": 3}, 1e-3),
        ("k_operation", {}, 1e-3),
        ("darts", {}, 0.1),
        ("dash", {}, 0.1),
    ],
)
def test_the_rate_is_that_of_the_recipe(to, options, rate):
    search = keras_xd.SearchModel(keras_xd.rewrite(backbone(), to=to, **options))
    search.compile(loss="mse")
    architecture = groups(search)[1]
    assert isinstance(architecture, keras.optimizers.Adam)
    assert float(architecture.learning_rate) == pytest.approx(rate)
    assert keras_xd.recipes.recipe(to).rate == rate


def test_what_is_given_goes_before():
    search = keras_xd.SearchModel(space(optimizer="sgd", loss="mae", metrics=["mse"]))
    search.compile("adam", "rmsprop", "mse", [])
    weights, architecture = groups(search)
    assert isinstance(weights, keras.optimizers.Adam)
    assert isinstance(architecture, keras.optimizers.RMSprop)
    assert search.loss == "mse" and search.get_compile_config()["metrics"] == []


def test_without_a_compiled_backbone():
    search = keras_xd.SearchModel(space())
    with pytest.raises(ValueError, match="`compile` needs `loss`.*loss=None"):
        search.compile()
    search.compile(loss="mse")
    assert all(isinstance(optimizer, keras.optimizers.Adam) for optimizer in groups(search))


def test_a_compiled_search_space_is_its_own_backbone():
    model = space()
    optimizer = keras_xd.optimizers.architecture_optimizer(
        model, keras.optimizers.SGD(0.5), keras.optimizers.SGD(0.25)
    )
    model.compile(optimizer, "mae")
    search = keras_xd.SearchModel(model)
    search.compile()
    assert [float(group.learning_rate) for group in groups(search)] == [0.5, 0.25]
    assert all(
        new is not old for new, old in zip(groups(search), groups_of(optimizer), strict=True)
    )


def groups_of(optimizer):
    return optimizer.weights_optimizer, optimizer.architecture_optimizer
