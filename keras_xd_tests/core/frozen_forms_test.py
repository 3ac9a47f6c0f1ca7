import threading

import keras
import pytest

from keras_xd.core import frozen_forms


def test_forms_last_as_long_as_the_statement():
    layer, other = keras.layers.Dense(1), keras.layers.Dense(1)
    with pytest.raises(KeyError), frozen_forms.using({id(layer): (layer, "form")}):
        raise KeyError
    assert frozen_forms.form_of(layer) is None
    with frozen_forms.using({id(layer): (layer, "form")}):
        with frozen_forms.using({id(other): (other, "another")}):
            assert (frozen_forms.form_of(layer), frozen_forms.form_of(other)) == (None, "another")
        assert frozen_forms.form_of(layer) == "form"


def test_a_form_is_that_of_its_layer_alone():
    """The `id` of a layer that is gone may be that of a new one."""
    layer, other = keras.layers.Dense(1), keras.layers.Dense(1)
    with frozen_forms.using({id(layer): (other, "form")}):
        assert frozen_forms.form_of(layer) is None


def test_other_threads_have_no_forms():
    layer, found = keras.layers.Dense(1), []
    with frozen_forms.using({id(layer): (layer, "form")}):
        thread = threading.Thread(target=lambda: found.append(frozen_forms.form_of(layer)))
        thread.start()
        thread.join()
    assert found == [None]
