"""Time series from files of the format `.ts`, in which the UCR and UEA archives are published.

Each line after `@data` is a series: channels between colons, their steps between commas, last the
class or the value to predict. `?` is missing. Times of steps are checked to increase and left out.
aeon bundles files, in the folder `aeon/datasets/data` of its wheel; the archives are at
timeseriesclassification.com.
"""

import math
import pathlib
import re
import typing

import numpy as np

FLAGS = ("timestamps", "missing", "univariate", "equallength", "targetlabel")
SIZES = ("dimension", "dimensions", "serieslength")
PAIR = re.compile(r"\(([^()]*),([^(),]*)\)")  # of a time and a value
COLON = re.compile(r":(?![^()]*\))")  # but those of times


class Series(typing.NamedTuple):
    """What a file holds.

    Attributes:
        values: list of float32 arrays `(steps, channels)`; missing values are NaN.
        targets: int64 classes, as indices of `classes`; float32 values; or `None`.
        classes: names of the classes, sorted; empty if there are none.
    """

    values: list
    targets: np.ndarray | None
    classes: tuple


def read_ts(path):
    """Return the `Series` of a `.ts` file."""
    path = pathlib.Path(path)
    header, values, targets = None, [], []
    tags = {}
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            line = line.strip()
            if not line or line[0] in "#%":
                continue
            try:
                if header is None:
                    header = _read_tag(line, tags)
                    continue
                series, target = _read_sample(line, header)
                if values and series.shape[1] != values[0].shape[1]:
                    raise ValueError(f"{series.shape[1]} channels after {values[0].shape[1]}")
                if values and header.get("equallength") and len(series) != len(values[0]):
                    raise ValueError(f"{len(series)} steps after {len(values[0])}")
            except ValueError as error:
                raise ValueError(
                    f"A .ts file must be as its header says. Received: {path}, line {number}: "
                    f"{error}"
                ) from error
            values.append(series)
            targets.append(target)
    if not values:
        raise ValueError(f"A .ts file must have lines of data after `@data`. Received: {path}")
    classes = header["classlabel"]
    if classes:
        return Series(values, np.array([classes.index(target) for target in targets]), classes)
    return Series(values, np.array(targets, "float32") if header["targetlabel"] else None, ())


def _read_tag(line, tags):
    """Enter a line of the header into `tags`; return them all at `@data`, `None` before."""
    key, *words = line.split()
    key = key.lower()
    if key[0] != "@":
        raise ValueError(f"`@data` must come before {line[:40]!r}")
    name = key[1:]
    if name == "data":
        return {"classlabel": (), **dict.fromkeys(FLAGS, False), **tags}
    if name == "classlabel" or name in FLAGS:
        if not words or words[0].lower() not in ("true", "false"):
            raise ValueError(f"{key} must be true or false, not {' '.join(words)!r}")
        holds = words[0].lower() == "true"
        if name == "classlabel":
            if holds and len(set(words[1:])) < max(1, len(words[1:])):
                raise ValueError(f"{key} true must be followed by different classes")
            holds = tuple(sorted(words[1:])) if holds else ()
        tags[name] = holds
    elif name in SIZES:
        if len(words) != 1 or not words[0].isdecimal():
            raise ValueError(f"{key} must be a number, not {' '.join(words)!r}")
        tags[name.rstrip("s") if name == "dimensions" else name] = int(words[0])
    return None


def _read_sample(line, header):
    """Return a series `(steps, channels)` and its target."""
    channels, target = [part.strip() for part in COLON.split(line)], None
    if header["classlabel"] or header["targetlabel"]:
        target = channels.pop()
    if header["targetlabel"]:
        target = _number(target)
        if math.isnan(target):
            raise ValueError("the value to predict is missing")
    elif header["classlabel"] and target not in header["classlabel"]:
        raise ValueError(f"{target!r} is none of the classes {' '.join(header['classlabel'])}")
    wanted = header.get("dimension") or (1 if header["univariate"] else len(channels))
    if len(channels) != wanted or not channels:
        raise ValueError(f"{len(channels)} channels, not {wanted}")
    rows = [_steps(channel, header["timestamps"]) for channel in channels]
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise ValueError(f"channels of {' and '.join(map(str, sorted(lengths)))} steps")
    wanted = header["equallength"] and header.get("serieslength")
    if wanted and lengths != {wanted}:
        raise ValueError(f"{lengths.pop()} steps, not {wanted}")
    series = np.array(rows, "float32").T
    if not header["missing"] and np.isnan(series).any():
        raise ValueError("a value is missing, and the header has no `@missing true`")
    return series, target


def _steps(channel, stamped):
    """Return the values of a channel: numbers, or pairs of a time and a number, in order."""
    if not stamped:
        return [_number(word) for word in channel.split(",")]
    pairs = PAIR.findall(channel)
    if not pairs or PAIR.sub("", channel).strip(", "):
        raise ValueError(f"{channel[:40]!r} is not (time,value),(time,value),…")
    try:
        times = np.array([float(time) for time, _ in pairs])
    except ValueError:
        times = np.array([time.strip() for time, _ in pairs], "datetime64[ns]").astype("int64")
    if np.any(np.diff(times) <= 0):
        raise ValueError("the times do not increase")
    return [_number(word) for _, word in pairs]


def _number(word):
    """Return the number that a word stands for, NaN for a missing one."""
    word = word.strip()
    try:
        number = math.nan if word == "?" else float(word)
    except ValueError:
        raise ValueError(f"{word[:40]!r} is no number") from None
    if math.isinf(number):
        raise ValueError(f"{word!r} is not finite")
    return number


def load(folder, name, length=None):
    """Return the training and the test samples of a problem, each `(series, targets)`.

    Args:
        folder: what holds `NAME_TRAIN.ts` and `NAME_TEST.ts`, itself or in a folder `NAME`.
        name: of the problem.
        length: steps to which all series are brought by `resampled`. `None`: as they are.

    Returns:
        `(series, targets)` twice; series are float32 `(samples, steps, channels)`, without missing
        values, which are `filled`.
    """
    parts = []
    for part in ("TRAIN", "TEST"):
        file = pathlib.Path(f"{name}_{part}.ts")
        places = [pathlib.Path(folder, file), pathlib.Path(folder, name.split("_")[0], file)]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise ValueError(f"The folder of time series must hold {file}. Received: {folder}")
        parts.append(read_ts(path))
    train, test = parts
    if train.classes != test.classes:
        raise ValueError(
            f"The files of a problem must name the same classes. Received: {train.classes} and "
            f"{test.classes} of {name}"
        )
    lengths = sorted({len(series) for part in parts for series in part.values})
    if length is None and len(lengths) > 1:
        raise ValueError(
            "Series of different lengths must be brought to one, by `length=` (resampled) or by "
            f"`padded`, which gives a mask. Received: {lengths[0]} to {lengths[-1]} steps in {name}"
        )
    length = length or lengths[0]
    return [
        (np.stack([resampled(filled(series), length) for series in part.values]), part.targets)
        for part in parts
    ]


def filled(series):
    """Return a series whose missing values lie on the lines between their neighbours."""
    series, steps = np.array(series, "float32"), np.arange(len(series))
    for channel in series.T:
        known = ~np.isnan(channel)
        if not known.any():
            raise ValueError("A channel must have a value that is not missing. Received: none")
        channel[~known] = np.interp(steps[~known], steps[known], channel[known])
    return series


def resampled(series, length):
    """Return a series of another number of steps, by linear interpolation between the same ends."""
    places = np.linspace(0, len(series) - 1, length)
    steps = np.arange(len(series))
    columns = [np.interp(places, steps, channel) for channel in np.asarray(series).T]
    return np.stack(columns, axis=-1).astype("float32")


def padded(values, length=None):
    """Return series with zeros behind, `(samples, length, channels)`, and which steps are theirs.

    The mask is float32 `(samples, length, 1)`, 1 at the steps of the series.
    """
    longest = max(map(len, values))
    length = longest if length is None else length
    if length < longest:
        raise ValueError(f"`length` must be at least {longest}, the longest. Received: {length=}")
    together = np.zeros((len(values), length, values[0].shape[1]), "float32")
    mask = np.zeros((len(values), length, 1), "float32")
    for row, steps, series in zip(together, mask, values, strict=True):
        row[: len(series)], steps[: len(series)] = series, 1
    return together, mask
