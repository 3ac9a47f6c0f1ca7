"""Tasks of NAS-Bench-360 on sequences: ECG, Satellite and DeepSEA."""

import csv
import math
import pathlib

import numpy as np

from datasets.nas_bench_360.parts import Part
from datasets.plain_files import (
    check_labels,
    check_shape,
    find,
    find_converted,
    read_arrays,
    read_matlab,
)

RHYTHMS = ("N", "A", "O", "~")  # normal, atrial fibrillation, other, too noisy
WINDOW = 1000
STRIDES = (500, 83, 250, 25)  # rarer rhythms give more windows
OBSERVATIONS, COVERS = 46, 24
BASES, TRACKS = 1000, 36


def ecg(data_dir, subset=None, seed=0):
    """Return windows of electrocardiograms: three parts, `(1000, 1)`, 4 rhythms.

    Eight tenths of the records are for training, a tenth each for validation and testing, which are
    the groups. Records too short for a window are missing.
    """
    folder = pathlib.Path(data_dir or ".")
    names = ("REFERENCE-v3.csv", "REFERENCE.csv", "training2017/REFERENCE.csv")
    tables = [folder / name for name in names]
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
    """Return normalized series of satellites: three parts, `(46, 1)`, 24 kinds of land cover."""
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
    parts = [(series[own], labels[own]) for own in (slice(border), slice(border, None))]
    return tuple(
        Part(normalize(inputs[:subset])[..., None], outputs[:subset])
        for inputs, outputs in (*parts, (test_series, test_labels))
    )


def deepsea(data_dir, subset=None, seed=0):
    """Return DNA sequences and 36 chromatin features: three parts, `(1000, 4)`, zeros and ones."""
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
    whole = np.all(np.diff(offsets) > 0) and offsets[0] == 0 and offsets[-1] == len(samples)
    if not whole or len(labels) != len(offsets) - 1:
        raise ValueError(
            f"{path.name} must hold the samples of all records, the borders of the records from 0 "
            f"to the number of samples, and a label for each. Received: {len(samples)} samples, "
            f"{offsets.size} borders, {labels.size} labels"
        )
    return np.split(samples, offsets[1:-1]), [str(label) for label in labels]


def _published_records(folder, table):
    with open(table, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    records, names = [], []
    for record, rhythm in rows:
        places = [folder / "training2017", folder, table.parent]
        paths = [place / f"{record}.mat" for place in places]
        path = next((path for path in paths if path.is_file()), paths[0])
        records.append(np.ravel(read_matlab(path, "val")))
        names.append(rhythm.strip())
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
