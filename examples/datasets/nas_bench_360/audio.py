"""The task of NAS-Bench-360 that tells sounds: FSD50K as mel spectrograms of one second."""

import csv
import functools
import json
import pathlib

import numpy as np
from scipy import fft
from scipy.io import wavfile

from datasets.nas_bench_360.parts import FileArray, Part
from datasets.plain_files import find

RATE = 22_050  # samples a second
BANDS, FRAMES = 96, 101
SIZE, WINDOW, HOP = 1920, 661, 220  # of the transform, samples: 30 and 10 ms
SMALLEST, RANGE, SHIFT = 1e-10, 80.0, 75.0  # power; decibels
PLACES = ("", "chunks", "data/chunks")


def fsd50k(data_dir, subset=None, seed=0):
    """Return sounds: three parts, `(96, 101, 1)`, 200 labels that are zeros and ones.

    A sample is a chunk of a clip, read when it is indexed: one of each training clip, drawn by the
    seed, and all of the others, whose groups are the clips.
    """
    root = pathlib.Path(data_dir or ".")
    place = next((p for p in PLACES if data_dir and (root / p / "tr.csv").is_file()), "")
    folder = None if data_dir is None else root / place
    tables = [find(folder, f"{part}.csv", "FSD50K") for part in ("tr", "val", "eval")]
    numbers = json.loads(find(folder, "lbl_map.json", "FSD50K").read_text(encoding="utf-8"))
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
    rate, samples = wavfile.read(path)
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
            labels[numbers[label]] = 1
        clips.setdefault(row["ext"], ([], labels))[0].append(sounds[name])
    return clips
