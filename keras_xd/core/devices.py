"""Whether Keras computes on an accelerator, for what is tuned to one kind of device."""

import functools

import keras


@functools.cache
def has_accelerator() -> bool:
    """Return whether the backend has another device than CPUs, which it then computes on.

    On a CPU large tensors are cut so that their memory need not be allocated anew, and what has a
    single thread is divided among the cores. On an accelerator each part would be a kernel of its
    own to launch.

    Example:

    >>> from keras_xd.core.devices import has_accelerator
    >>> isinstance(has_accelerator(), bool)
    True
    """
    backend = keras.backend.backend()
    if backend in ("tensorflow", "jax"):
        return not all(name.startswith("cpu") for name in keras.distribution.list_devices())
    # Keras lists no devices on torch, but makes tensors on the one that it computes on.
    return backend == "torch" and keras.ops.zeros(()).device.type != "cpu"
