"""The 1,797 handwritten digits that come with scikit-learn: 8 × 8 pixels, no download."""

from sklearn import datasets
from sklearn.model_selection import train_test_split


def load():
    """Return `(train, validation, test)`, pairs of images in [0, 1], 8 × 8 × 1, and labels.

    A fifth of all images is for testing, a fifth of the others for validation; always the same.
    """
    images, labels = datasets.load_digits(return_X_y=True)
    images = (images / 16).astype("float32").reshape(-1, 8, 8, 1)

    def split(images, labels):
        options = {"test_size": 0.2, "stratify": labels, "random_state": 0}
        images, others, labels, other_labels = train_test_split(images, labels, **options)
        return (images, labels), (others, other_labels)

    rest, test = split(images, labels)
    return *split(*rest), test
