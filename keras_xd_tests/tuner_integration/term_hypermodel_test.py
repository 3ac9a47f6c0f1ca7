import keras_tuner as kt
import pytest

from keras_xd.grammar import Grammar
from tuner_integration.term_hypermodel import TermHyperModel

GRAMMARS = {"a": Grammar("A -> x | y"), "b": Grammar("B -> z")}


def test_a_function_gets_the_parsed_terms():
    found = []
    model = TermHyperModel(lambda hp, a, b: found.append((a.operator, b.operator)), GRAMMARS)
    hp = kt.HyperParameters()
    hp.Fixed("a", "(A y)"), hp.Fixed("b", "(B z)")
    model.build(hp)
    assert found == [("y", "z")]


def test_a_hypermodel_declares_and_builds():
    class Own(kt.HyperModel):
        def declare_hyperparameters(self, hp):
            hp.Int("units", 1, 3)

        def build(self, hp, a, b):
            return a.operator, hp.get("units")

    hp = kt.HyperParameters()
    hp.Fixed("a", "(A x)"), hp.Fixed("b", "(B z)")
    model = TermHyperModel(Own(), GRAMMARS)
    model.declare_hyperparameters(hp)
    assert model.build(hp) == ("x", 1)


def test_what_takes_no_terms_is_refused():
    with pytest.raises(ValueError, match=r"build\(hp, a, b\)"):
        TermHyperModel(lambda hp: None, GRAMMARS)
