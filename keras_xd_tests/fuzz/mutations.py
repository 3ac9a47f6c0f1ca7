"""Seeded damage: to bytes, texts, JSON, archives."""

import copy
import io
import json
import warnings
import zipfile

import numpy as np

# What replaces a value of JSON. Not in it: sizes that a valid file could ask for too.
VALUES = (
    *(None, True, False, -1, 0, 1, 2, 3, 0.5, -0.5, 1e308, float("nan"), float("inf"), "", "x"),
    *("../x", "\x00", "ä", [], {}, [[]], {"": None}, [1, "x"], {"class_name": "x"}),
)
# A file cannot make use of these at all.
HUGE = (2**31, 2**63, -(2**63), 10**30)
MEMBERS = ("../outside.json", "/outside.json", "x", "config.json", "")
TOKENS = ("(", ")", "->", "|", "[2]", "[nan]", "[0]", "[1e999]", "#", "\n", "\x00", "S", "ä", "((")
DEPTHS = (20, 900, 5000)


def integer(rng, low, high):
    return int(rng.integers(low, high + 1))


def pick(rng, values):
    return values[integer(rng, 0, len(values) - 1)]


def of_bytes(content, rng):
    """Return bytes with a few of them changed, lost, added or repeated."""
    content = bytearray(content)
    for _ in range(pick(rng, (1, 1, 2, 5))):
        size = len(content)
        start = integer(rng, 0, max(size - 1, 0))
        end = min(start + pick(rng, (1, 2, 8, 64)), size)
        kind = integer(rng, 0, 6)
        if kind == 0 and size:
            content[start] ^= 1 << integer(rng, 0, 7)
        elif kind == 1 and size:
            content[start] = pick(rng, (0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del content[start:]
        elif kind == 3:
            del content[start:end]
        elif kind == 4:
            content[start:start] = rng.bytes(pick(rng, (1, 4, 16)))
        elif kind == 5:
            content[start:start] = content[start:end]
        else:
            other = integer(rng, 0, max(size - 1, 0))
            content[other : other + end - start] = content[start:end]
    return bytes(content)


def of_text(text, rng):
    """Return a text with tokens or characters changed, as bytes of UTF-8 or nearly."""
    if rng.random() < 0.3:
        return of_bytes(text.encode(), rng)
    tokens = text.replace("(", " ( ").replace(")", " ) ").replace("\n", " \n ").split(" ")
    for _ in range(pick(rng, (1, 1, 2, 4))):
        where, other = (integer(rng, 0, max(len(tokens) - 1, 0)) for _ in range(2))
        kind = integer(rng, 0, 5)
        if kind == 0 and tokens:
            del tokens[where]
        elif kind == 1:
            tokens.insert(where, pick(rng, TOKENS))
        elif kind == 2 and tokens:
            tokens[where] = pick(rng, TOKENS)
        elif kind == 3 and tokens:
            tokens[where], tokens[other] = tokens[other], tokens[where]
        elif kind == 4 and tokens:
            tokens[where:where] = tokens[min(where, other) : max(where, other) + 1]
        elif tokens:
            tokens[where] = tokens[where] * pick(rng, (2, 1000))
    if rng.random() < 0.02:
        depth = pick(rng, DEPTHS)
        tokens = ["(", "S", "x"] * depth + tokens
    return " ".join(tokens).encode()


def of_json(content, rng, huge=True):
    """Return a value of JSON with a few parts changed, lost, added or exchanged."""
    content = json.loads(json.dumps(content))
    values = VALUES + (HUGE if huge else ())
    for _ in range(pick(rng, (1, 1, 1, 2, 4))):
        places = list(_places(content))
        if not places:
            return copy.deepcopy(pick(rng, values))
        parent, key = pick(rng, places)
        other_parent, other_key = pick(rng, places)
        kind = integer(rng, 0, 6)
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(parent, dict):
            parent[pick(rng, ("", "x", str(other_key)))] = parent.pop(key)
        elif kind == 2 and isinstance(parent, list):
            parent.insert(key, json.loads(json.dumps(parent[key])))
        elif kind == 3:
            value = json.loads(json.dumps(other_parent[other_key]))
            parent[key] = value
        elif kind == 4 and isinstance(parent[key], int | float):
            parent[key] = parent[key] + pick(rng, (-1, 1, 0.5))
        elif kind == 5 and isinstance(parent[key], str):
            parent[key] = of_bytes(parent[key].encode(), rng).decode(errors="replace")
        else:
            # A copy, because it may be changed, or put into itself, by what follows.
            parent[key] = copy.deepcopy(pick(rng, values))
    return content


def _places(content):
    """Yield `(container, key)` of every value inside a value of JSON."""
    open_values = [content]
    while open_values:
        value = open_values.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield value, key
            if isinstance(value[key], dict | list):
                open_values.append(value[key])


def json_bytes(content, rng, huge=True):
    """Return a damaged file of JSON: mostly other values, sometimes other bytes."""
    text = json.dumps(content).encode()
    chance = rng.random()
    if chance < 0.25:
        return of_bytes(text, rng)
    if chance < 0.28:
        depth = pick(rng, DEPTHS)
        return b'{"format": ' + b"[" * depth + b"]" * depth + b"}"
    return json.dumps(of_json(content, rng, huge)).encode()


def of_archive(content, rng, huge=False):
    """Return a zip archive with members changed, exchanged, lost, renamed or packed otherwise."""
    if rng.random() < 0.3:
        return of_bytes(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    compression = pick(rng, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    where, other = (integer(rng, 0, len(members) - 1) for _ in range(2))
    name, value = members[where]
    kind = integer(rng, 0, 7)
    if kind == 0:
        del members[where]
    elif kind == 1:
        members[where] = (pick(rng, MEMBERS), value)
    elif kind == 2:
        members[where] = (name, members[other][1])
        members[other] = (members[other][0], value)
    elif kind == 3:
        members.append((pick(rng, MEMBERS), rng.bytes(20)))
    elif name.endswith(".json"):
        members[where] = (name, json_bytes(json.loads(value), rng, huge))
    else:
        members[where] = (name, of_bytes(value, rng))
    found = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(found, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, value in members:
            archive.writestr(zipfile.ZipInfo(name), value, compression)
    return found.getvalue()


def of_arrays(content, rng, header):
    """Return a NumPy archive whose header, JSON as numbers, or arrays are changed."""
    if rng.random() < 0.3:
        return of_archive(content, rng)
    with np.load(io.BytesIO(content)) as archive:
        arrays = dict(archive)
    name = pick(rng, sorted(arrays))
    if rng.random() < 0.6 or name == header:
        text = json_bytes(json.loads(arrays[header].tobytes()), rng)
        arrays[header] = np.frombuffer(text, "uint8")
    elif rng.random() < 0.5:
        arrays[name] = arrays[name].astype(pick(rng, ("float64", "int8", "complex64", "U3")))
    else:
        arrays[name] = pick(rng, (arrays[name][:1], arrays[name].ravel(), np.zeros((0, 3))))
    found = io.BytesIO()
    np.savez(found, **arrays)
    return found.getvalue()


def bomb(name, size=1 << 30):
    """Return a small archive of a member that is a gigabyte of zeros when it is read."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open(name, "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(
                member, {"descr": "|u1", "fortran_order": False, "shape": (size,)}
            )
            zeros = bytes(1 << 20)
            for _ in range(size >> 20):
                member.write(zeros)
    return found.getvalue()
