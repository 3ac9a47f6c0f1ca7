"""The state of a model's random generators in files, so that dropout goes on as it would have."""

import warnings

import keras
import numpy as np

KEY = "seed_generators"


def generator_states(model: keras.Model) -> list[keras.Variable]:
    """Return the states of all `keras.random.SeedGenerator` in a model, in the order of
    its layers.
    """
    weights = {id(weight) for weight in model.weights}
    return [
        variable
        for variable in model.variables
        if id(variable) not in weights and variable.name == "seed_generator_state"
    ]


def store_random_state(model, store):
    """Write the states into what `save_own_variables` is given."""
    states = [keras.ops.convert_to_numpy(state) for state in generator_states(model)]
    if states:
        store[KEY] = np.stack(states).astype("int64")


def load_random_state(model, store):
    """Set the states from what `load_own_variables` is given."""
    saved = np.asarray(store[KEY]) if KEY in store.keys() else np.zeros((0, 2), "int64")
    states = generator_states(model)
    if len(saved) not in (0, len(states)):
        warnings.warn(
            "The random state in a file must be that of as many random generators (of dropout and "
            f"the like) as the model has; it is left out. Received: a file of {len(saved)}, model "
            f"'{model.name}' of {len(states)}",
            stacklevel=2,
        )
        return
    for state, value in zip(states, saved, strict=False):
        state.assign(keras.ops.convert_to_tensor(value, dtype=state.dtype))
