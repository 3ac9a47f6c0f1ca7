"""Operator learning on two partial differential equations: Burgers in 1-D, Darcy flow in 2-D.

Both come from the given folder, else from that of KERAS_XD_DATA_DIR, and are generated where no
folder is named. A folder has the published files, `burgers_data_R10.mat` (8,192 points) and
`piececonst_r421_N1024_smooth1.mat` with `…_smooth2.mat` (421 × 421), or `burgers1d.npz` (1,024) and
`darcy85.npz` (85 × 85). Samples are taken as published, at every so many points.

Burgers: `u_t + u u_x = 0.1 u_xx`, periodic on [0, 2π), from `u(x, 0)` to `u(x, 1)`.
Darcy: `-∇·(a ∇u) = 1` on the unit square, `u = 0` on its border, from `a`, 3 or 12, to `u`.
"""

import functools
import os
import pathlib

import numpy as np
from scipy import fft

from datasets.plain_files import VARIABLE, read_arrays, read_matlab

BURGERS_FILE, DARCY_FILE = "burgers1d.npz", "darcy85.npz"
PUBLISHED = {
    BURGERS_FILE: ("burgers_data_R10.mat",),
    DARCY_FILE: ("piececonst_r421_N1024_smooth1.mat", "piececonst_r421_N1024_smooth2.mat"),
}
NAMES = {  # of the arrays in our file, and in the published ones
    BURGERS_FILE: (("u0", "u"), ("a", "u")),
    DARCY_FILE: (("a", "u"), ("coeff", "sol")),
}
VISCOSITY = 0.1
GRID = 512  # points that Burgers' equation is solved on, and twice the modes of the start
MODES = 64  # cosine modes of Darcy's coefficient on each axis
TOLERANCE = 1e-9


def burgers(resolution, data_dir=None, train=1000, test=100, seed=0):
    """Return `(train, test)`: pairs of `u(x, 0)` with `x`, `(number, points, 2)`, and `u(x, 1)`."""
    numbers = (train, test)
    parts = _read(data_dir, BURGERS_FILE, numbers)
    if parts is None:
        parts = _generated(generate_burgers, numbers, resolution, seed)
    else:
        held = parts[0][0].shape[-1]
        if resolution < 1 or held % resolution:
            raise ValueError(
                f"`resolution` must divide {held}, the points of the file. "
                f"Received: resolution={resolution!r}"
            )
        parts = [[array[:, :: held // resolution] for array in part] for part in parts]
    points = 2 * np.pi * np.arange(resolution) / resolution
    return tuple(_pair(before, after, points) for before, after in parts)


def darcy(resolution, data_dir=None, train=1000, test=100, seed=0, nodes=None):
    """Return `(train, test)`: pairs of `a` with both coordinates, `(…, 3)`, and `u`.

    `nodes` is that of `generate_darcy`, and for generated samples only.
    """
    numbers = (train, test)
    parts = _read(data_dir, DARCY_FILE, numbers)
    if parts is None:
        generate = functools.partial(generate_darcy, nodes=nodes)
        parts = _generated(generate, numbers, resolution, seed)
    else:
        held = parts[0][0].shape[-1]
        if resolution < 2 or (held - 1) % (resolution - 1):
            raise ValueError(
                f"`resolution - 1` must divide {held - 1}, one less than the points of the file. "
                f"Received: resolution={resolution!r}"
            )
        step = (held - 1) // (resolution - 1)
        parts = [[array[:, ::step, ::step] for array in part] for part in parts]
    places = np.linspace(0, 1, resolution)
    coordinates = np.meshgrid(places, places, indexing="ij")
    return tuple(_pair(a, u, *coordinates) for a, u in parts)


def burgers_symmetry(inputs, outputs, rng):
    """Return samples of Burgers' equation moved along the period, half of them reflected, too.

    Where `u(x, t)` solves the equation, so do `u(x - c, t)` and `-u(-x, t)`. Each sample is moved
    by a number of points of its own.
    """
    number, points = inputs.shape[:2]
    reflected = rng.integers(2, size=(number, 1)).astype(bool)
    places = np.arange(points) + rng.integers(points, size=(number, 1))
    places = np.where(reflected, -places, places) % points
    signs = np.where(reflected, -1, 1).astype(inputs.dtype)
    inputs, rows = inputs.copy(), np.arange(number)[:, None]
    inputs[..., 0] = signs * inputs[rows, places, 0]
    return inputs, signs[..., None] * outputs[rows, places]


def darcy_symmetry(inputs, outputs, rng):
    """Return samples of Darcy flow, each turned and mirrored by one of the square's symmetries.

    The source and the border's values have all eight of them, so that the turned solution is that
    of the turned coefficient.
    """
    inputs, outputs = inputs.copy(), outputs.copy()
    drawn = rng.integers(8, size=len(inputs))
    for number in range(8):
        chosen = drawn == number
        inputs[chosen, ..., :1] = turned(inputs[chosen, ..., :1], number)
        outputs[chosen] = turned(outputs[chosen], number)
    return inputs, outputs


def turned(fields, number):
    """Return fields `(…, nodes, nodes, channels)` by the symmetry 0 to 7 of the square."""
    mirrored = fields[..., ::-1, :] if number >= 4 else fields
    return np.rot90(mirrored, number % 4, axes=(-3, -2))


def generate_burgers(number, resolution, seed=0):
    """Return `u(x, 0)` and `u(x, 1)`, two arrays `(number, resolution)`.

    The start is a Gaussian field of mean zero and covariance `625 (-Δ + 25)^-2`, where the period
    counts as one. One seed gives the same functions at every resolution.
    """
    _check_sizes(number, resolution, smallest=1)
    rng = np.random.default_rng(seed)
    wave_numbers = np.arange(1, GRID // 3 + 1)
    deviations = np.sqrt(2) * 25 / ((2 * np.pi * wave_numbers) ** 2 + 25)
    parts = rng.normal(size=(2, number, len(wave_numbers))) * deviations
    spectrum = np.zeros((number, GRID // 2 + 1), complex)
    spectrum[:, 1 : len(wave_numbers) + 1] = GRID / 2 * (parts[0] - 1j * parts[1])
    initial = fft.irfft(spectrum, GRID)
    return _sample(initial, resolution), _sample(solve_burgers(initial), resolution)


def solve_burgers(initial, viscosity=VISCOSITY, time=1.0):
    """Return Burgers' solution after `time`, on the periodic grid of the start.

    The derivative is exact for the modes that two thirds of the spectrum hold, which products do
    not alias into. Diffusion is integrated exactly, advection by the classical Runge–Kutta method
    in steps that the largest velocity sets.
    """
    points = initial.shape[-1]
    wave_numbers = np.arange(points // 2 + 1)
    kept = wave_numbers <= points // 3
    derivative = -0.5j * wave_numbers * kept
    largest = np.abs(initial).max(initial=0) * points / 3
    steps = max(50, int(np.ceil(time * largest)))
    step = time / steps
    half = np.exp(-viscosity * wave_numbers**2 * step / 2)
    whole = half**2

    def advection(spectrum):
        return derivative * fft.rfft(fft.irfft(spectrum, points) ** 2)

    u = fft.rfft(initial) * kept
    for _ in range(steps):
        first = advection(u)
        second = advection(half * (u + step / 2 * first))
        third = advection(half * u + step / 2 * second)
        fourth = advection(whole * u + step * half * third)
        u = whole * (u + step / 6 * first) + step / 3 * half * (second + third) + step / 6 * fourth
    return fft.irfft(u, points)


def generate_darcy(number, resolution, seed=0, nodes=None):
    """Return `a` and `u`, two arrays `(number, resolution, resolution)`.

    `a` is 12 where a Gaussian field of mean zero and covariance `(-Δ + 9)^-2`, with cosine modes,
    is not negative, and 3 elsewhere. The equation is solved on so many `nodes` on each axis, of
    which the resolution is a part: with nodes half as far apart, unless they are given. One seed
    gives the same fields at every resolution, and of the same nodes the same solutions.
    """
    _check_sizes(number, resolution, smallest=2)
    nodes = 2 * resolution - 1 if nodes is None else nodes
    if nodes < resolution or (nodes - 1) % (resolution - 1):
        raise ValueError(
            "`resolution - 1` must divide `nodes - 1`. "
            f"Received: resolution={resolution!r}, nodes={nodes!r}"
        )
    step = (nodes - 1) // (resolution - 1)
    coefficient, solution = _solved_darcy(number, nodes, tuple(np.atleast_1d(seed)))
    return coefficient[:, ::step, ::step].astype(float), solution[:, ::step, ::step]


@functools.lru_cache(maxsize=2)
def _solved_darcy(number, nodes, seed):
    """Return `a` and `u` at all nodes, kept for runs of several resolutions."""
    rng = np.random.default_rng(seed)
    wave_numbers, places = np.arange(MODES), np.linspace(0, 1, nodes)
    basis = np.cos(np.pi * np.outer(places, wave_numbers)) * np.where(wave_numbers, np.sqrt(2), 1)
    squares = wave_numbers[:, None] ** 2 + wave_numbers**2
    deviations = 1 / (np.pi**2 * squares + 9)
    deviations[0, 0] = 0
    coefficient, solution = np.empty((2, number, nodes, nodes), "float32")
    for first in range(0, number, 20):
        drawn = rng.normal(size=(min(20, number - first), MODES, MODES)) * deviations
        field = np.where(basis @ drawn @ basis.T >= 0, 12.0, 3.0)
        coefficient[first : first + 20], solution[first : first + 20] = field, solve_darcy(field)
    return coefficient, solution


def solve_darcy(coefficient, source=1.0):
    """Return the solution of `-∇·(a ∇u) = f` that is zero on the border of the unit square.

    Finite volumes of second order: the flux between two nodes takes the mean of `a` at both.
    Solved by conjugate gradients to a relative residual of 1e-9, preconditioned by Poisson's
    equation, which sine transforms solve: the number of iterations does not grow with the grid.
    """
    if not np.all(coefficient > 0):
        raise ValueError(
            "The coefficient must be positive everywhere. "
            f"Received: a smallest value of {np.min(coefficient)}"
        )
    nodes = coefficient.shape[-1]
    solution = np.zeros(coefficient.shape)
    if nodes < 3:
        return solution
    rows = (coefficient[:, 1:, 1:-1] + coefficient[:, :-1, 1:-1]) / 2
    columns = (coefficient[:, 1:-1, 1:] + coefficient[:, 1:-1, :-1]) / 2
    wave_numbers = np.arange(1, nodes - 1)
    eigenvalues = 2 - 2 * np.cos(np.pi * wave_numbers / (nodes - 1))
    eigenvalues = eigenvalues[:, None] + eigenvalues

    def operator(u):
        u = np.pad(u, ((0, 0), (1, 1), (1, 1)))
        across_rows = rows * np.diff(u[:, :, 1:-1], axis=1)
        across_columns = columns * np.diff(u[:, 1:-1], axis=2)
        return -np.diff(across_rows, axis=1) - np.diff(across_columns, axis=2)

    def preconditioner(residual):
        return fft.idstn(fft.dstn(residual, 1, axes=(1, 2)) / eigenvalues, 1, axes=(1, 2))

    def inner(first, second):
        return np.sum(first * second, axis=(1, 2), keepdims=True)

    u = np.zeros_like(solution[:, 1:-1, 1:-1])
    residual = np.broadcast_to(source, solution.shape)[:, 1:-1, 1:-1] / (nodes - 1) ** 2
    goal = TOLERANCE**2 * inner(residual, residual)
    direction = preconditioner(residual)
    product = inner(residual, direction)
    while np.any(inner(residual, residual) > goal):
        image = operator(direction)
        # A sample that is solved exactly has no direction left: 0 / 0.
        length = product / np.maximum(inner(direction, image), np.finfo(float).tiny)
        u = u + length * direction
        residual = residual - length * image
        conditioned = preconditioner(residual)
        previous, product = product, inner(residual, conditioned)
        direction = conditioned + product / np.maximum(previous, np.finfo(float).tiny) * direction
    solution[:, 1:-1, 1:-1] = u
    return solution


def _generated(generate, numbers, resolution, seed):
    return [generate(number, resolution, [seed, part]) for part, number in enumerate(numbers)]


def _read(data_dir, name, numbers):
    """Return for each of both parts so many samples of the arrays, or `None` without a folder.

    The first samples; of a published file that is not split the last ones for testing.
    """
    folder = data_dir or os.environ.get(VARIABLE)
    if not folder:
        return None
    own, published = pathlib.Path(folder, name), [pathlib.Path(folder, n) for n in PUBLISHED[name]]
    ours, theirs = NAMES[name]
    whole = all(path.is_file() for path in published)
    if not whole and not own.is_file():
        arrays = ", ".join(f"{array}_{part}" for array in ours for part in ("train", "test"))
        raise ValueError(
            f"The folder of the data (`data_dir` or {VARIABLE}) must hold {name}, with the arrays "
            f"{arrays}, or MATLAB's {' and '.join(PUBLISHED[name])} of "
            f"https://github.com/neuraloperator, with {' and '.join(theirs)}. Without a folder "
            f"they are generated. Received: data_dir={str(folder)!r}"
        )
    parts = []
    for part, number in zip(("train", "test"), numbers, strict=True):
        path = own if not whole else published[0 if part == "train" else -1]
        if whole:
            arrays = [read_matlab(path, array) for array in theirs]
        else:
            arrays = read_arrays(path, [f"{array}_{part}" for array in ours])
        shared = whole and part == "test" and len(published) == 1  # with the training samples
        left = len(arrays[0]) - numbers[0] * shared
        if not 1 <= number <= left:
            raise ValueError(
                f"`{part}` must be from 1 to {left}, the samples in {path.name}. "
                f"Received: {part}={number!r}"
            )
        parts.append([array[-number:] if shared else array[:number] for array in arrays])
    return parts


def _pair(function, solution, *coordinates):
    """Return inputs, with the coordinates as further channels, and outputs."""
    channels = [function, *(np.broadcast_to(c, function.shape) for c in coordinates)]
    return np.stack(channels, axis=-1).astype("float32"), solution[..., None].astype("float32")


def _sample(values, resolution):
    """Return a periodic function without high frequencies at other points."""
    points = values.shape[-1]
    finer = resolution * -(-points // resolution)
    spectrum = np.zeros((len(values), finer // 2 + 1), complex)
    spectrum[:, : points // 2] = fft.rfft(values)[:, : points // 2]
    return (fft.irfft(spectrum, finer) * (finer / points))[:, :: finer // resolution]


def _check_sizes(number, resolution, smallest):
    if number < 1 or resolution < smallest:
        raise ValueError(
            f"There must be at least one sample and a resolution of at least {smallest}. "
            f"Received: number={number!r}, resolution={resolution!r}"
        )
