"""The networks of `structured.py`, of layers of Keras, and their data."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
from datasets import characters, images, text
from datasets.batches import normalize

HEADS, DROPOUT = 4, 0.1


@dataclasses.dataclass(frozen=True)
class Task:
    """One data set with its network."""

    title: str
    load: Callable
    build: Callable
    epochs: int
    subset: int
    learning_rate: float
    bits: bool = False


@keras.saving.register_keras_serializable(package="keras_xd_examples")
class Positions(keras.layers.Layer):
    """Adds a learned vector for each place of a sequence."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        self.table = self.add_weight(
            name="table", shape=input_shape[1:], initializer=keras.initializers.RandomNormal(0.02)
        )

    def call(self, inputs):
        return inputs + self.table

    def multiply_adds(self, input_shape):
        return 0


def transformer(x, options, causal=False):
    """Return the outputs of blocks of attention and of two dense layers each.

    With `options.post_norm` sums are normalized, as in BERT, else what is added to them.
    """
    width, drop, heads = options.width, DROPOUT, getattr(options, "heads", HEADS)
    post = getattr(options, "post_norm", False)

    def normalized(x, now):
        return keras.layers.LayerNormalization()(x) if now else x

    x = keras.layers.Dropout(drop)(normalized(Positions(name="positions")(x), post))
    for number in range(1, options.blocks + 1):
        y = normalized(x, not post)
        attention = keras.layers.MultiHeadAttention(
            heads, width // heads, name=f"attention{number}"
        )
        x = x + keras.layers.Dropout(drop)(attention(y, y, use_causal_mask=causal))
        x = normalized(x, post)
        y = normalized(x, not post)
        y = keras.layers.Dense(4 * width, activation="gelu", name=f"wide{number}")(y)
        x = x + keras.layers.Dropout(drop)(keras.layers.Dense(width, name=f"narrow{number}")(y))
        x = normalized(x, post)
    return normalized(x, not post)


def classifier(shape, symbols, classes, options):
    """Return a transformer of sentences."""
    inputs = keras.Input(shape, dtype="int32")
    x = keras.layers.Embedding(
        symbols,
        options.width,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=0.1),
        mask_zero=True,
    )(inputs)
    x = keras.layers.GlobalAveragePooling1D()(transformer(x, options))
    return keras.Model(inputs, keras.layers.Dense(classes, name="head")(x))


def language_model(shape, symbols, classes, options):
    """Return a transformer that tells the next symbol at every place."""
    inputs = keras.Input(shape, dtype="int32")
    start = keras.initializers.RandomNormal(stddev=0.1)
    x = keras.layers.Embedding(symbols, options.width, embeddings_initializer=start)(inputs)
    x = transformer(x, options, causal=True)
    return keras.Model(inputs, keras.layers.Dense(classes, name="head")(x))


def vision_transformer(shape, symbols, classes, options):
    """Return a transformer of patches of 4 × 4 pixels."""
    inputs = keras.Input(shape)
    x = keras.layers.Conv2D(options.width, 4, strides=4, name="patches")(inputs)
    x = keras.layers.Reshape((-1, options.width))(x)
    x = keras.layers.GlobalAveragePooling1D()(transformer(x, options))
    return keras.Model(inputs, keras.layers.Dense(classes, name="head")(x))


def mlp(shape, symbols, classes, options):
    """Return a network of three hidden dense layers."""
    inputs = keras.Input(shape)
    x = keras.layers.Flatten()(inputs)
    for number in range(1, 4):
        x = keras.layers.Dense(options.mlp_width, activation="relu", name=f"hidden{number}")(x)
        x = keras.layers.Dropout(DROPOUT)(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="head")(x))


def sentences(name, length):
    """Return a function that loads sentences, of at most so many words."""

    def load(options):
        found = text.load(name, options.data_dir, subset=options.subset)
        parts = [(words[:, :length], labels) for words, labels in (found.train, found.test)]
        return parts, parts[0][0].shape[1:], len(found.words), found.classes

    return load


def pieces(options):
    """Return pieces of the Penn Treebank."""
    (train, _, test), symbols = characters.load(options.data_dir, options.length, options.subset)
    return [train, test], (options.length,), symbols, symbols


def small_images(options):
    """Return CIFAR-10, averaged to 16 × 16 pixels."""
    train, _, test = images.load("cifar10", options.image_dir, options.subset)
    parts = [
        (normalize(np.round(255 * images.block_means(x, 2)).astype("uint8")), y)
        for x, y in (train, test)
    ]
    return parts, (16, 16, 3), None, 10


TASKS = {
    "trec": Task("TREC, six kinds of questions", sentences("trec", 24), classifier, 4, 5000, 3e-3),
    "sst2": Task("SST-2, sentiments", sentences("sst2", 24), classifier, 3, 7000, 1e-3),
    "ptb": Task("Penn Treebank, characters", pieces, language_model, 3, 3200, 3e-3, True),
    "mlp": Task("CIFAR-10, an MLP", small_images, mlp, 8, 5000, 1e-3),
    "vit": Task("CIFAR-10, a ViT", small_images, vision_transformer, 8, 5000, 3e-3),
}
