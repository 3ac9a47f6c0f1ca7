"""The package can be imported without its extra requirements, and says what is missing."""

import importlib.util

import pytest

import tuner_integration


def loaded():
    spec = importlib.util.spec_from_file_location("loaded_again", tuner_integration.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("missing", ["keras_tuner", "scipy"])
def test_import_without_the_extra_says_what_is_missing(monkeypatch, missing):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else found(name)
    )
    module = loaded()
    with pytest.raises(ImportError, match=f"Missing: {missing}"):
        _ = module.GrammarOracle


def test_names_are_there_with_the_extra():
    module = loaded()
    assert module.GrammarOracle is tuner_integration.GrammarOracle
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        _ = module.Missing
    with pytest.raises(AttributeError, match="; it is now tuner_integration.points.PointSpace"):
        _ = module.PointSpace
