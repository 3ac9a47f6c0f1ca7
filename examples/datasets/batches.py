"""Batches of arrays in memory in a new order every epoch; of images, normalized and augmented."""

import keras
import numpy as np

IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], "float32")
IMAGENET_DEVIATION = np.array([0.229, 0.224, 0.225], "float32")
BORDER = 4


def normalize(images):
    """Return uint8 images as float32 with ImageNet's mean and standard deviation taken out."""
    return (images.astype("float32") / 255 - IMAGENET_MEAN) / IMAGENET_DEVIATION


class Batches(keras.utils.PyDataset):
    """Batches in a new random order every epoch.

    On TensorFlow, `fit` puts arrays into the same order in every epoch once a seed is set; the
    order here follows from the seed and the number of the epoch.
    """

    def __init__(self, *arrays, batch_size, seed, epoch=0, incomplete=True):
        super().__init__()
        self.arrays = arrays
        self.number = len(arrays[0])
        self.batch_size = min(batch_size, self.number)
        self.seed = seed
        self.incomplete = incomplete
        self.epoch = epoch - 1
        self.on_epoch_end()

    def __len__(self):
        complete, left = divmod(self.number, self.batch_size)
        return complete + (self.incomplete and left > 0)

    def __getitem__(self, index):
        chosen = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        return self.take(chosen, index)

    def take(self, chosen, index):
        """Return the batch `index`, of the samples `chosen`."""
        return tuple(array[chosen] for array in self.arrays)

    def on_epoch_end(self):
        self.epoch += 1
        self.rng = np.random.default_rng((self.seed, self.epoch))
        self.order = self.rng.permutation(self.number)


class ImageBatches(Batches):
    """Batches of normalized images; an incomplete last one is left out.

    Augmented ones are continued by black pixels, cropped at random places and flipped at random.
    """

    def __init__(self, images, labels, batch_size, seed, augment, border=BORDER):
        self.size = images.shape[1:3]
        self.augment, self.border = augment, border
        sides = (border, border) if augment else (0, 0)
        images = np.pad(images, [(0, 0), sides, sides, (0, 0)])
        super().__init__(images, labels, batch_size=batch_size, seed=seed, incomplete=False)

    def take(self, chosen, index):
        images, labels = super().take(chosen, index)
        if self.augment:
            # A generator of its own, because Keras may ask for a batch more than once.
            images = self._augmented(images, np.random.default_rng((self.seed, self.epoch, index)))
        return normalize(images), labels

    def _augmented(self, images, rng):
        number = len(images)
        places = [
            rng.integers(2 * self.border + 1, size=(number, 1)) + np.arange(size)
            for size in self.size
        ]
        flipped = rng.integers(2, size=(number, 1), dtype=bool)
        rows, columns = places[0], np.where(flipped, places[1][:, ::-1], places[1])
        return images[np.arange(number)[:, None, None], rows[:, :, None], columns[:, None, :]]
