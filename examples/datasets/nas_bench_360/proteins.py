"""The task of NAS-Bench-360 that folds proteins: distances of residues of DeepCov and PSICOV."""

import pathlib

import numpy as np

from datasets.nas_bench_360.parts import FileArray, Part, split_off
from datasets.plain_files import find, find_converted, read_arrays

CHANNELS = 57
WINDOW, TEST_WINDOW = 128, 512
BORDER = 5  # zeros before a protein
CLIP = 16.0  # Angstrom; largest distance in training
FAR = 100.0  # what distances outside of a protein are
VALIDATION = 100
# Rows of `sequence` features, each of which makes two channels, and matrices, one each.
ROWS = {"ss": 3, "pssm": 22, "sa": 1, "entropy": 1}
MATRICES = ("ccmpred", "freecon", "potential")


def psicov(data_dir, subset=None, seed=0):
    """Return proteins: three parts, from `(128, 128, 57)` to `(128, 128, 1)`, 512 in the last.

    Samples are read when they are indexed. In training and validation distances are at most 16
    Angstrom, and larger proteins are cropped at places drawn by the seed.
    """
    train = _names(data_dir, "deepcov")
    share = VALIDATION / len(train) if len(train) >= 10 * VALIDATION else 0.1
    kept, others = split_off(len(train), share)
    count = others.stop - others.start
    parts = [
        _cropped(data_dir, "deepcov", names[:subset], (seed, part))
        for part, names in enumerate((train[count:], train[:count]))
    ]
    folder = pathlib.Path(data_dir)
    tests = [("psicov", name) for name in _names(data_dir, "psicov")[:subset]]
    lengths = np.array([len(_protein(folder, *test)["sa"]) for test in tests])
    if lengths.max() > TEST_WINDOW - 2 * BORDER:
        raise ValueError(
            f"Proteins for testing must have at most {TEST_WINDOW - 2 * BORDER} residues. "
            f"Received: {lengths.max()} residues in {tests[lengths.argmax()][1]}.npz"
        )

    def inputs(test):
        return _placed(channels(_protein(folder, *test)), TEST_WINDOW, 0.0)

    def outputs(test):
        return _placed(distances(_protein(folder, *test)), TEST_WINDOW, FAR)

    parts.append(Part(FileArray(tests, inputs), FileArray(tests, outputs), lengths=lengths))
    return tuple(parts)


def channels(protein):
    """Return what is known of pairs of residues, second one first, `(residues, residues, 57)`."""
    rows = [protein["ss"], protein["pssm"].T, protein["sa"][None], protein["entropy"][None]]
    length = len(protein["sa"])
    pairs = []
    for row in np.concatenate(rows):
        second = np.broadcast_to(row, (length, length))
        pairs += [second, second.T]
    pairs += [protein[name] for name in MATRICES]
    return np.nan_to_num(np.stack(pairs, axis=-1).astype("float32"))


def distances(protein):
    """Return distances of at least 1; on the diagonal the mean of the neighbours in the row."""
    found = np.maximum(np.asarray(protein["distance"], "float32"), 1.0)
    places = np.arange(len(found))
    before, after = found[places, places - 1], found[places, (places + 1) % len(found)]
    before[0], after[-1] = after[0], before[-1]
    found[places, places] = (before + after) / 2
    return np.nan_to_num(found)[..., None]


def window_of(maps, length):
    """Return the part of a predicted or expected test map that is the protein."""
    return maps[BORDER : BORDER + length, BORDER : BORDER + length, 0]


def _cropped(data_dir, group, names, seed):
    """Return a part of proteins that are cropped to the window."""
    folder = pathlib.Path(data_dir)
    entries = [(name, (*seed, index)) for index, name in enumerate(names)]

    def crop(field, fill, seed):
        padded = _placed(field, max(WINDOW, len(field) + 2 * BORDER), fill)
        rng = np.random.default_rng(seed)
        row, column = rng.integers(len(padded) - WINDOW + 1, size=2)
        return padded[row : row + WINDOW, column : column + WINDOW]

    def inputs(entry):
        return crop(channels(_protein(folder, group, entry[0])), 0.0, entry[1])

    def outputs(entry):
        return np.minimum(crop(distances(_protein(folder, group, entry[0])), FAR, entry[1]), CLIP)

    return Part(FileArray(entries, inputs), FileArray(entries, outputs))


def _placed(field, size, fill):
    """Return a field in a larger square, behind the border."""
    result = np.full((size, size, field.shape[-1]), fill, "float32")
    end = BORDER + len(field)
    result[BORDER:end, BORDER:end] = field
    return result


def _names(data_dir, group):
    path = find(data_dir, f"{group}.lst", "PSICOV")
    lines = path.read_text(encoding="utf-8").splitlines()
    names = [line.split()[0] for line in lines if line.strip()]
    if not names:
        raise ValueError(f"A list must name proteins. Received: {path.name}, which is empty")
    return names


def _protein(folder, group, name):
    """Return the arrays of a protein by their names."""
    file = f"{group}/proteins/{name}.npz"
    published = f"{group}/features/{name}.pkl", f"{group}/distance/{name}-cb.npy"
    path = find_converted(folder, file, "A protein", *published)
    names = (*ROWS, *MATRICES, "distance")
    protein = dict(zip(names, read_arrays(path, names), strict=True))
    length = protein["sa"].size
    expected = {
        "ss": (3, length),
        "pssm": (length, 22),
        "sa": (length,),
        "entropy": (length,),
        **{name: (length, length) for name in (*MATRICES, "distance")},
    }
    wrong = {key: protein[key].shape for key in names if protein[key].shape != expected[key]}
    if wrong or length < 2:
        raise ValueError(
            f"The arrays of a protein must be of the shapes {expected}. Received: {wrong or length}"
            f" in {path.name}"
        )
    return protein
