"""Features of terms in files, so that a search that goes on need not compute them again."""

import hashlib
import json
import os
import sys

import numpy as np

from keras_xd.core import files
from keras_xd.grammar.terms import Term
from tuner_integration.kernels import Features, HierarchicalKernel

_FORMAT = 1
# Colours are made by Python's hash of integers and tuples.
PYTHON = f"{sys.implementation.name} {sys.version_info[:2]} {sys.hash_info.width}"


class FeatureFiles:
    """Keeps what a `HierarchicalKernel` says of terms, a file a term."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = os.fspath(folder)

    def features(self, kernel: HierarchicalKernel, term: Term) -> list[Features]:
        """Return `kernel.features(term)`, from its file if there is one, otherwise to its file."""
        content = f"{_FORMAT} {PYTHON} {kernel.signature()} {term}"
        digest = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
        path = os.path.join(self.folder, digest)
        found = _read(path)
        if found is None:
            found = kernel.features(term)
            os.makedirs(self.folder, exist_ok=True)
            files.write(path, _packed(found), overwrite=True)
        return found


def _packed(features):
    """One line of lengths, then the colours, then the counts, which are whole numbers."""
    pairs = [pair for kernel in features for pair in kernel]
    lengths = [[len(colours) for colours, _ in kernel] for kernel in features]
    colours = np.concatenate([colours for colours, _ in pairs]).astype("<i8")
    counts = np.concatenate([counts for _, counts in pairs]).astype("<i4")
    return json.dumps(lengths).encode() + b"\n" + colours.tobytes() + counts.tobytes()


def _read(path):
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    line, _, content = content.partition(b"\n")
    lengths = json.loads(line)
    total = sum(map(sum, lengths))
    colours = np.frombuffer(content, "<i8", total).astype(np.int64)
    counts = np.frombuffer(content, "<i4", total, offset=8 * total).astype(float)
    result, start = [], 0
    for kernel in lengths:
        result.append([])
        for length in kernel:
            part = slice(start, start + length)
            result[-1].append((colours[part], counts[part]))
            start += length
    return result
