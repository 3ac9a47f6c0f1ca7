"""Texts, pairs of texts and images of the Long Range Arena, as sequences, from published files.

- `text`: reviews of the folder `aclImdb` of ai.stanford.edu/~amaas/data/sentiment, class 1 for
  positive ones: files `{train,test}/{neg,pos}/*.txt`.
- `retrieval`: pairs of papers' texts, class 1 where they are equivalent: lines of the class, two
  numbers and two texts with tabs between, in `new_aan_pairs.{train,eval,test}.tsv` of
  github.com/google-research/long-range-arena.
- `image`: CIFAR-10 in grey, one pixel after the other.

Texts are sequences of characters, told apart where the training texts have them often enough.
"""

import collections
import pathlib

import numpy as np

from datasets import images

FILL, END, UNKNOWN = 0, 1, 2
TEXT_LENGTH, RETRIEVAL_LENGTH = 4096, 4000
FEWEST = 15  # times that a character occurs
GREY = np.array([0.299, 0.587, 0.114], "float32")
MEAN, DEVIATION = 122.6 / 255, 61 / 255


def text(data_dir, length=TEXT_LENGTH, subset=None):
    """Return `(train, test, vocabulary)`: pairs of characters `(number, length)` and classes."""
    folder = pathlib.Path(data_dir or ".", "aclImdb")
    parts = []
    for part in ("train", "test"):
        samples = []
        for number, name in enumerate(("neg", "pos")):
            paths = sorted((folder / part / name).glob("*.txt"))[:subset]
            if data_dir is None or not paths:
                raise ValueError(
                    "The folder of the reviews must hold aclImdb/{train,test}/{neg,pos}/*.txt, "
                    "of ai.stanford.edu/~amaas/data/sentiment. "
                    f"Received: data_dir={data_dir!r}, nothing in {part}/{name}"
                )
            samples += [(path.read_text(encoding="utf-8"), number) for path in paths]
        parts.append(samples)
    letters = _letters(line for line, _ in parts[0])
    pairs = [
        (_numbers([line for line, _ in part], letters, length), _classes(part)) for part in parts
    ]
    return *pairs, 3 + len(letters)


def retrieval(data_dir, length=RETRIEVAL_LENGTH, subset=None):
    """Return `(train, validation, test, vocabulary)`: `(number, 2, length)` and classes."""
    parts = []
    for part in ("train", "eval", "test"):
        name = f"new_aan_pairs.{part}.tsv"
        path = pathlib.Path(data_dir or ".", name)
        if data_dir is None or not path.is_file():
            raise ValueError(
                f"The folder of the pairs must hold {name}, of "
                f"github.com/google-research/long-range-arena. Received: data_dir={data_dir!r}"
            )
        samples = []
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                columns = line.rstrip("\n").split("\t")
                if len(columns) != 5 or columns[0] not in ("0", "1", "0.0", "1.0"):
                    raise ValueError(
                        "A line must have a class, 0 or 1, two numbers and two texts, with tabs "
                        f"between. Received: line {number} of {name}, {line[:60]!r}"
                    )
                samples.append((columns[3:], int(float(columns[0]))))
                if number == subset:
                    break
        parts.append(samples)
    letters = _letters(line for pair, _ in parts[0] for line in pair)
    result = []
    for part in parts:
        both = [_numbers([pair[i] for pair, _ in part], letters, length) for i in range(2)]
        result.append((np.stack(both, axis=1), _classes(part)))
    return *result, 3 + len(letters)


def image(data_dir=None, subset=None, size=32):
    """Return `(train, validation, test)`: pairs of grey pixels `(number, size², 1)` and classes.

    With a smaller size than 32 pixels are means of squares.
    """
    if 32 % size:
        raise ValueError(f"`size` must divide 32. Received: size={size!r}")
    parts = []
    for pixels, labels in images.load("cifar10", data_dir, subset):
        grey = images.block_means((pixels @ GREY)[..., None], 32 // size)
        parts.append(((grey.reshape(len(pixels), -1, 1) - MEAN) / DEVIATION, labels))
    return tuple(parts)


def _letters(lines):
    """Return the numbers of the characters that occur often enough."""
    counts = collections.Counter(letter for line in lines for letter in line)
    common = sorted(letter for letter, count in counts.items() if count >= FEWEST)
    return {letter: 3 + number for number, letter in enumerate(common)}


def _numbers(lines, letters, length):
    """Return texts as `(number, length)`: cut, with a mark of their end, filled up by zeros."""
    result = np.full((len(lines), length), FILL, "int32")
    for row, line in zip(result, lines, strict=True):
        found = [letters.get(letter, UNKNOWN) for letter in line[: length - 1]]
        row[: len(found) + 1] = [*found, END]
    return result


def _classes(samples):
    return np.array([label for _, label in samples])
