"""The scripts of `examples` and `benchmarks` as modules, which stand outside of the package."""

import contextlib
import inspect
import pathlib
import sys
import types

import keras
import tensorflow as tf
from matplotlib import _constrained_layout
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from keras_xd_tests import eager_steps
from tuner_integration import acquisition

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
BENCHMARKS = EXAMPLES.parent / "benchmarks"


@contextlib.contextmanager
def on_path(folder=EXAMPLES):
    """Make the modules of a folder importable within a `with` statement.

    Scripts below the folder put it on the path themselves; that is undone as well.
    """
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


def run_eagerly(patch):
    """Run Keras' functions eagerly: for scripts, whose tests would mostly compile graphs.

    Also those of models that are not compiled, which predict.

    Args:
        patch: pytest's `MonkeyPatch` that undoes it.
    """
    compile_model = keras.Model.compile

    def compile_eagerly(self, *args, jit_compile=False, run_eagerly=True, **kwargs):
        return compile_model(self, *args, run_eagerly=True, jit_compile=False, **kwargs)

    patch.setattr(keras.Model, "compile", compile_eagerly)
    always = property(lambda self: True, lambda self, value: None)
    patch.setattr(keras.Model, "run_eagerly", always)
    eager_steps.faster(patch)


def time_eagerly(patch, timing):
    """Let `milliseconds` of the scripts' module `timing` call each network a few times, eagerly.

    Args:
        patch: pytest's `MonkeyPatch` that undoes it.
        timing: the module.
    """
    patch.setattr(timing, "ROUNDS", 1)
    eager = {"function": lambda call, inputs: call, "constant": tf.constant}
    patch.setattr(timing, "tf", types.SimpleNamespace(**eager, TensorSpec=tf.TensorSpec))


def blank_pictures(patch):
    """Write pictures with nothing on them, of figures that are made as ever.

    `reporting_test` draws the pictures of all experiments.

    Args:
        patch: pytest's `MonkeyPatch` that undoes it.
    """
    save = Figure.savefig
    patch.setattr(Figure, "savefig", lambda figure, path, **options: save(Figure(), path))


def evolve_shortly(patch):
    """Let searches by a surrogate look for their next point in a few generations of few children.

    Args:
        patch: pytest's `MonkeyPatch` that undoes it.
    """
    few = {"refused": (), "children": 10, "tournament": 10}
    few |= {"generations": 2, "most_generations": 4, "patience": 1}
    assert list(few) == list(inspect.signature(acquisition.evolve).parameters)[-len(few) :]
    patch.setattr(acquisition.evolve, "__defaults__", tuple(few.values()))


class _Placed(Exception):
    """Ends a layout after its first pass."""


def lay_out_once(patch):
    """Draw pictures once: matplotlib does it twice to place the axes, which it places twice, too.

    Args:
        patch: pytest's `MonkeyPatch` that undoes it.
    """
    save, execute = Figure.savefig, ConstrainedLayoutEngine.execute

    def end(grids, figure):
        raise _Placed

    def execute_once(engine, figure):
        with contextlib.suppress(_Placed):
            execute(engine, figure)

    def save_as_placed(figure, *arguments, **options):
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
        figure.set_layout_engine(None)
        save(figure, *arguments, **options)

    patch.setattr(_constrained_layout, "reset_margins", end)
    patch.setattr(ConstrainedLayoutEngine, "execute", execute_once)
    patch.setattr(Figure, "savefig", save_as_placed)
