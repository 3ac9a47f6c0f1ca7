"""What layers compute by while their architecture does not move.

A layer whose architecture is fixed for a while may compute in a faster form: a form is any object
that the layer makes by its method `frozen_form` and knows how to use. It holds values taken from
the architecture variables, so it is right only as long as these keep them. Whoever hands out forms
has to see to that; a layer that is called by itself gets none and computes from its variables.
"""

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from typing import Any

import keras

_FORMS = contextvars.ContextVar("frozen_forms", default=None)


@contextlib.contextmanager
def using(forms: Mapping[int, tuple[keras.layers.Layer, Any]]) -> Iterator[None]:
    """Let layers compute by their forms as long as a `with` statement lasts.

    Args:
        forms: a pair of the layer and its form by the layer's `id`.

    Example:

    >>> import keras
    >>> from keras_xd.core import frozen_forms
    >>> layer, other = keras.layers.Dense(1), keras.layers.Dense(1)
    >>> with frozen_forms.using({id(layer): (layer, "a form")}):
    ...     print(frozen_forms.form_of(layer), frozen_forms.form_of(other))
    a form None
    >>> print(frozen_forms.form_of(layer))
    None
    """
    token = _FORMS.set(forms)
    try:
        yield
    finally:
        _FORMS.reset(token)


def form_of(layer: keras.layers.Layer) -> Any:
    """Return the form that a layer is to compute by at present, see `using`, or `None`."""
    found = (_FORMS.get() or {}).get(id(layer))
    return found[1] if found is not None and found[0] is layer else None
