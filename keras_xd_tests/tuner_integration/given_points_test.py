"""Points from outside; most of it is tested with the oracle."""

import keras_tuner as kt
import pytest

from keras_xd.grammar import Grammar, parse
from tuner_integration.given_points import given_point, given_values, project_rows
from tuner_integration.points import PointSpace

GRAMMAR = Grammar("S -> Linear2 A A \n A -> conv | pool")
TEXT = "(S Linear2 (A conv) (A pool))"


@pytest.mark.parametrize(
    "given",
    [TEXT, parse(TEXT), {"s": TEXT}, {"s": parse(TEXT)}, "Linear2(conv, pool)"],
)
def test_terms_are_texts_terms_or_values(given):
    assert given_values(given, {"s": GRAMMAR}) == {"s": TEXT}
    assert given_point(PointSpace({"s": GRAMMAR}, kt.HyperParameters()), given) == (
        ("s", parse(TEXT)),
    )


@pytest.mark.parametrize(
    ("given", "names"), [(TEXT, "ab"), (3, "a"), ({"a": TEXT}, "ab"), ([], "a")]
)
def test_other_things_are_refused(given, names):
    with pytest.raises(ValueError, match="A point must be"):
        given_values(given, dict.fromkeys(names, GRAMMAR))


@pytest.mark.parametrize("content", ["", "[]", '{"status": "COMPLETED"}'])
def test_damaged_trials_are_refused(content, tmp_path):
    (tmp_path / "trial_0").mkdir()
    (tmp_path / "trial_0" / "trial.json").write_text(content)
    with pytest.raises(ValueError, match="whole files of a project. Received: .* cannot be read"):
        project_rows(tmp_path, kt.Objective("loss", "min"))
