"""Steps of a search in which layers with a fixed architecture compute by their frozen forms."""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core import frozen_forms
from keras_xd.core.searchable import searchable_layers
from keras_xd.training.early_metrics import EarlyMetrics

# What may change an architecture within a step, if it is somebody else's.
PACKAGES = {"keras", "keras_xd"}
STEPS = ("call", "compute_loss", "train_step", "test_step", "predict_step")


class FrozenForms:
    """The frozen forms of the layers of a search, and whether they are right.

    A form is taken outside of any graph, when a function of the search is made. Before each call
    of such a function the architecture is compared with the values that the forms were taken at.

    Args:
        search: the `SearchModel`.

    Attributes:
        version: a number that changes with the forms.
        computing: whether a function of the search computes by the forms now.
    """

    def __init__(self, search: keras.Model):
        self.search = search
        self.version = 0
        self.computing = False
        self._found = {}
        self._unsteady, self._taken_again = set(), set()
        self._unchanged = None
        self._candidates = None

    def begin(self) -> None:
        """Forget which layers have not kept their architecture; called when `fit` begins."""
        self._unsteady, self._taken_again = set(), set()
        self._candidates = None

    def refresh(self, fixed: bool, *, again: bool) -> None:
        """Take the forms of all layers whose architecture does not move.

        Args:
            fixed: whether no architecture moves; otherwise only variables that are not trainable
                do not.
            again: whether a form whose layer has changed may be taken again, once in a `fit`;
                else the layer computes from its variables.
        """
        found = {}
        for layer in self.candidates():
            variables = layer.architecture_variables
            if not fixed and any(variable.trainable for variable in variables):
                continue
            values = [np.array(_numpy(variable)) for variable in variables]
            known = self._found.get(id(layer))
            if known is not None and _equal(known.values, values):
                found[id(layer)] = known
                continue
            if known is not None and not (again and id(layer) not in self._taken_again):
                self._unsteady.add(id(layer))
            elif known is not None:
                self._taken_again.add(id(layer))
            # Numbers that are not finite never equal themselves.
            if id(layer) not in self._unsteady and all(np.isfinite(v).all() for v in values):
                found[id(layer)] = _Frozen(layer, values)
        if found != self._found:
            self._take(found)

    def unchanged(self, arguments: tuple) -> bool:
        """Return whether the architecture is still that of the forms.

        Args:
            arguments: those of the function that is about to be called.
        """
        return self._unchanged is None or self._unchanged(arguments)

    def give_up(self) -> None:
        """Let all layers compute from their variables until the next `fit`."""
        self._unsteady |= set(self._found)
        self._take({})

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Return a context manager in which the layers compute by their forms.

        That is so only within a function of the search, which looks before each call whether they
        are right; a step that somebody else calls or compiles computes from the variables.
        """
        if not (self.computing and self._found):
            yield
            return
        with frozen_forms.using({key: (one.layer, one.form) for key, one in self._found.items()}):
            yield

    def candidates(self) -> list[keras.layers.Layer]:
        """Return the layers that can have forms: none if a step is somebody else's."""
        if self._candidates is None:
            own = [getattr(type(self.search), name).__module__.split(".")[0] for name in STEPS]
            layers = searchable_layers(self.search.model) if set(own) <= PACKAGES else []
            self._candidates = [layer for layer in layers if hasattr(layer, "frozen_form")]
        return self._candidates

    def _take(self, found):
        self._found = found
        self.version += 1
        self._unchanged = None
        if found:
            variables, values = {}, {}
            for one in found.values():
                pairs = zip(one.layer.architecture_variables, one.values, strict=True)
                for variable, value in pairs:
                    variables[id(variable)], values[id(variable)] = variable, value
            backend = importlib.import_module(
                f"keras_xd.training.backends.{keras.backend.backend()}"
            )
            self._unchanged = backend.comparison(
                self.search, list(variables.values()), list(values.values())
            )


class _Frozen:
    """A layer, its form and the values of its architecture variables then."""

    def __init__(self, layer, values):
        self.layer, self.values = layer, values
        self.form = layer.frozen_form()


class FrozenSteps(EarlyMetrics):
    """Base class of `SearchModel`: its train, test and predict functions use frozen forms.

    A subclass has the attribute `frozen`, a `FrozenForms`, and `architecture_is_fixed`.

    Example:

    >>> import keras_xd
    >>> issubclass(keras_xd.SearchModel, keras_xd.training.frozen_steps.FrozenSteps)
    True
    """

    @property
    def architecture_is_fixed(self) -> bool:
        """Whether training moves no architecture at present."""
        return False

    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        self.frozen.begin()
        return super().fit(*args, **kwargs)

    def train_step(self, *args: Any) -> Any:
        with self.frozen.scope():
            return super().train_step(*args)

    def test_step(self, *args: Any) -> Any:
        with self.frozen.scope():
            return super().test_step(*args)

    def predict_step(self, *args: Any) -> Any:
        with self.frozen.scope():
            return super().predict_step(*args)

    def make_train_function(self, force: bool = False) -> Any:
        return self.make_guarded("train", force, again=True)

    def make_test_function(self, force: bool = False) -> Any:
        return self.make_guarded("test", force, again=False)

    def make_predict_function(self, force: bool = False) -> Any:
        return self.make_guarded("predict", force, again=False)

    def make_guarded(self, name: str, force: bool, *, again: bool) -> Any:
        """Make a function of Keras; again if the forms of layers have changed.

        Args:
            name: "train", "test" or "predict".
            force: whether to make it in any case.
            again: as in `FrozenForms.refresh`.

        Returns:
            The function.
        """
        self.frozen.refresh(self.architecture_is_fixed, again=again)
        return self.guarded_function(name, force)

    def guarded_function(self, name: str, force: bool = False) -> Any:
        """Return a function of Keras that uses the present forms, an old one if it does."""
        before = getattr(self, f"{name}_function")
        if isinstance(before, GuardedFunction):
            force = force or before.version != self.frozen.version
        step = f"{name}_step"
        # A function of its own each time: JAX would take what it has traced of an equal one, and
        # methods of one object are equal.
        vars(self)[step] = lambda *args: getattr(type(self), step)(self, *args)
        try:
            getattr(super(), f"make_{name}_function")(force=force)
        finally:
            del vars(self)[step]
        made = getattr(self, f"{name}_function")
        if made is not before:
            setattr(self, f"{name}_function", GuardedFunction(self, name, made))
        return getattr(self, f"{name}_function")


class GuardedFunction:
    """A function of Keras that is never called with forms of another architecture.

    If the architecture is not that of the forms, the layers compute from their variables, and the
    function is made again.

    Args:
        search: the `SearchModel`.
        name: "train", "test" or "predict".
        function: what Keras made.
    """

    def __init__(self, search: keras.Model, name: str, function: Callable[..., Any]):
        self.search, self.name, self.function = search, name, function
        self.version = search.frozen.version

    def __call__(self, *args: Any) -> Any:
        frozen = self.search.frozen
        if not frozen.unchanged(args):
            frozen.give_up()
        if self.version != frozen.version:
            return self.search.guarded_function(self.name, force=True)(*args)
        before, frozen.computing = frozen.computing, True
        try:
            return self.function(*args)
        finally:
            frozen.computing = before


def _numpy(variable):
    return ops.convert_to_numpy(ops.convert_to_tensor(variable))


def _equal(first, second):
    return all(np.array_equal(*both) for both in zip(first, second, strict=True))
