"""The task of NAS-Bench-360 that tells sounds: FSD50K as mel spectrograms of one second."""

import csv
import functools
import json
import pathlib

import numpy as np
from scipy import fft

from datasets.nas_bench_360.parts import FileArray, Part, check_subset
from datasets.plain_files import find

RATE = 22_050  # samples a second
BANDS, FRAMES = 96, 101
SIZE, WINDOW, HOP = 1920, 661, 220  # of the transform, samples: 30 and 10 ms
SMALLEST, RANGE, SHIFT = 1e-10, 80.0, 75.0  # power; decibels
PLACES = ("", "chunks", "data/chunks")


def fsd50k(data_dir, subset=None, seed=0):
    """Return sounds: three parts, `(96, 101, 1)`, 200 labels that are zeros and ones.

    A sample is a chunk of a clip. Of each training clip the seed draws one chunk; of the others
    there are all, whose groups are the clips. Spectrograms are computed when they are indexed. The
    benchmark's augmentation, noise and masks, is left out.

    Args:
        data_dir: folder of `tr.csv`, `val.csv`, `eval.csv` and `lbl_map.json`, or of `chunks` or
            `data/chunks` with them. The tables have the columns `files`, `labels`, separated by
            commas, and `ext`, the clip; `.wav` files are found by their names below `data_dir`:
            mono, 22,050 samples a second. The map tells the number of each label.
        subset: use at most this many clips of each part.
        seed: what the chunks of the training clips follow from.

    Returns:
        Three `Part`s, whose inputs are `FileArray`s.

    Raises:
        ValueError: if files are missing or hold something else.
    """
    check_subset(subset)
    root = pathlib.Path(data_dir or ".")
    place = next((p for p in PLACES if data_dir and (root / p / "tr.csv").is_file()), "")
    folder = None if data_dir is None else root / place
    tables = [find(folder, f"{part}.csv", "FSD50K") for part in ("tr", "val", "eval")]
    numbers = _label_numbers(find(folder, "lbl_map.json", "FSD50K"))
    sounds = _files_by_name(root)
    rng = np.random.default_rng(seed)
    result = []
    for table in tables:
        clips = _clips(table, numbers, sounds)
        clips = list(clips.values())[:subset]
        if not result:
            clips = [([paths[rng.integers(len(paths))]], labels) for paths, labels in clips]
        entries = [
            (path, labels, group) for group, (paths, labels) in enumerate(clips) for path in paths
        ]
        paths, labels, groups = zip(*entries, strict=True)
        inputs = FileArray(paths, _read)
        result.append(Part(inputs, np.stack(labels), groups=np.array(groups)))
    return tuple(result)


def mel_spectrogram(sound):
    """Return the power of a sound in 96 bands, in decibels, less their mean.

    Frames are 30 ms wide and 10 ms apart, the first around the first sample; both ends of the sound
    are mirrored. Power below 80 dB less than the largest counts as that much.

    Args:
        sound: array of samples from -1 to 1.

    Returns:
        A float32 array `(96, frames)`.
    """
    mirrored = np.pad(sound, SIZE // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(mirrored, SIZE)[::HOP]
    power = np.abs(fft.rfft(frames * _window(), axis=-1)) ** 2
    decibels = 10 * np.log10(np.maximum(filters() @ power.T, SMALLEST))
    decibels = np.maximum(decibels, decibels.max() - RANGE) + SHIFT
    return (decibels - decibels.mean()).astype("float32")


@functools.cache
def filters():
    """Return the weights of the frequencies in each band: triangles, evenly spaced in mel."""
    highest = 2595 * np.log10(1 + RATE / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, highest, BANDS + 2) / 2595) - 1)
    frequencies = np.linspace(0, RATE / 2, SIZE // 2 + 1)
    widths = np.diff(corners)[:, None]
    rising = (frequencies - corners[:-2, None]) / widths[:-1]
    falling = (corners[2:, None] - frequencies) / widths[1:]
    return np.maximum(0, np.minimum(rising, falling))


def fit(spectrogram, frames=FRAMES):
    """Return a spectrogram of so many frames: filled on both sides by its minimum, or cut."""
    missing = max(0, frames - spectrogram.shape[1])
    sides = (missing // 2, missing - missing // 2)
    filled = np.pad(spectrogram, [(0, 0), sides], constant_values=spectrogram.min())
    return filled[:, :frames]


@functools.cache
def _window():
    """Return a periodic Hann window in the middle of the transform's size."""
    window = np.sin(np.pi * np.arange(WINDOW) / WINDOW) ** 2
    left = (SIZE - WINDOW) // 2
    return np.pad(window, (left, SIZE - WINDOW - left))


def _read(path):
    from scipy.io import wavfile

    try:
        rate, samples = wavfile.read(path)
    except ValueError as error:
        raise ValueError(f"Sounds must be WAV files. Received: {path.name} ({error})") from error
    if rate != RATE or samples.ndim != 1 or not len(samples):
        raise ValueError(
            f"Sounds must be mono with {RATE} samples a second. Received: {path.name} of shape "
            f"{samples.shape} with {rate}"
        )
    if samples.dtype.kind == "u":
        sound = (samples.astype("float32") - 128) / 128
    elif samples.dtype.kind == "i":
        sound = samples.astype("float32") / -float(np.iinfo(samples.dtype).min)
    else:
        sound = samples.astype("float32")
    sound = np.tile(sound, -(-RATE // len(sound)))[: max(RATE, len(sound))]
    return fit(mel_spectrogram(sound))[..., None]


def _label_numbers(path):
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        fits = sorted(numbers.values()) == list(range(len(numbers))) and len(numbers) > 0
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path.name} must hold a JSON object. Received: {error}") from error
    if not fits:
        raise ValueError(
            f"{path.name} must number the labels from 0 on. Received: {len(numbers)} labels with "
            f"the numbers {sorted(numbers.values())[:5]}, …"
        )
    return numbers


def _files_by_name(root):
    """Return the `.wav` files below a folder by their names; `None` for a name of several."""
    found = {}
    for path in sorted(root.rglob("*.wav")):
        found[path.name] = None if path.name in found else path
    return found


def _clips(table, numbers, sounds):
    """Return for each clip of a table the paths of its chunks and its labels."""
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"files", "labels", "ext"} <= set(rows[0]):
        raise ValueError(
            f"{table.name} must have the columns files, labels and ext, and lines. Received: "
            f"{list(rows[0]) if rows else 'no lines'}"
        )
    clips = {}
    for row in rows:
        name = pathlib.PurePosixPath(row["files"].replace("\\", "/")).name
        if sounds.get(name) is None:
            raise ValueError(
                f"There must be one file of each name in {table.name} below the data folder. "
                f"Received: {name}, {'several' if name in sounds else 'none'}"
            )
        labels = np.zeros(len(numbers), "float32")
        for label in row["labels"].split(","):
            if label not in numbers:
                raise ValueError(
                    f"Labels must be in lbl_map.json. Received: {label!r} in {table.name}"
                )
            labels[numbers[label]] = 1
        clips.setdefault(row["ext"], ([], labels))[0].append(sounds[name])
    return clips
