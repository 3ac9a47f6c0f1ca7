"""What `import keras_xd` brings, in a process of its own."""

import configparser
import pathlib
import subprocess
import sys
import textwrap

import keras_xd

ROOT = pathlib.Path(__file__).parent.parent


def run(program):
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_pictures_need_matplotlib_and_nothing_else_does():
    printed = run(
        """
        import sys
        sys.modules["matplotlib"] = None  # as if it was not installed
        import keras_xd
        print("keras_xd.visualization" in sys.modules, "visualization" in dir(keras_xd))
        try:
            keras_xd.visualization
        except ImportError as error:
            print(error)
        del sys.modules["matplotlib"]
        print(keras_xd.visualization.plot_operators.__name__, "matplotlib" in sys.modules)
        """
    )
    first, error, last = printed.splitlines()
    assert first == "False True"
    assert "matplotlib" in error and "extra `plot`" in error and "keras_xd[plot]" in error
    assert last == "plot_operators True"


def test_the_extra_has_a_name_of_its_own():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["options.extras_require"]["plot"].strip().startswith("matplotlib")


def test_modules_are_found_by_their_earlier_paths():
    printed = run(
        """
        from keras_xd.genotypes import NOS_OPERATIONS
        from keras_xd.layers.rewritten import Rewritten
        import keras_xd.masks
        import keras_xd.layers.masked.masks
        print(Rewritten.__name__, keras_xd.masks is keras_xd.layers.masked.masks)
        """
    )
    assert printed.split() == ["Rewritten", "True"]


def test_other_names_are_still_missing():
    assert not hasattr(keras_xd, "visualisation")
    assert set(dir(keras_xd)) >= {"visualization", "rewrite", "nearest"}
