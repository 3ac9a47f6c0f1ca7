"""The Penn Treebank as characters: each is to be told from those before it.

The words are read from files; nothing is downloaded and nothing is written.
"""

import os
import pathlib

import numpy as np

VARIABLE = "KERAS_XD_DATA_DIR"
FILES = ("ptb_words.npz", "ptb_vocab.txt")
PARTS = ("train", "valid", "test")


def load(data_dir=None, length=64, subset=None):
    """Return pieces of the text for training, validation and testing.

    Args:
        data_dir: folder of the files, or `None` for the one that the environment variable
            `KERAS_XD_DATA_DIR` names. `ptb_words.npz` holds for each of the parts `train`, `valid`
            and `test` the numbers of its words, which the lines of `ptb_vocab.txt` are, from 0 on.
        length: characters of a piece.
        subset: use at most so many pieces of each part.

    Returns:
        Three pairs of int32 arrays `(pieces, length)`: characters, and those that follow them; and
        the number of characters that there are. Number 0 stands for those that the training text
        does not have.

    Raises:
        ValueError: if a file is missing or holds something else, or a part is shorter than a piece.
    """
    folder = data_dir or os.environ.get(VARIABLE)
    paths = [pathlib.Path(folder or ".", name) for name in FILES]
    if not folder or not all(path.is_file() for path in paths):
        raise ValueError(
            f"The words of the Penn Treebank are needed as {' and '.join(FILES)} in a folder that "
            f"`data_dir` or {VARIABLE} names. Received: {folder!r}"
        )
    words = paths[1].read_text(encoding="utf-8").split("\n")
    needed, texts = 1 + length * (subset or 10**9), []
    with np.load(paths[0], allow_pickle=False) as arrays:
        for part in PARTS:
            numbers = arrays[part]
            if numbers.ndim != 1 or not len(numbers) or numbers.max() >= len(words):
                raise ValueError(
                    f"{FILES[0]} must hold numbers of the words of {FILES[1]}. Received: "
                    f"{part} of shape {numbers.shape}, and {len(words)} words"
                )
            # A word and the space behind it are two characters or more.
            texts.append(" ".join(words[number] for number in numbers[:needed])[:needed])
    letters = {letter: 1 + index for index, letter in enumerate(sorted(set(texts[0])))}
    return [_pieces(text, letters, length) for text in texts], 1 + len(letters)


def _pieces(text, letters, length):
    count = (len(text) - 1) // length
    if not count:
        raise ValueError(
            f"A part must have more characters than a piece. Received: {len(text)} characters, "
            f"length={length}"
        )
    numbers = np.array([letters.get(letter, 0) for letter in text], "int32")
    pieces = [numbers[shift : shift + count * length].reshape(count, length) for shift in (0, 1)]
    return tuple(pieces)
