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
    if backend == "tensorflow":
        import tensorflow as tf

        kinds = {device.device_type for device in tf.config.list_physical_devices()}
        return not kinds <= {"CPU", "XLA_CPU"}
    if backend == "jax":
        import jax

        return jax.default_backend() != "cpu"
    if backend == "torch":
        import torch

        return torch.cuda.is_available() or torch.backends.mps.is_available()
    return False
