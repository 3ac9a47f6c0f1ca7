"""Sentences to classify: movie reviews (MR), questions (TREC) and sentiments (SST-2).

They are read from text files, a sentence on each line after the number of its class; nothing is
downloaded and nothing is written.
"""

import dataclasses
import os
import pathlib

import numpy as np

VARIABLE = "KERAS_XD_DATA_DIR"
FILES = {
    "mr": ("text_mr.txt",),
    "trec": ("text_trec_train.txt", "text_trec_test.txt"),
    "sst2": ("text_sst2_train.txt", "text_sst2_dev.txt", "text_sst2_test.txt"),
}
FILL, UNKNOWN = 0, 1
SHORTEST = 5  # words, so that the largest kernel of Kim's network fits


@dataclasses.dataclass(frozen=True)
class Sentences:
    """A data set of sentences as numbers of their words.

    Attributes:
        train, validation, test: pairs of an int32 array `(number, length)`, filled up behind each
            sentence by 0, and an integer array of classes.
        words: list of the words by number; the first two stand for filling up and for words that
            the training sentences do not have.
        classes: number of classes.
    """

    train: tuple
    validation: tuple
    test: tuple
    words: list
    classes: int

    @property
    def length(self):
        """Number of words of a sentence, filled up."""
        return self.train[0].shape[1]


def load(name, data_dir=None, seed=0, subset=None):
    """Return one data set; the vocabulary and the length are those of the training sentences.

    Words are told apart without regard to case. Longer sentences of the other parts are cut. A
    tenth of the sentences that no file sets apart is drawn by the seed for validation, and for MR,
    which has no test sentences, another tenth for testing.

    Args:
        name: `"mr"`, `"trec"` or `"sst2"`.
        data_dir: folder of the files, or `None` for the one that the environment variable
            `KERAS_XD_DATA_DIR` names: `text_mr.txt`; `text_trec_train.txt`, `text_trec_test.txt`;
            `text_sst2_train.txt`, `text_sst2_dev.txt`, `text_sst2_test.txt`.
        seed: integer that the drawn parts follow from.
        subset: use at most this many sentences of each part.

    Returns:
        `Sentences`.

    Raises:
        ValueError: if the name is unknown, `subset` is not positive, a file is missing or a line is
            of another form.
    """
    if name not in FILES:
        raise ValueError(f"`name` must be one of {tuple(FILES)}. Received: name={name!r}")
    if subset is not None and subset < 1:
        raise ValueError(f"`subset` must be at least 1. Received: subset={subset!r}")
    folder = data_dir or os.environ.get(VARIABLE)
    parts = [_read(_found(folder, file)) for file in FILES[name]]
    rng = np.random.default_rng(seed)
    train, *others = parts
    if len(others) < 2:
        train = [train[index] for index in rng.permutation(len(train))]
    tenth = max(1, len(train) // 10)
    while len(others) < 2:  # first for testing, where that is missing, then for validation
        others.insert(0, train[:tenth])
        train = train[tenth:]
    parts = [part[:subset] for part in (train, *others)]
    words = dict.fromkeys(word for _, words in parts[0] for word in words)
    numbers = {word: UNKNOWN + 1 + index for index, word in enumerate(words)}
    length = max(SHORTEST, *(len(words) for _, words in parts[0]))
    return Sentences(
        *(_encoded(part, numbers, length) for part in parts),
        words=["<fill>", "<unknown>", *numbers],
        classes=1 + max(label for part in parts for label, _ in part),
    )


def _found(folder, file):
    path = pathlib.Path(folder or ".", file)
    if not folder or not path.is_file():
        raise ValueError(
            f"Sentences are needed as {file} in a folder that `data_dir` or {VARIABLE} names, each "
            "line the number of a class and the words, separated by single spaces. "
            f"Received: {folder!r}"
        )
    return path


def _read(path):
    """Return a list of `(class, words)`."""
    sentences = []
    # Only "\n" ends a line: sentences may hold other separators that `splitlines` would break at.
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        label, *words = [word for word in line.lower().split(" ") if word] or [""]
        if not words and not label:
            continue
        if not words or not label.isascii() or not label.isdecimal():
            raise ValueError(
                "A line must hold the number of a class and words. "
                f"Received: {line[:60]!r}, line {number} of {path.name}"
            )
        sentences.append((int(label), words))
    if not sentences:
        raise ValueError(f"A file must hold sentences. Received: {path.name}, which is empty")
    return sentences


def _encoded(sentences, numbers, length):
    """Return the numbers of the words, and the classes."""
    encoded = np.full((len(sentences), length), FILL, "int32")
    for row, (_, words) in zip(encoded, sentences, strict=True):
        found = [numbers.get(word, UNKNOWN) for word in words[:length]]
        row[: len(found)] = found
    return encoded, np.array([label for label, _ in sentences])
