"""Whether a model of sequences is causal, found out by calling it."""

import keras
import numpy as np

from keras_xd.graph import replacing

# A step moves by more than a share of the largest movement, and by more than rounding.
_SHARE = 1e-3
_ROUNDING = 16 * np.finfo("float32").eps  # of the largest output


def is_causal(model, axis=1):
    """Return whether an output depends on earlier steps of an input, and on no later ones."""
    call = replacing.symbolic_call(model)
    tensors = keras.tree.flatten(call)
    if any(None in tensor.shape[1:] or tensor.dtype == "string" for tensor in tensors):
        return False
    state = model.trainable_variables, model.non_trainable_variables

    def outputs_for(arrays):
        args, kwargs = keras.tree.pack_sequence_as(call, arrays)
        outputs, _ = model.stateless_call(*state, *args, training=False, **kwargs)
        outputs = map(keras.ops.convert_to_numpy, keras.tree.flatten(outputs))
        return [output.astype("float64") for output in outputs]

    rng = np.random.default_rng(0)
    arrays, others = ([_drawn(tensor, rng) for tensor in tensors] for _ in range(2))
    try:
        return any(
            _is_causal_in(number, arrays, other, outputs_for, axis)
            for number, other in enumerate(others)
        )
    except Exception:  # of any layer and backend: a model need not take random inputs
        return False


def _drawn(tensor, rng):
    """Return a random input of the shape of a symbolic one; integers are 0 or 1."""
    shape = (tensor.shape[0] or 1, *tensor.shape[1:])
    if keras.backend.is_float_dtype(tensor.dtype):
        return rng.normal(size=shape).astype("float32")
    return rng.integers(0, 2, shape).astype(tensor.dtype)


def _is_causal_in(number, arrays, other, outputs_for, axis):
    """Return whether an output is causal in the steps of the input of this number."""
    inputs = _steps_first(arrays[number], axis)
    steps = len(inputs)
    if steps < 2:
        return False
    before = [_steps_first(output, axis) for output in outputs_for(arrays)]

    def moving(places):
        """Return for each output which of its steps move when the inputs at these places do."""
        changed, result = arrays[number].copy(), {}
        _steps_first(changed, axis)[places] = _steps_first(other, axis)[places]
        after = outputs_for([*arrays[:number], changed, *arrays[number + 1 :]])
        for name, (old, new) in enumerate(zip(before, after, strict=True)):
            if len(old) == steps:
                moved = np.abs(_steps_first(new, axis) - old).reshape(steps, -1)
                least = max(_SHARE * np.max(moved), _ROUNDING * np.max(np.abs(old)))
                result[name] = ~np.all(moved <= least, axis=1)  # so that NaN moves
        return result

    middle = steps // 2
    causal = set(range(len(before)))
    for cut in dict.fromkeys((middle, 1, steps - 1)):
        moved = moving(slice(cut, None))
        causal = {name for name in causal if name in moved and not moved[name][:cut].any()}
        if not causal:
            return False
    moved = moving(slice(middle))
    return any(moved[name][middle:].any() for name in causal)


def _steps_first(array, axis):
    """Return a view of an array with its steps as the first axis, without any if it has none."""
    if array.ndim < 2:
        return array[:0]
    return np.moveaxis(array, axis if array.ndim == 3 else 1, 0)
