"""The state of training where callbacks read and change it."""

import keras


def synchronize(model: keras.Model) -> None:
    """Put the state of training into the variables, before a callback reads or changes them."""
    synchronize_state = getattr(model, "jax_state_sync", None)
    if synchronize_state is not None:
        synchronize_state()
