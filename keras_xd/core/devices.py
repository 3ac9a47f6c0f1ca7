"""Whether Keras computes on an accelerator, for what is tuned to one kind of device."""

import keras


def has_accelerator() -> bool:
    """Return whether the backend has another device than CPUs, which it then computes on."""
    backend = keras.backend.backend()
    if backend in ("tensorflow", "jax"):
        return not all(name.startswith("cpu") for name in keras.distribution.list_devices())
    # Keras lists no devices on torch, but makes tensors on the one that it computes on.
    return backend == "torch" and keras.ops.zeros(()).device.type != "cpu"
