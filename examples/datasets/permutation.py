"""One permutation of the rows and one of the columns, the same for all images of a data set."""

import numpy as np


def permute(images, seed):
    """Return the images with rows and columns in another order.

    What each image holds is still there, but neighbours are no longer neighbours, so that a
    convolution is the wrong operation.
    """
    rng = np.random.default_rng(seed)
    rows, columns = (rng.permutation(size) for size in images.shape[1:3])
    return images[:, rows][:, :, columns]
