"""Finalized models: plain, equal in outputs, and served where keras_xd does not exist."""

import functools
import os
import warnings

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd.core.searchable import architecture_variables, named_layers, searchable_layers
from keras_xd.finalizing.finalizer import FinalizedModel, finalize
from keras_xd.layers import StaticKernelXD, XDConv1D, XDConv2D
from keras_xd.layers.xd.finalized import StaticOperation
from keras_xd.layers.xd.finalized_sizes import best_form
from keras_xd.rewriting.rewriter import rewrite
from keras_xd_tests import sample_models

RELATIVE_ERROR = 1e-5
# A convolution of each kind in the largest of the models: of strides, without a bias, with an
# activation.
SOME = {sample_models.residual: {"only": ["shortcut", "block1_a", "block1_b"]}}


def searched(model, rng, **options):
    """A search space of a model whose weights and architecture have moved."""
    space = rewrite(sample_models.randomize(model, rng), **options)
    for variable in architecture_variables(space):
        scale = 0.05 * float(np.std(variable)) + 0.01
        variable.assign(variable + rng.normal(scale=scale, size=variable.shape))
    return space


@functools.cache
def shared_space(make):
    """A search space that tests do not change, and inputs."""
    rng = np.random.default_rng(20)
    space = searched(make(), rng, depth=2, **SOME.get(make, {}))
    return space, sample_models.inputs_of(space, rng)


@pytest.mark.parametrize("make", sample_models.ALL)
def test_outputs_are_equal_and_the_search_space_is_untouched(make, rng):
    options = {"frequency_bias": True, "channel_gates": True, **SOME.get(make, {})}
    space = searched(make(), rng, **options)
    before = sample_models.fingerprint(space)
    plain = finalize(space)
    inputs = sample_models.inputs_of(space, rng)
    sample_models.assert_same_outputs(space, plain, inputs, RELATIVE_ERROR)
    assert type(plain) is FinalizedModel and not plain.compiled
    assert not searchable_layers(plain)
    spaces = dict(named_layers(space))
    static = {path for path, layer in named_layers(plain) if isinstance(layer, StaticOperation)}
    assert static == {path for path, layer in spaces.items() if layer in searchable_layers(space)}
    for weight in plain.weights:
        weight.assign(weight * 0.0)
    assert sample_models.fingerprint(space) == before


def sample_models_named(name):
    return keras.Sequential([keras.Input((6, 6, 1), name=name), XDConv2D(2, 3)])


def test_existing_folders_and_files_are_not_overwritten(tmp_path):
    finalize(sample_models_named("image")).save(tmp_path / "plain.keras")
    plain = keras.models.load_model(tmp_path / "plain.keras")
    (tmp_path / "empty").mkdir()
    plain.export(str(tmp_path / "empty"), verbose=False)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    for name in ("empty", "file", "mine"):
        with pytest.raises(ValueError, match=f"overwrite=True.*Received: path='.*{name}'"):
            plain.export(tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"
    assert os.listdir(tmp_path / "mine") == ["notes"]
    plain.export(tmp_path / "mine", verbose=False, overwrite=True)
    assert (tmp_path / "mine" / "saved_model.pb").exists()


def test_models_that_cannot_be_finalized():
    with pytest.raises(ValueError, match="plain already.*'residual'"):
        finalize(sample_models.residual())
    inputs = keras.Input((6, 6, 1))
    x = layers.SpectralNormalization(XDConv2D(1, 3, name="inner"), name="outer")(inputs)
    x = layers.Flatten()(x)
    with pytest.raises(ValueError, match=r"can be finalized in graphs.*\['outer/inner'\]"):
        finalize(keras.Model(inputs, x))
    with pytest.raises(ValueError, match="must be built"):
        finalize(keras.Sequential([XDConv2D(1, 3)]))
    with pytest.raises(ValueError, match="model=3"):
        finalize(3)


KERNEL, HALF = {"form": "kernel"}, {"form": "auto", "weight_dtype": "bfloat16"}
LOW_RANK = {"form": "low_rank", "tolerance": 1e-6}


@pytest.mark.parametrize(
    ("make", "options"),
    [
        *[(sample_models.residual, KERNEL), (sample_models.nested, HALF)],
        *[(make, LOW_RANK) for make in sample_models.ALL[1:]],
    ],
)
@pytest.mark.filterwarnings("ignore:`form=.low_rank:UserWarning")
def test_forms_compute_the_same(make, options, tmp_path):
    space, inputs = shared_space(make)
    before = sample_models.fingerprint(space)
    plain = finalize(space, **options)
    error = 3e-2 if "weight_dtype" in options else RELATIVE_ERROR
    sample_models.assert_same_outputs(space, plain, inputs, error)
    assert sample_models.fingerprint(space) == before
    static = [layer for _, layer in named_layers(plain) if isinstance(layer, StaticOperation)]
    assert len(static) == len(plain.report.rows) > 0
    if options["form"] == "kernel":
        assert all(type(layer) is StaticKernelXD for layer in static)
        assert plain.count_params() <= space.count_params()
    plain.save(tmp_path / "plain.keras")
    loaded = keras.models.load_model(tmp_path / "plain.keras")
    sample_models.assert_same_outputs(plain, loaded, inputs, RELATIVE_ERROR)
    assert loaded.report is None


def test_the_report_tells_sizes():
    space, _ = shared_space(sample_models.residual)
    reports = [finalize(space, form=form).report for form in ("spectrum", "kernel")]
    spectrum, kernel = reports
    assert [row.name for row in spectrum.rows] == [row.name for row in kernel.rows]
    for row, other in zip(spectrum.rows, kernel.rows, strict=True):
        assert (row.form, other.form) == ("spectrum", "kernel")
        layer = space.get_layer(row.name)
        assert row.parameters_before == other.parameters_before == layer.count_params()
        assert row.multiply_adds_after == row.multiply_adds_before > 0
        assert (row.forming, other.forming > 0) == (0, True)
        assert row.bytes_after == 4 * row.parameters_after
        assert row.operation is row.distance is row.left_because is None


def test_the_form_is_chosen_by_the_costs_in_the_report():
    space, inputs = shared_space(sample_models.residual)
    plain = finalize(space)
    for row in plain.report.rows:
        assert row.form == best_form(row.costs).form
        assert dict((cost.form, cost.parameters) for cost in row.costs)[row.form] == (
            row.parameters_after
        )
        assert {cost.form for cost in row.costs} >= {"kernel", "spectrum"}
    assert "ms, 32 samples" in str(plain.report)
    assert finalize(space).report.rows == plain.report.rows  # nothing is measured again


@pytest.mark.parametrize(
    ("name", "arguments", "options", "becomes"),
    [
        ("Conv1D", (2, 3), {"padding": "causal", "dilation_rate": 2, "use_bias": False}, True),
        ("Conv2D", (4, 3), {"groups": 2, "strides": 2, "activation": "relu"}, True),
        ("Conv2DTranspose", (3, 3), {"strides": 2, "padding": "same"}, True),
        ("DepthwiseConv2D", (3,), {"depth_multiplier": 2}, True),
        ("SeparableConv1D", (3, 3), {}, True),
        ("Conv2D", (4, 3), {"padding": "circular"}, False),
        ("Conv1D", (4, 3), {"strides": 2, "dilation_rate": 2}, False),
        ("Conv1D", (4, 5), {"window_size": 3, "padding": "same"}, False),
        ("Conv1D", (2, 3), {"padding": "same", "warm_start": "average_pooling"}, False),
    ],
)
def test_a_convolution_that_has_not_moved_becomes_that_of_keras(
    name, arguments, options, becomes, rng
):
    layer = getattr(keras_xd.layers, f"XD{name}")(*arguments, **options, name="conv")
    sizes = (6, 6) if "2D" in name else (12,)
    space = keras.Sequential([keras.Input((*sizes, 2)), layer])
    architecture = layer.architecture_variables
    for weight in layer.weights:
        if all(weight is not variable for variable in architecture):
            weight.assign(rng.normal(size=weight.shape))
    plain = finalize(space)
    inputs = sample_models.inputs_of(space, rng)
    sample_models.assert_same_outputs(space, plain, inputs, RELATIVE_ERROR)
    assert (type(plain.get_layer("conv")) is getattr(layers, name)) == becomes
    assert type(plain) is FinalizedModel
    if not becomes:
        return
    half = finalize(space, weight_dtype="bfloat16").get_layer("conv")
    assert type(half).__module__.startswith("keras_xd") or name == "SeparableConv1D"
    architecture[0].assign(architecture[0] + 1e-3)
    assert type(finalize(space).get_layer("conv")) is not getattr(layers, name)


def test_low_ranks_never_keep_an_exact_form_without_a_word(rng):
    space = keras.Sequential([keras.Input((64, 4)), XDConv1D(16, 9, padding="same", name="conv")])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        plain = finalize(space, form="low_rank")
    texts = [str(each.message) for each in caught if each.category is UserWarning]
    assert len(texts) == 1 and "for conv, which keep the smaller" in texts[0]
    assert plain.report.rows[0].form == "kernel"


def test_snapping_is_never_done_unasked_and_tells_what_it_does(rng):
    model = sample_models.randomize(sample_models.residual(), rng)
    space = rewrite(model, only=["stem", "block0_b"])
    moved = space.get_layer("block0_b").architecture_variables[0]
    moved.assign(moved + rng.normal(size=moved.shape))
    assert not finalize(space, form="spectrum").report.snapped
    assert finalize(space).report.snapped == ("stem",)  # which has not moved
    plain = finalize(space, snap=0.01, form="kernel")
    rows = {row.name: row for row in plain.report.rows}
    assert type(plain) is FinalizedModel and rows["block0_b"].form == "kernel"
    assert rows["block0_b"].distance > 0.01 and "tolerance" in rows["block0_b"].left_because
    assert set(plain.report.snapped) == set(rows) - {"block0_b"} == {"stem"}
    assert rows["stem"].operation == "convolution 3×3" and rows["stem"].distance < 1e-3
    assert rows["stem"].multiply_adds_after < rows["stem"].multiply_adds_before
    assert type(plain.get_layer("stem")) is layers.Conv2D
    sample_models.assert_same_outputs(space, plain, sample_models.inputs_of(space, rng), 1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"snap": 0}, r"between 0 and 1, both excluded. Received: snap=0"),
        ({"snap": 1.0}, r"Received: snap=1.0"),
        ({"snap": -0.1}, r"Received: snap=-0.1"),
        ({"snap": float("nan")}, r"snap=nan"),
        ({"snap": "near"}, r"snap='near'"),
        ({"snap": True}, r"snap=True"),
        ({"form": "all"}, r"form='all'"),
        ({"weight_dtype": "float64"}, r"weight_dtype='float64'"),
    ],
)
def test_options_are_checked_before_any_work(options, message):
    with pytest.raises(ValueError, match=message):
        finalize(sample_models_named("image"), **options)
    with pytest.raises(ValueError, match="must be built"):
        finalize(keras.Sequential([XDConv2D(1, 3)]), form="auto", snap=0.1)
