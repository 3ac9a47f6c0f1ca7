"""Recipes: their settings, what fits them, and that searches with them run."""

import json
import re

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


# Rows of the papers' tables, written down here again from the text.
TABLES = {
    ("nos", "search"): {"architecture_rate": 6e-4, "architecture_weight_decay": 1e-3, "epochs": 25}
    | {"guidance_weight": 1000, "guidance_form": "literal", "calibration_gate": None},
    ("nos", "cifar100"): {"drop_path": 0.3, "weight_decay": 5e-4, "epochs": 600, "cutout": 16},
    ("xd", "resnet20_cifar10"): {"architecture_rate": 1e-4, "warmup_epochs": 50, "epochs": 200},
    ("xd", "lenet_permuted_cifar10_darts_operations"): {
        "architecture_rate": 0.1,
        "other_weight": 0.875,
    }
    | {"warmup_epochs": 50, "augmentation": ()},
    ("xd", "burgers_from_fno"): {"architecture_rate": 1e-4, "warmup_epochs": 250}
    | {"architecture_optimizer": "SGD", "architecture_momentum": 0.5},
    ("xd", "psicov_resnet10"): {"architecture_rate": 1e-3, "architecture_momentum": 0.99},
    ("xd", "darts_cells_permuted_cifar10"): {"architecture_rate": 0.1, "searches": 4},
    ("xd", "penn_treebank"): {"architecture_rate": 2e-6, "warmup_epochs": 0},
    ("chrysalis", "supernet_sgd"): {"epochs": 800, "schedule": {400: 0.005, 600: 0.001}},
    ("chrysalis", "spherical"): {"epochs": 20, "learning_rate": 5e-4, "batch_size": 32},
    ("algebraic", "activation_functions"): {"trials": 1000, "initial_trials": 50},
}


# Table 6 of DNArch as it stands in the paper; by the text of appendix E.2 the warm-up is added.
TABLE_6 = """
LISTOPS     50  50 0.005 0.0 0.01   27.5k 5.0 50  25 8 5
TEXT       100  50 0.02  0.2 0.01   19.5k 0.1 50  25 8 10
RETRIEVAL   50  50 0.001 0.1 0.01   21.5k 0.1 50  25 8 5
IMAGE      210  50 0.02  0.1 0.001  12.5k 0.1 25  25 8 10
PATHFINDER 210  50 0.005 0.0 0.001  21.5k 0.1 50  25 8 10
PATH_X      80  32 0.001 0.0 0.0    30k   0.1 100 25 8 5
CIFAR10    210  50 0.01  0.1 0.01   21.5k 0.1 25  25 8 10
CIFAR100   210  50 0.01  0.0 0.01   6.5k  5.0 25  25 8 10
DARCY      310   8 0.02  0.0 0.0001 24.5k 0.1 50  25 8 10
COSMIC     310   8 0.02  0.3 0.0001 5.5k  0.1 100 25 8 10
"""
COLUMNS = (
    *("epochs", "batch_size", "learning_rate", "dropout", "weight_decay", "omega_0"),
    *("complexity_weight", "resolution_temperature", "width_temperature", "depth_temperature"),
    "learning_rate_warmup_epochs",
)


def test_settings_of_dnarch_are_those_of_its_table_for_every_task():
    rows = [line.split() for line in TABLE_6.strip().splitlines()]
    found = recipes.paper("dnarch")
    assert list(found) == [row[0].lower() for row in rows]
    for task, *cells in rows:
        settings = found[task.lower()]
        values = [float(c[:-1]) * 1000 if c.endswith("k") else float(c) for c in cells]
        assert [settings[name] for name in COLUMNS] == values
        network = {name: settings[f"kernel_network_{name}"] for name in ("units", "features")}
        assert network == {"units": 128, "features": 128}
        assert settings["kernel_network_kind"] == "fourier"
        assert settings["kernel_network_layers"] == 4
        assert settings["batch_normalization"] == "statistics of the batch"


@pytest.mark.parametrize(("paper", "experiment"), TABLES)
def test_settings_of_the_papers_are_those_of_their_tables(paper, experiment):
    found = recipes.paper(paper, experiment)
    wanted = TABLES[paper, experiment]
    assert {name: found[name] for name in wanted} == wanted


def test_settings_of_the_papers_are_plain_data_with_their_sources():
    for paper in ("xd", "chrysalis", "dnarch", "nos", "algebraic"):
        for settings in recipes.paper(paper).values():
            sources, unstated = settings.pop("sources"), settings.pop("unstated")
            assert set(sources) == set(settings) and not set(unstated) & set(settings)
            assert json.loads(json.dumps(settings)).keys() == settings.keys()
            section = "section|appendix|table|equation|definition|published code"
            assert all(re.search(section, source) for source in sources.values())
    assert len(recipes.paper("dnarch")) == 10
    # What is returned is the caller's.
    recipes.paper("xd", "burgers")["sources"].clear()
    assert recipes.paper("xd", "burgers")["sources"]


def test_classes_take_the_settings_of_the_search_for_operators():
    settings = recipes.paper("nos", "search")
    stages = [keras.layers.Conv2D(1, 1, name=f"stage{stage}") for stage in (1, 2, 3)]
    teacher = keras.Sequential([keras.Input((8, 8, 1)), *stages])
    keras_xd.training.AttentionTransfer(
        teacher, weight=settings["guidance_weight"], form=settings["guidance_form"]
    )
    model = keras_xd.models.nos_search_network(
        3, 4, (8, 8, 3), 2, calibration_gate=settings["calibration_gate"]
    )
    cells = [layer for layer in model.layers if hasattr(layer, "calibration_gate")]
    assert len(cells) == 3 and all(cell.calibration_gate is None for cell in cells)
    assert recipes.default_rate(model) == settings["architecture_rate"]
    assert recipes.recipe("nos").rate == settings["architecture_rate"]


def test_what_has_no_recipe_is_refused():
    with pytest.raises(ValueError, match="`name` must be one of 'xd', .* Received: name='darts'"):
        recipes.paper("darts")
    with pytest.raises(ValueError, match="`experiment` must be one of 'listops', .*'mnist'"):
        recipes.paper("dnarch", "mnist")
    with pytest.raises(ValueError, match="`space` must be one of.*space='cells'"):
        recipes.recipe("cells")
    with pytest.raises(ValueError, match="`data` must be one of.*data='text'"):
        recipes.recipe("xd", data="text")
    with pytest.raises(ValueError, match="`epochs` must be an integer of at least 1"):
        recipes.recipe("xd", epochs=0)
