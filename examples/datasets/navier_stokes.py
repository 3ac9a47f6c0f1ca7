"""Navier–Stokes in 2-D: how the vorticity of a forced flow on the periodic unit square evolves.

`w_t + v·∇w = ν Δw + f` with `w = ∇×v`, `∇·v = 0` and `f = 0.1 (sin 2π(x + y) + cos 2π(x + y))`. The
start is a Gaussian field of mean zero and covariance `2 · 7³ (-Δ + 49)^-2.5`, that of the generator
behind the files of the papers on Fourier neural operators and XD-operations. Such a file (HDF5 of
MATLAB with the array `u`, samples first) is read where a path is given; else flows are generated.
"""

import pathlib

import numpy as np
from scipy import fft

from datasets.plain_files import read_matlab

VISCOSITY = 1e-3
LONGEST_STEP = 0.05
COURANT = 0.5  # part of a cell that the flow may cross in one step


def navier_stokes(resolution=64, times=20, train=1000, test=200, path=None, seed=0, **options):
    """Return `(train, test)`: arrays of vorticity `(number, resolution, resolution, times)`.

    Times are the whole numbers from 1; `options` are those of `generate_navier_stokes`. Of a file
    the first samples are for training, the last ones for testing.
    """
    if path is not None:
        return _read(pathlib.Path(path), resolution, times, train, test)
    flows = generate_navier_stokes(train + test, resolution, times, seed=seed, **options)
    return flows[:train], flows[train:]


def generate_navier_stokes(number, resolution, times, viscosity=VISCOSITY, grid=None, seed=0):
    """Return the vorticity of flows at times 1, 2, …: `(number, resolution, resolution, times)`.

    Args:
        number: how many flows.
        resolution: points of the result on each axis, even.
        times: how many times.
        viscosity: `ν`, above 0; the papers have 1e-3, 1e-4 and 1e-5.
        grid: points on each axis that the equation is solved on, a multiple of the resolution;
            `None`: the resolution, 64 at the least. Small viscosities need more.
        seed: one seed gives the same starts on every grid of 64 points or more.
    """
    grid = max(resolution, 64 // resolution * resolution) if grid is None else grid
    for name, value in (("number", number), ("times", times), ("resolution", resolution)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={value!r}")
    if resolution % 2 or grid % resolution:
        raise ValueError(
            "`resolution` must be even and divide the points that the equation is solved on. "
            f"Received: resolution={resolution!r}, grid={grid!r}"
        )
    if not viscosity > 0:
        raise ValueError(f"`viscosity` must be above 0. Received: viscosity={viscosity!r}")
    step = grid // resolution
    result = np.empty((number, resolution, resolution, times), "float32")
    for first in range(0, number, 20):
        w = initial_vorticity(range(first, min(first + 20, number)), grid, seed)
        for time in range(times):
            w = solve_navier_stokes(w, viscosity)
            result[first : first + 20, ..., time] = w[:, ::step, ::step]
    return result


def initial_vorticity(samples, grid, seed=0, modes=32):
    """Return the starts of samples by their numbers, an array `(samples, grid, grid)`.

    With modes `k` below `modes` on each axis, each of the variance `2 · 7³ (4π² |k|² + 49)^-2.5`.
    """
    if grid < 2 * modes:
        modes = grid // 2
    k = np.r_[0:modes, -modes + 1 : 0]
    deviations = np.sqrt(2) * 7**1.5 * (4 * np.pi**2 * (k[:, None] ** 2 + k**2) + 49) ** -1.25
    deviations[0, 0] = 0
    spectrum = np.zeros((len(samples), grid, grid), complex)
    for row, sample in zip(spectrum, samples, strict=True):
        drawn = np.random.default_rng([seed, sample]).normal(size=(2, *deviations.shape))
        row[k[:, None], k] = (drawn[0] + 1j * drawn[1]) * deviations
    return fft.ifft2(spectrum).real * grid**2


def solve_navier_stokes(vorticity, viscosity=VISCOSITY, time=1.0, forced=True, courant=COURANT):
    """Return the vorticity `(…, n, n)` after `time`, on the grid of the start.

    Derivatives are exact for the modes that two thirds of the spectrum hold, which products do not
    alias into. Diffusion is integrated exactly, the rest by the classical Runge–Kutta method in
    steps in which the fastest flow crosses `courant` of a cell.
    """
    points = vorticity.shape[-1]
    rows = 2 * np.pi * fft.fftfreq(points, 1 / points)[:, None]
    columns = 2 * np.pi * np.arange(points // 2 + 1)
    laplacian = rows**2 + columns**2
    inverse = 1 / np.where(laplacian, laplacian, 1)
    kept = (np.abs(rows) <= 2 * np.pi * (points // 3)) & (columns <= 2 * np.pi * (points // 3))
    x = np.arange(points) / points
    phase = 2 * np.pi * (x[:, None] + x)
    force = fft.rfft2(0.1 * (np.sin(phase) + np.cos(phase))) if forced else 0.0

    def real(spectrum):
        return fft.irfft2(spectrum, (points, points))

    def velocity(w):
        # The stream function ψ has -Δψ = w and v = (∂ψ/∂column, -∂ψ/∂row).
        return real(1j * columns * inverse * w), real(-1j * rows * inverse * w)

    def change(w, flow=None):
        across, along = flow or velocity(w)
        advected = across * real(1j * rows * w) + along * real(1j * columns * w)
        return kept * (force - fft.rfft2(advected))

    w, done = fft.rfft2(vorticity) * kept, 0.0
    while done < time:
        flow = velocity(w)
        fastest = max(np.abs(part).max() for part in flow)
        step = min(time - done, LONGEST_STEP, courant / points / max(fastest, 1e-9))
        half = np.exp(-viscosity * laplacian * step / 2)
        first = change(w, flow)
        second = change(half * (w + step / 2 * first))
        third = change(half * w + step / 2 * second)
        fourth = change(half**2 * w + step * half * third)
        w = (
            half**2 * (w + step / 6 * first)
            + step / 3 * half * (second + third)
            + step / 6 * fourth
        )
        done = done + step if done + step < time else time
    return real(w)


def _read(path, resolution, times, train, test):
    """Return both parts of a file of MATLAB, at every so many points."""
    if not path.is_file():
        raise ValueError(
            f"{path.name} must exist, a MATLAB file (HDF5) with the array `u`, such as "
            "`NavierStokes_V1e-5_N1200_T20.mat` of https://github.com/neuraloperator; without a "
            f"file flows are generated. Received: path={str(path)!r}"
        )
    flows = read_matlab(path, "u")
    if flows.ndim != 4:
        raise ValueError(
            "`u` must have four axes: samples, two of space, times. "
            f"Received: shape {flows.shape} in {path.name}"
        )
    number, points, _, held = flows.shape
    if times > held or points % resolution or train + test > number:
        raise ValueError(
            f"{path.name} has {number} flows at {held} times on {points} points. Received: "
            f"train={train}, test={test}, times={times}, resolution={resolution}"
        )
    step = points // resolution
    flows = flows[:, ::step, ::step, :times].astype("float32")
    return flows[:train], flows[number - test :]
