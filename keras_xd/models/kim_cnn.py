"""Kim's convolutional network for sentences."""

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.models.blocks import check_dropout


@check_types
def kim_cnn(
    length: int,
    vocabulary: int,
    classes: int,
    embedding: int = 300,
    filters: int = 100,
    kernel_sizes: tuple[int, ...] = (3, 4, 5),
    dropout: float = 0.5,
    name: str = "kim_cnn",
) -> keras.Model:
    """Return Kim's network: convolutions of several sizes side by side, each with its maximum.

    Each word becomes a vector, drawn uniformly from -0.25 to 0.25. A convolution with ReLU of each
    size in `kernel_sizes` reads the vectors, and its maximum over the sentence is taken; all maxima
    together pass a dropout and a dense layer. The convolutions are named `conv3`, `conv4` and so
    on, after their sizes.

    Args:
        length: number of words of a sentence, filled up where it is shorter.
        vocabulary: number of different words, with those for filling up and for unknown words.
        classes: number of outputs, which are logits.
        embedding: length of a word's vector.
        filters: number of channels of each convolution.
        kernel_sizes: tuple of different sizes of the convolutions, none above `length`.
        dropout: share of the maxima that is set to zero in training.

    Returns:
        A `keras.Model` from word numbers `(batch, length)` to `(batch, classes)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import models
    >>> model = models.kim_cnn(
    ...     length=12, vocabulary=50, classes=2, embedding=8, filters=4
    ... )
    >>> tuple(model(np.zeros((1, 12), "int32")).shape)
    (1, 2)

    Reference:
        Kim, "Convolutional Neural Networks for Sentence Classification", 2014; the backbone of
        ButterfLeNet-Text in Roberts et al., "Searching for Convolutions and a More Ambitious NAS",
        2020, section 4.
    """
    length = validation.positive_integer(length, "length")
    vocabulary = validation.positive_integer(vocabulary, "vocabulary")
    classes = validation.positive_integer(classes, "classes")
    embedding = validation.positive_integer(embedding, "embedding")
    filters = validation.positive_integer(filters, "filters")
    _check_sizes(kernel_sizes, length)
    check_dropout(dropout)

    inputs = keras.Input((length,), dtype="int32", name="words")
    vectors = keras.layers.Embedding(
        vocabulary,
        embedding,
        embeddings_initializer=keras.initializers.RandomUniform(-0.25, 0.25),
        name="embedding",
    )(inputs)
    maxima = []
    for size in kernel_sizes:
        x = keras.layers.Conv1D(
            filters, size, activation="relu", data_format="channels_last", name=f"conv{size}"
        )(vectors)
        pool = keras.layers.GlobalMaxPooling1D(data_format="channels_last", name=f"maximum{size}")
        maxima.append(pool(x))
    x = keras.layers.Concatenate(name="maxima")(maxima) if len(maxima) > 1 else maxima[0]
    x = keras.layers.Dropout(dropout, name="dropout")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x), name=name)


def _check_sizes(kernel_sizes, length):
    sizes = kernel_sizes if isinstance(kernel_sizes, (tuple, list)) else ()
    fits = all(validation.is_integer(size) and 0 < size <= length for size in sizes)
    if not sizes or not fits or len(set(sizes)) < len(sizes):
        raise ValueError(
            "`kernel_sizes` must be different positive integers of at most `length`. "
            f"Received: kernel_sizes={kernel_sizes!r}, length={length}"
        )
