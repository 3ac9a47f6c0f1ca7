"""The scripts of the gallery, each in its small setting, and their common arguments."""

import contextlib
import functools
import importlib
import sys

import keras
import numpy as np
import pytest
from matplotlib.image import imread

from keras_xd_tests import example_scripts

GALLERY = example_scripts.EXAMPLES / "gallery"
NAMES = sorted(path.stem for path in GALLERY.glob("*.py") if path.stem != "common")
WITH_IMAGES = ("hero", "sensor_echo")


@contextlib.contextmanager
def on_path():
    """Make the scripts and what they share importable within a `with` statement."""
    with example_scripts.on_path():
        sys.path.insert(0, str(GALLERY))
        yield


with on_path():
    scripts = {name: importlib.import_module(name) for name in NAMES}
    common = importlib.import_module("common")


@pytest.mark.parametrize("name", NAMES)
def test_a_script_draws_what_it_has_measured(name, tmp_path, monkeypatch, capsys):
    one_layer = functools.partial(common.backbone, convolutions=1)
    monkeypatch.setattr(common, "backbone", one_layer)
    found = scripts[name].main(["--small", "--output", str(tmp_path)])
    parts = keras.tree.flatten(found)
    values = [n for part in parts if not isinstance(part, str) for n in np.ravel(part)]
    assert values and np.isfinite(values).all()
    (picture,) = tmp_path.iterdir()
    assert picture.stat().st_size < 200_000
    if name in WITH_IMAGES:
        assert picture.name == f"{name}.png" and imread(picture).shape[1] >= 1200
    else:
        assert picture.name == f"{name}.svg" and "<image" not in picture.read_text("utf-8")
    assert str(picture) in capsys.readouterr().out


def test_an_existing_picture_is_kept(tmp_path, capsys):
    (tmp_path / "script.svg").write_text("mine")
    with pytest.raises(SystemExit):
        common.parse("script.py", "What it is.", ["--output", str(tmp_path)])
    assert "--overwrite" in capsys.readouterr().err
    assert (tmp_path / "script.svg").read_text() == "mine"
    arguments = ["--output", str(tmp_path), "--overwrite"]
    assert common.parse("script.py", "What it is.", arguments).path == tmp_path / "script.svg"
