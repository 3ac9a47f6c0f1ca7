"""The sweep itself: numbers are reproducible, errors are found, pieces are joined."""

import json
import shlex

import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd_tests.sweep import __main__ as sweep
from keras_xd_tests.sweep import checks, convolutions, report, subjects

# The families that take the longest are left to the command.
FAMILIES = (
    *("xd_conv_1d", "xd_depthwise_1d", "k_dense", "structured_dense", "structured_einsum_dense"),
    *("spectral_conv_1d", "masked_conv_1d", "masked_dense", "ck_conv_1d", "mixed_operation_1d"),
    *("dash_conv", "dynamic_conv", "self_calibration", "differentiable_mask"),
)
SPECTRAL = checks.NAMES.index("spectral_conv_1d")


def passed(result):
    assert "check" not in result, f"{result['check']}: {result['reason']}"
    return result["errors"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_configuration_of_a_family(family):
    number = checks.NAMES.index(family)
    drawn, configuration = checks.drawn(0, number)
    assert drawn == family
    errors = passed(checks.check(family, configuration, checks.seed_of(0, number)))
    outputs = [error for name, error in errors.items() if name.startswith(("twin", "oracle"))]
    assert len(outputs) >= 2 and max(outputs) < 1e-4


@pytest.mark.parametrize("family", checks.NAMES)
def test_configurations_depend_on_seed_and_number_alone(family):
    number = checks.NAMES.index(family) + 3 * len(checks.NAMES)
    drawn = [checks.drawn(seed, number) for seed in (4, 4, 5)]
    assert drawn[0] == drawn[1] and json.loads(json.dumps(drawn[0][1])) == drawn[0][1]
    many = {json.dumps(checks.drawn(4, number + n * len(checks.NAMES))) for n in range(20)}
    assert len(many) > 10
    subject = checks.FAMILIES[family].subject(subjects.of_json(drawn[0][1]))
    assert subject.twin or subject.oracle or family.startswith(("xd_conv", "k_operation"))


def test_a_planted_error_is_found_and_its_command_repeats_it(monkeypatch, capsys, tmp_path):
    original = layers.SpectralConv1D.call

    def wrong(self, inputs):
        outputs = original(self, inputs)
        return outputs + 1e-3 if self.filters > 1 else outputs

    monkeypatch.setattr(layers.SpectralConv1D, "call", wrong)
    numbers = [SPECTRAL + n * len(checks.NAMES) for n in range(20)]
    number = next(n for n in numbers if checks.drawn(0, n)[1]["arguments"]["filters"] > 1)
    words = ["--seed", "0", "--start", str(number), "--count", "1"]
    page, output = tmp_path / "sweep.md", tmp_path / "sweep.json"
    first = sweep.main([*words, "--page", str(page), "--output", str(output)])
    printed = capsys.readouterr().out
    assert [failure["check"] for failure in first["failures"]] == ["oracle, float32 start"]
    command = shlex.split(printed.splitlines()[0].partition("  #")[0])
    assert command[:3] == ["python", "-m", "keras_xd_tests.sweep"]
    assert sweep.main(command[3:])["failures"] == first["failures"]
    assert "| spectral_conv_1d | 1 |" in page.read_text() and "Failures" in page.read_text()
    assert json.loads(output.read_text())["failures"] == first["failures"]
    monkeypatch.setattr(layers.SpectralConv1D, "call", original)
    again = sweep.main(["--again", str(output), "--output", str(tmp_path / "again.json")])
    assert not again["failures"] and again["ranges"] == first["ranges"]
    assert json.loads((tmp_path / "again.json").read_text()) == again
    # A smaller configuration fails in the same check.
    smaller = json.loads(printed.split("smaller: ")[1].splitlines()[0])
    assert smaller["arguments"]["filters"] == 2 and "activation" not in smaller["arguments"]


def test_other_planted_errors_are_found(monkeypatch):
    number = checks.NAMES.index("k_dense")
    family, configuration = checks.drawn(0, number)

    def found():
        return checks.check(family, configuration, 3)["check"]

    with monkeypatch.context() as patched:
        config = layers.KDense.get_config
        without = {"depth"}
        patched.setattr(
            layers.KDense,
            "get_config",
            lambda self: {k: v for k, v in config(self).items() if k not in without},
        )
        assert found() == "config"
    with monkeypatch.context() as patched:
        patched.setattr(layers.KDense, "load_own_variables", lambda self, store: None)
        assert found() == "file"
    with monkeypatch.context() as patched:
        call = layers.KDense.call
        patched.setattr(
            layers.KDense,
            "call",
            lambda self, x: keras.ops.stop_gradient(call(self, x)) + 0 * keras.ops.sum(x),
        )
        assert found() == "derivatives"


def test_what_is_sensitive_to_its_numbers_may_err_by_more(monkeypatch):
    """`(x - 1) w` near `x = 1`: rounding of `x` alone changes it by much."""
    name = "k_dense"
    check = checks.Checks(name, checks.drawn(0, checks.NAMES.index(name))[1])
    exact = keras.layers.Dense(1, use_bias=False, dtype="float64")
    exact.build((None, 2))
    exact.set_weights([np.array([[1.0], [-1.0]])])
    inputs, unit = [np.array([[1.001, 1.0]])], 2.0**-24
    spread = check.spread(exact, inputs, unit)
    assert 200 * unit < spread < 5000 * unit
    np.testing.assert_array_equal(exact.get_weights()[0], [[1.0], [-1.0]])
    expected = np.array([[0.001]])
    check.near("small", expected * (1 + 8 * spread), expected, 1e-9, exact, inputs, unit)
    assert check.errors["small"] == pytest.approx(8 * spread)
    with pytest.raises(checks.Failure, match="relative error"):
        check.near("large", expected * (1 + 12 * spread), expected, 1e-9, exact, inputs, unit)


@pytest.mark.tensorflow("it is a fault of TensorFlow's")
@pytest.mark.parametrize(
    ("size", "kernel", "strides", "channels", "wrong"),
    [
        ((6, 4), (4, 4), (1, 3), 1, True),
        ((6, 5), (4, 4), (1, 2), 1, True),
        ((6, 3), (2, 3), (1, 2), 1, True),
        ((6, 4), (4, 4), (1, 3), 2, False),
        ((6, 7), (4, 4), (1, 3), 1, False),
        ((8, 3), (2, 3), (2, 3), 1, False),
        ((6, 4), (4, 4), (3, 1), 1, False),
        ((3, 6, 4), (2, 3, 4), (2, 1, 3), 1, True),
        ((3, 6, 4), (2, 3, 4), (1, 2, 3), 1, False),
    ],
)
def test_where_tensorflow_leaves_outputs_unset(size, kernel, strides, channels, wrong, rng):
    """What is told of is at least all that is wrong here, which oneDNN has to be there for."""
    arguments = {"kernel_size": kernel, "strides": strides, "padding": "valid"}
    told = {**arguments, "dilation_rate": (1,) * len(size)}
    assert convolutions.is_wrong_in_tensorflow(told, size, channels) == wrong
    if not wrong:
        inputs = rng.standard_normal((2, *size, channels))
        outputs = []
        for dtype in ("float32", "float64"):
            kind = keras.layers.Conv2D if len(size) == 2 else keras.layers.Conv3D
            layer = kind(3, **arguments, dtype=dtype)
            layer.build(inputs.shape)
            layer.set_weights([np.ones((*kernel, channels, 3)), np.zeros(3)])
            outputs.append(keras.ops.convert_to_numpy(layer(inputs)))
        np.testing.assert_allclose(*outputs, atol=1e-5)


def test_a_file_holds_all_of_a_family(tmp_path):
    output, count = tmp_path / "sweep.json", len(checks.NAMES)
    words = ["--start", "0", "--count", str(count), "--output", str(output)]
    summary = sweep.main([*words, "--families", "spectral_conv_1d"])
    assert json.loads(output.read_text()) == summary
    assert summary["families"]["spectral_conv_1d"]["count"] == 1
    assert summary["ranges"] == [[0, count]]


def test_pieces_are_joined():
    pieces = []
    for start in (2, 0):
        summary = report.empty(7)
        summary["ranges"].append([start, 2])
        for number in (start, start + 1):
            result = {"family": "a", "configuration": {}, "seconds": 1.0, "errors": {"b": number}}
            result |= {"check": "b", "reason": "c"} if number == 1 else {}
            report.add(summary, number, result)
        pieces.append(summary)
    whole = report.joined(pieces)
    assert whole["families"] == {"a": {"count": 4, "seconds": 4.0, "worst": {"b": [3, 3]}}}
    assert [failure["number"] for failure in whole["failures"]] == [1]
    assert "4 configurations" in report.page(whole) and "--seed 7 --only 1`" in report.page(whole)
    with pytest.raises(ValueError, match="must not overlap"):
        report.joined([pieces[0], pieces[0]])
    with pytest.raises(ValueError, match="of one seed"):
        report.joined([pieces[0], {**pieces[1], "seed": 8}])


def test_relative_errors():
    assert subjects.relative(np.ones(3), np.ones(4)) == np.inf
    assert subjects.relative([1.0, np.nan], [1.0, 1.0]) == np.inf
    assert subjects.relative([1.0, 2.0], [1.0, 4.0]) == 0.5
