"""The state of training where callbacks read and change it."""

import keras


def synchronize(model: keras.Model) -> None:
    """Put the state of training into the variables, before a callback reads or changes them.

    On JAX it is kept outside of them during `fit`. On other backends nothing is done.

    Args:
        model: the model that is trained.
    """
    synchronize_state = getattr(model, "jax_state_sync", None)
    if synchronize_state is not None:
        synchronize_state()
