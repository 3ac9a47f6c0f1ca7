"""Sentences to classify: movie and product reviews (MR, CR), subjectivity (Subj), opinions (MPQA),
questions (TREC), and sentiments in five and in two classes (SST-1, SST-2).

A line of the text files is the number of a class and the words, separated by single spaces.
Vectors of words are read from files in the text format of word2vec and GloVe: a word and its
numbers on each line.
"""

import dataclasses
import pathlib

import numpy as np

from datasets.plain_files import check_subset, find_shared

FILES = {
    "mr": ("text_mr.txt",),
    "trec": ("text_trec_train.txt", "text_trec_test.txt"),
    "sst2": ("text_sst2_train.txt", "text_sst2_dev.txt", "text_sst2_test.txt"),
    "sst1": ("text_sst1_train.txt", "text_sst1_dev.txt", "text_sst1_test.txt"),
    "subj": ("text_subj.txt",),
    "cr": ("text_cr.txt",),
    "mpqa": ("text_mpqa.txt",),
}
FILL, UNKNOWN = 0, 1
SHORTEST = 5  # words, so that the largest kernel of Kim's network fits


@dataclasses.dataclass(frozen=True)
class Sentences:
    """Pairs of word numbers, `(number, length)` filled up by 0, and classes; words by number."""

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
    tenth of the sentences that no file sets apart is drawn by the seed for validation, and where
    there is one file only (MR, CR, Subj, MPQA), another tenth for testing.
    """
    if name not in FILES:
        raise ValueError(f"`name` must be one of {tuple(FILES)}. Received: name={name!r}")
    check_subset(subset)
    train, *others = (_read(find_shared(data_dir, file, "sentences")) for file in FILES[name])
    if len(others) < 2:
        train = [train[index] for index in np.random.default_rng(seed).permutation(len(train))]
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


def vectors(path, words, size=300, seed=0):
    """Return vectors `(words, size)` from a file, drawn from ±0.25 where it has none."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(
            "The vectors must be a file of words with their numbers, such as glove.6B.300d.txt of "
            f"nlp.stanford.edu/projects/glove. Received: path={str(path)!r}"
        )
    matrix = np.random.default_rng(seed).uniform(-0.25, 0.25, (len(words), size)).astype("float32")
    numbers = {word: number for number, word in enumerate(words)}
    found = 0
    with path.open(encoding="utf-8") as lines:
        for count, line in enumerate(lines, start=1):
            word, *values = line.rstrip().split(" ")
            if count == 1 and len(values) == 1:
                continue  # word2vec's number of words and size
            if len(values) != size:
                raise ValueError(
                    f"A line must have a word and {size} numbers. Received: {line[:60]!r}, line "
                    f"{count} of {path.name}"
                )
            if word in numbers:
                matrix[numbers[word]] = np.array(values, "float32")
                found += 1
    if not found:
        raise ValueError(
            "The vectors must be of words that the sentences have. Received: "
            f"{path.name} with none of {len(words)} words"
        )
    matrix[FILL] = 0
    return matrix


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
