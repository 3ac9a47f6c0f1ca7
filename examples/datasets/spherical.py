"""MNIST's digits on a sphere, as a grid of its angles: 60 × 60 pixels, upright or rotated.

A digit lies below the south pole of a sphere and is projected onto it, from a point a little above
the north pole. The sphere is read at polar angles `π j / 60` and azimuths `2π k / 60`, `j` and `k`
from 0 to 59, so that digits are round the pole and distorted. Rotated spheres are turned before
they are read, each 500 by one rotation of their own, evenly distributed over all rotations.
"""

import numpy as np

SIZE = 60
CHUNK = 500
TOP = 2.001  # of the point of projection, in radii above the plane; the north pole is at 2
EDGE = 1.5  # half of the side of the square that the image fills, in radii


def load(rotated, data_dir=None, subset=None, seed=0):
    """Return `(train, validation, test)` as `datasets.images.load` does, on the sphere."""
    from datasets import images

    parts = images.load("mnist", data_dir, subset)
    return tuple(
        (project(inputs[..., 0], (seed, part) if rotated else None), labels)
        for part, (inputs, labels) in enumerate(parts)
    )


def project(images, seed=None):
    """Return images as they are seen on the sphere."""
    images = np.asarray(images, "float32")
    rng = None if seed is None else np.random.default_rng(seed)
    result = np.empty((len(images), SIZE, SIZE, 1), "uint8")
    points = grid()
    for start in range(0, len(images), CHUNK):
        chunk = images[start : start + CHUNK]
        turned = points if rng is None else points @ rotation(rng).T
        seen = bilinear(chunk, *places(turned, chunk.shape[1:]))
        lowest = seen.min(axis=(1, 2), keepdims=True)
        range_ = np.maximum(seen.max(axis=(1, 2), keepdims=True) - lowest, 1e-12)
        result[start : start + CHUNK, ..., 0] = 255 * ((seen - lowest) / range_)
    return result


def grid():
    """Return the points of the unit sphere that are read, `(60, 60, 3)`: polar angle, azimuth."""
    polar = np.pi * np.arange(SIZE)[:, None] / SIZE
    azimuth = 2 * np.pi * np.arange(SIZE) / SIZE
    height = np.broadcast_to(np.cos(polar), (SIZE, SIZE))
    return np.stack([np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), height], -1)


def rotation(rng):
    """Draw a rotation evenly from all: one about the axis, then a reflected Householder matrix."""
    turn, direction, height = rng.uniform(size=3)
    angle, azimuth = 2 * np.pi * turn, 2 * np.pi * direction
    about_axis = np.array(
        [[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    radius = np.sqrt(height)
    mirror = [radius * np.cos(azimuth), radius * np.sin(azimuth), np.sqrt(1 - height)]
    return (2 * np.outer(mirror, mirror) - np.eye(3)) @ about_axis


def places(points, shape):
    """Return the places, in pixels, where the image is seen at points of the sphere."""
    x, y, z = np.moveaxis(points, -1, 0)
    stretch = TOP / (TOP - (z + 1))  # along the line through the point, down to the plane
    return tuple(
        size * (stretch * q + EDGE) / (2 * EDGE) for q, size in zip((x, y), shape, strict=True)
    )


def bilinear(images, rows, columns):
    """Return images read between their pixels; outside of them there are zeros."""
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1)])
    height, width = padded.shape[1:]
    rows, columns = np.clip(rows + 1, 0, height - 1), np.clip(columns + 1, 0, width - 1)
    top = np.minimum(rows.astype(int), height - 2)
    left = np.minimum(columns.astype(int), width - 2)
    down, right = (rows - top).astype(images.dtype), (columns - left).astype(images.dtype)
    flat = padded.reshape(len(padded), -1)
    corner = top * width + left
    upper = (1 - right) * flat[:, corner] + right * flat[:, corner + 1]
    lower = (1 - right) * flat[:, corner + width] + right * flat[:, corner + width + 1]
    return (1 - down) * upper + down * lower
