"""The 1,797 handwritten digits that come with scikit-learn: 8 × 8 pixels, no download."""

from sklearn import datasets
from sklearn.model_selection import train_test_split


def load(test_fraction=0.2, validation_fraction=0.2):
    """Return `(train, validation, test)`, each a pair of images and labels.

    The split is always the same and stratified: the test images are drawn first, the validation
    images from those that remain.

    Args:
        test_fraction: share of all images kept for testing.
        validation_fraction: share of the remaining images kept for choices made while training.

    Returns:
        Three pairs of a float32 array `(number, 8, 8, 1)` in [0, 1] and an integer array.
    """
    images, labels = datasets.load_digits(return_X_y=True)
    images = (images / 16).astype("float32").reshape(-1, 8, 8, 1)
    images, test_images, labels, test_labels = train_test_split(
        images, labels, test_size=test_fraction, stratify=labels, random_state=0
    )
    train_images, validation_images, train_labels, validation_labels = train_test_split(
        images, labels, test_size=validation_fraction, stratify=labels, random_state=0
    )
    return (
        (train_images, train_labels),
        (validation_images, validation_labels),
        (test_images, test_labels),
    )
