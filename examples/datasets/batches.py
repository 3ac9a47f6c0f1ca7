"""Batches of images in memory, normalized, and where asked cropped and flipped at random."""

import keras
import numpy as np

IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], "float32")
IMAGENET_DEVIATION = np.array([0.229, 0.224, 0.225], "float32")
BORDER = 4


def normalize(images):
    """Return uint8 images as float32 with ImageNet's mean and standard deviation taken out."""
    return (images.astype("float32") / 255 - IMAGENET_MEAN) / IMAGENET_DEVIATION


class Batches(keras.utils.PyDataset):
    """Batches in a new random order every epoch; an incomplete last one is left out.

    Args:
        images: uint8 array `(number, height, width, 3)`.
        labels: integer array.
        batch_size: images of a batch; all of them if there are fewer.
        seed: integer that order and augmentation follow from.
        augment: whether each image is continued by 4 black pixels on all sides, cropped to its size
            at a random place and flipped from left to right at random.
    """

    def __init__(self, images, labels, batch_size, seed, augment):
        super().__init__()
        self.size = images.shape[1:3]
        sides = (BORDER, BORDER) if augment else (0, 0)
        self.images = np.pad(images, [(0, 0), sides, sides, (0, 0)])
        self.labels = labels
        self.batch_size = min(batch_size, len(images))
        self.seed = seed
        self.augment = augment
        self.epoch = -1
        self.on_epoch_end()

    def __len__(self):
        return len(self.images) // self.batch_size

    def __getitem__(self, index):
        chosen = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        images = self.images[chosen]
        if self.augment:
            # A generator of its own, because Keras may ask for a batch more than once.
            images = self._augmented(images, np.random.default_rng((self.seed, self.epoch, index)))
        return normalize(images), self.labels[chosen]

    def on_epoch_end(self):
        self.epoch += 1
        rng = np.random.default_rng((self.seed, self.epoch))
        self.order = rng.permutation(len(self.images))

    def _augmented(self, images, rng):
        number = len(images)
        places = [
            rng.integers(2 * BORDER + 1, size=(number, 1)) + np.arange(size) for size in self.size
        ]
        flipped = rng.integers(2, size=(number, 1), dtype=bool)
        rows, columns = places[0], np.where(flipped, places[1][:, ::-1], places[1])
        return images[np.arange(number)[:, None, None], rows[:, :, None], columns[:, None, :]]
