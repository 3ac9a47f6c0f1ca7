"""Tasks of NAS-Bench-360 on sequences: ECG, Satellite and DeepSEA."""

import csv
import math
import pathlib

import numpy as np

from datasets.nas_bench_360.parts import Part, check_shape, check_subset, find_converted
from datasets.plain_files import check_labels, find, read_arrays, read_matlab

RHYTHMS = ("N", "A", "O", "~")  # normal, atrial fibrillation, other, too noisy
WINDOW = 1000
STRIDES = (500, 83, 250, 25)  # rarer rhythms give more windows
OBSERVATIONS, COVERS = 46, 24
BASES, TRACKS = 1000, 36


def ecg(data_dir, subset=None, seed=0):
    """Return windows of electrocardiograms: three parts, `(1000, 1)`, 4 rhythms.

    Records are those of the PhysioNet Challenge 2017, as it publishes them, or `challenge2017.npz`:
    `samples`, all records one behind the other, `offsets`, where record `i` is
    `samples[offsets[i] : offsets[i + 1]]`, and `labels`, the text "N", "A", "O" or "~" of each. The
    `challenge2017.pkl` of NAS-Bench-360 is a pickle and is not loaded.

    A record is normalized and cut into windows that overlap; the ones of records too short for a
    window are missing. Eight tenths of the records are for training, a tenth each for validation
    and testing, drawn as scikit-learn's `train_test_split` draws them with `random_state=0`.

    Args:
        data_dir: folder of `challenge2017.npz`, or of `REFERENCE-v3.csv` (or `REFERENCE.csv`) and
            of `training2017` (or of the records themselves) with a `.mat` file for each record.
        subset: use at most this many records of each part.
        seed: not used; all loaders take it.

    Returns:
        Three `Part`s, whose groups are the records.

    Raises:
        ValueError: if files are missing or hold something else, or a part has no window.
    """
    check_subset(subset)
    folder = pathlib.Path(data_dir or ".")
    tables = [folder / name for name in ("REFERENCE-v3.csv", "REFERENCE.csv")]
    tables += [folder / "training2017" / "REFERENCE.csv"]
    table = next((path for path in tables if data_dir and path.is_file()), None)
    if table is None:
        path = find_converted(
            data_dir, "challenge2017.npz", "ECG, without REFERENCE-v3.csv,", "challenge2017.pkl"
        )
        records, names = _records_of_arrays(path)
    else:
        records, names = _published_records(folder, table)
    unknown = sorted(set(names) - set(RHYTHMS))
    if unknown:
        raise ValueError(f"Rhythms must be of {RHYTHMS}. Received: {', '.join(unknown)}")
    labels = np.array([RHYTHMS.index(name) for name in names], int)
    train, others = split(len(records), 0.2)
    validation, test = (others[places] for places in split(len(others), 0.5))
    return tuple(_windows(records, labels, chosen[:subset]) for chosen in (train, validation, test))


def split(number, fraction):
    """Return the places of scikit-learn's `train_test_split` with `random_state=0`."""
    order = np.random.RandomState(0).permutation(number)
    last = math.ceil(fraction * number)
    if not 0 < last < number:
        raise ValueError(
            f"There must be enough records to set {fraction:g} of them apart. Received: {number}"
        )
    return order[last:], order[:last]


def satellite(data_dir, subset=None, seed=0):
    """Return series of satellite images: three parts, `(46, 1)`, 24 kinds of land cover.

    The published `satellite_train.npy` and `satellite_test.npy` hold pickled dictionaries and are
    not loaded. `satellite_train.npz` and `satellite_test.npz` hold what is in them: `data`,
    `(number, 46)`, and `label`, from 1 to 24.

    Args:
        data_dir: folder of the two files.
        subset: use at most this many series of each part.
        seed: not used; all loaders take it.

    Returns:
        Three `Part`s of series of mean 0 and standard deviation 1. Validation series are the last
        of the training file, as many as there are test series.

    Raises:
        ValueError: if a file is missing or holds something else.
    """
    check_subset(subset)
    found = []
    for part in ("train", "test"):
        name = f"satellite_{part}.npz"
        path = find_converted(data_dir, name, "Satellite", f"satellite_{part}.npy")
        series, labels = read_arrays(path, ("data", "label"))
        check_shape(series, (OBSERVATIONS,), name)
        labels = np.subtract(labels, 1, dtype="float64")
        found.append((series, check_labels(labels, len(series), COVERS, name)))
    (series, labels), (test_series, test_labels) = found
    border = len(series) - len(test_series)
    if border < 1:
        raise ValueError(
            "There must be more series for training than for testing, as so many are set apart for "
            f"validation. Received: {len(series)} and {len(test_series)}"
        )
    parts = (
        (series[:border], labels[:border]),
        (series[border:], labels[border:]),
        (test_series, test_labels),
    )
    return tuple(
        Part(normalize(inputs[:subset])[..., None], outputs[:subset]) for inputs, outputs in parts
    )


def deepsea(data_dir, subset=None, seed=0):
    """Return DNA sequences and 36 chromatin features: three parts, `(1000, 4)`, zeros and ones.

    Args:
        data_dir: folder of `deepsea_filtered.npz`, which holds `x_train`, `y_train`, and the same
            with `val` and `test`: sequences `(number, 1000, 4)`, labels `(number, 36)`.
        subset, seed: as of `satellite`.

    Returns:
        Three `Part`s; sequences keep the file's type.

    Raises:
        ValueError: if the file is missing or holds something else.
    """
    check_subset(subset)
    name = "deepsea_filtered.npz"
    path = find(data_dir, name, "DeepSEA")
    result = []
    for part in ("train", "val", "test"):
        sequences, labels = read_arrays(path, (f"x_{part}", f"y_{part}"))
        check_shape(sequences, (BASES, 4), f"x_{part} in {name}")
        check_shape(labels, (TRACKS,), f"y_{part} in {name}")
        if len(sequences) != len(labels) or not np.isin(labels, (0, 1)).all():
            raise ValueError(
                f"y_{part} in {name} must hold zeros and ones for each sequence. Received: "
                f"{len(sequences)} sequences, {len(labels)} labels from {labels.min()} to "
                f"{labels.max()}"
            )
        result.append(Part(sequences[:subset], labels[:subset].astype("float32")))
    return tuple(result)


def normalize(series):
    """Return series of mean 0 and standard deviation 1 along the last axis; constant ones are 0."""
    series = np.asarray(series, "float32")
    centered = series - series.mean(axis=-1, keepdims=True)
    deviation = series.std(axis=-1, keepdims=True)
    return centered / np.where(deviation > 0, deviation, 1)


def _records_of_arrays(path):
    samples, offsets, labels = read_arrays(path, ("samples", "offsets", "labels"))
    rising = offsets.ndim == 1 and len(offsets) > 1 and np.all(np.diff(offsets) > 0)
    whole = rising and offsets[0] == 0 and offsets[-1] == len(samples)
    if samples.ndim != 1 or not whole or len(labels) != len(offsets) - 1:
        raise ValueError(
            f"{path.name} must hold the samples of all records, the borders of the records from 0 "
            f"to the number of samples, and a label for each. Received: samples of shape "
            f"{samples.shape}, {offsets.size} borders, {labels.size} labels"
        )
    return np.split(samples, offsets[1:-1]), [str(label) for label in labels]


def _published_records(folder, table):
    with open(table, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    records, names = [], []
    for row in rows:
        if len(row) != 2:
            raise ValueError(
                f"A line of {table.name} must hold a record and its rhythm. Received: {row}"
            )
        places = [folder / "training2017", folder, table.parent]
        paths = [place / f"{row[0]}.mat" for place in places]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise ValueError(
                f"There must be a file for each record of {table.name}. Received: data_dir="
                f"{str(folder)!r}, which lacks {row[0]}.mat"
            )
        records.append(np.ravel(read_matlab(path, "val")))
        names.append(row[1].strip())
    return records, names


def _windows(records, labels, chosen):
    """Return the windows of the chosen records; groups number the records."""
    inputs, outputs, groups = [], [], []
    for index in chosen:
        record = normalize(records[index])
        for start in range(0, len(record) - WINDOW, STRIDES[labels[index]]):
            inputs.append(record[start : start + WINDOW])
            outputs.append(labels[index])
            groups.append(index)
    if not inputs:
        raise ValueError(
            f"Each part needs a record of more than {WINDOW} samples. Received: {len(chosen)} "
            f"records, the longest of {max(len(records[index]) for index in chosen)} samples"
        )
    return Part(np.stack(inputs)[..., None], np.array(outputs), groups=np.array(groups))
