"""Recipes: their settings, what fits them, and that searches with them run."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers, recipes
from keras_xd.rewriting import spaces


def backbone(branch):
    inputs = keras.Input((8, 2))
    x = keras.layers.Conv1D(16, 3, padding="same", name="first")(inputs)
    if branch:
        y = keras.layers.Conv1D(16, 3, padding="same", activation="relu")(x)
        x = x + keras.layers.Conv1D(16, 3, padding="same")(y)
    x = keras.layers.GlobalAveragePooling1D()(x)
    x = keras.layers.Dense(16, name="hidden")(x)
    return keras.Model(inputs, keras.layers.Dense(3, name="head")(x))


REWRITTEN = list(spaces.SEARCH_SPACES)
EVERY = [*((name, None) for name in REWRITTEN), *(("xd", data) for data in recipes.DATA)]


@pytest.mark.parametrize(("space", "data"), EVERY)
def test_a_search_by_the_recipe_runs(space, data, rng):
    recipe = keras_xd.recipes.recipe(space, data, epochs=5)
    epochs = 5 if "warmup_epochs" in recipe.compile_options else 2
    model = backbone(branch=space == "masked")  # whose width and whose share are masked
    skip = "head" if space == "structured" else None  # no family has a matrix of three outputs
    found = keras_xd.rewrite(model, recipe.space, skip=skip, **recipe.rewrite_options)
    search = keras_xd.SearchModel(found)
    options = dict(recipe.compile_options)
    if "complexity_weight" in options:
        measure = options.get("complexity_measure", "multiply_adds")
        whole = keras_xd.complexity(model) if measure == "multiply_adds" else model.count_params()
        options["complexity_target"] = 0.9 * whole
    optimizer = recipe.architecture_optimizer(steps=20)
    search.compile("adam", optimizer, "mse", run_eagerly=True, **options)
    x, y = rng.normal(size=(2, 8, 2)), rng.normal(size=(2, 3))
    history = search.fit(x, y, epochs=epochs, verbose=0).history["architecture_change"]
    moved = np.flatnonzero(history)
    warmup = options.get("warmup_epochs", 0)
    assert moved.size and moved[0] == warmup
    assert recipes.default_rate(found) == recipe.rate or data is not None


def test_phases_are_shares_of_the_epochs():
    phases = recipes.recipe("masked", epochs=11).compile_options
    assert (phases["warmup_epochs"], phases["cooldown_epochs"]) == (6, 2)
    assert recipes.recipe("xd", "sequences", epochs=25).compile_options == {"warmup_epochs": 5}
    assert recipes.recipe("xd", "sequences").compile_options == {}
    assert recipes.recipe("xd", "unordered", epochs=25).compile_options == {}
    for epochs in range(1, 40):  # an epoch is left in which the architecture moves
        phases = recipes.recipe("masked", epochs=epochs).compile_options
        assert phases["warmup_epochs"] + phases["cooldown_epochs"] < epochs


def test_data_choose_among_settings_of_xd_alone():
    rates = {data: recipes.recipe("xd", data).rate for data in recipes.DATA}
    assert rates == {"images": 1e-4, "unordered": 1e-3, "fields": 1e-3, "sequences": 2e-4}
    assert recipes.recipe("xd", "unordered").rewrite_options == {"depth": 3}
    assert recipes.recipe("dash", "images") == recipes.recipe("dash")


def test_a_rate_falls_to_zero_or_stays():
    recipe = recipes.recipe("dash")
    constant, falling = recipe.architecture_optimizer(), recipe.architecture_optimizer(steps=10)
    assert isinstance(falling, keras.optimizers.Adam) and constant is not falling
    assert float(constant.learning_rate) == float(falling.learning_rate) == pytest.approx(0.1)
    falling.iterations.assign(5)
    assert float(falling.learning_rate) == pytest.approx(0.05)
    falling.iterations.assign(10)
    assert float(falling.learning_rate) == pytest.approx(0.0, abs=1e-9)


def test_the_rate_of_a_model_is_that_of_its_spaces():
    inputs = keras.Input((8, 2))
    x = layers.DashConv1D(2, 3, padding="same")(inputs)
    assert recipes.default_rate(keras.Model(inputs, x)) == 0.1
    both = keras.Model(inputs, layers.XDConv1D(2, 3)(x))
    assert recipes.default_rate(both) == 1e-3  # the lowest

    class Own(layers.SearchableLayer):
        architecture_variables = ()

        def call(self, inputs):
            return inputs

    assert recipes.default_rate(keras.Model(inputs, Own()(inputs))) == recipes.DEFAULT_RATE


def test_what_has_no_recipe_is_refused():
    with pytest.raises(ValueError, match="`space` must be one of.*space='cells'"):
        recipes.recipe("cells")
    with pytest.raises(ValueError, match="`data` must be one of.*data='text'"):
        recipes.recipe("xd", data="text")
    with pytest.raises(ValueError, match="`epochs` must be an integer of at least 1"):
        recipes.recipe("xd", epochs=0)
