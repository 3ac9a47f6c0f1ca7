"""Back to the size of a block's inputs, from whatever size its layers have chosen."""

import functools
from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import transforms
from keras_xd.core.type_aliases import LayerOptions, Sizes, Tensor
from keras_xd.layers.fourier import resampling

# Up to this many entries a product with a matrix was faster than two transforms, measured on a CPU
# with axes from 31 to 64 to 1023 to 2048 points.
LARGEST_MATRIX = 2**18


@keras.saving.register_keras_serializable(package="keras_xd")
class FourierUpsampling(resampling.GridLayer):
    """Samples periodic data on a grid of fixed sizes; the sizes of the inputs may change.

    It does what `FourierResampling` does, with the sizes that the inputs have at the call, on long
    axes by FFT. Use it after a `CKConv` with `rendering="dynamic"`, whose output sizes are unknown
    when a model is built. Within a traced function they must be known, as they are there.

    Args:
        sizes, data_format: as in `FourierResampling`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.FourierUpsampling(32)
    >>> [layer(np.ones((1, n, 2))).shape[1] for n in (5, 9, 32)]
    [32, 32, 32]
    """

    def __init__(
        self, sizes: Sizes, data_format: str | None = None, **kwargs: Unpack[LayerOptions]
    ):
        super().__init__(sizes, data_format, **kwargs)
        self.input_spec = keras.layers.InputSpec(ndim=len(self.sizes) + 2)

    def call(self, inputs: Tensor) -> Tensor:
        before = self.sizes_of(tuple(inputs.shape))
        first = 1 if self.data_format == "channels_last" else 2
        short = list(before)
        for axis, (old, new) in enumerate(zip(before, self.sizes, strict=True)):
            if old != new and old * new > LARGEST_MATRIX:
                inputs = resample_by_transform(inputs, first + axis, new)
                short[axis] = new
        matrices = _matrices(tuple(short), self.sizes)
        return resampling.resample(inputs, matrices, self.data_format)


def resample_by_transform(x, axis, size):
    """Return what `resampling.resampling_matrix` gives along one axis, by FFT."""
    x = ops.moveaxis(x, axis, -1)
    before = x.shape[-1]
    exact = "float64" if keras.backend.standardize_dtype(x.dtype) == "float64" else "float32"
    smaller = min(before, size)
    kept = smaller // 2 + 1
    scale = np.full(kept, size / before)
    if smaller % 2 == 0 and before != size:
        # A cosine at half of the smaller size is one of two frequencies on the finer grid.
        scale[-1] *= 0.5 if size > before else 2
    scale = ops.convert_to_tensor(scale, exact)
    padding = [(0, 0)] * (len(x.shape) - 1) + [(0, size // 2 + 1 - kept)]
    real, imaginary = (
        ops.pad(part * scale, padding) for part in transforms.rfft(ops.cast(x, exact), kept=kept)
    )
    y = transforms.irfft((real, imaginary), fft_length=size)
    return ops.moveaxis(ops.cast(y, x.dtype), -1, axis)


# A matrix takes longer to make than to use.
_matrices = functools.lru_cache(maxsize=64)(resampling.resampling_matrices)
