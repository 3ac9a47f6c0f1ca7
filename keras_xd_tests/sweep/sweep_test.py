"""The sweep itself: numbers are reproducible, errors are found, pieces are joined."""

import re
import shlex

import pytest

from keras_xd import layers
from keras_xd_tests.sweep import __main__ as sweep
from keras_xd_tests.sweep import checks

SEED = 9  # of which every family draws something that Keras or NumPy computes too
# Other ranks and all that they draw are for the sweep itself.
ONE_RANK = [name for name in checks.NAMES if name == "xd_conv_2d" or not re.search("_[23]d", name)]
SPECTRAL = checks.NAMES.index("spectral_conv_1d")


def passed(result):
    assert "check" not in result, f"{result['check']}: {result['reason']}"
    return result["errors"]


@pytest.mark.filterwarnings("ignore:You are using a softmax:UserWarning")  # of a kernel of one tap
@pytest.mark.parametrize("family", ONE_RANK)
def test_a_configuration_of_a_family(family):
    number = checks.NAMES.index(family)
    drawn, configuration = checks.drawn(SEED, number)
    assert drawn == family
    errors = passed(checks.check(family, configuration, checks.seed_of(SEED, number)))
    outputs = [error for name, error in errors.items() if name.startswith(("twin", "oracle"))]
    assert len(outputs) >= 2 and max(outputs) < 1e-4


def test_a_planted_error_is_found_and_its_command_repeats_it(monkeypatch, capsys, tmp_path):
    original = layers.SpectralConv1D.call

    def wrong(self, inputs):
        outputs = original(self, inputs)
        return outputs + 1e-3 if self.filters > 1 else outputs

    monkeypatch.setattr(layers.SpectralConv1D, "call", wrong)
    numbers = [SPECTRAL + n * len(checks.NAMES) for n in range(20)]
    number = next(n for n in numbers if checks.drawn(0, n)[1]["arguments"]["filters"] > 1)
    page = tmp_path / "sweep.md"
    first = sweep.main(["--only", str(number), "--page", str(page)])
    printed = capsys.readouterr().out
    assert [failure["check"] for failure in first["failures"]] == ["oracle, float32 start"]
    command = shlex.split(printed.splitlines()[0].partition("  #")[0])
    assert command[:3] == ["python", "-m", "keras_xd_tests.sweep"]
    assert sweep.main(command[3:])["failures"] == first["failures"]
    assert "| spectral_conv_1d | 1 |" in page.read_text() and "Failures" in page.read_text()
