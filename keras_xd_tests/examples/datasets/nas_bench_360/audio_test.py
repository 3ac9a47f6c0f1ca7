"""Sounds: the spectrogram by definition, chunks and clips, bad files."""

import importlib
import math

import numpy as np
from scipy.io import wavfile

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets.nas_bench_360 import tiny_files

with example_scripts.on_path():
    audio = importlib.import_module("datasets.nas_bench_360.audio")


def test_spectrogram_by_definition(rng):
    sound = rng.normal(size=22_050) * np.geomspace(1, 1e-6, 22_050)
    found = audio.mel_spectrogram(sound)
    assert found.shape == (96, 101) and found.dtype == "float32"
    window = [0.5 - 0.5 * math.cos(2 * math.pi * n / 661) for n in range(661)]
    top = 2595 * math.log10(1 + 11_025 / 700)
    corners = [700 * (10 ** (top * k / 97 / 2595) - 1) for k in range(98)]
    frequencies = np.arange(961) * 22_050 / 1920
    expected = np.empty((96, 101))
    for frame in range(101):
        # The middle of the frame is the sample `220 frame`; both ends of the sound are mirrored.
        places = 220 * frame - 960 + 629 + np.arange(661)
        places = np.where(places < 0, -places, places)
        places = np.where(places > 22_049, 2 * 22_049 - places, places)
        placed = np.zeros(1920)
        placed[629 : 629 + 661] = sound[places] * window
        power = np.abs(np.fft.fft(placed)[:961]) ** 2
        for band in range(96):
            low, middle, high = corners[band : band + 3]
            weights = np.interp(frequencies, [low, middle, high], [0, 1, 0])
            expected[band, frame] = 10 * math.log10(max(1e-10, weights @ power))
    expected = np.maximum(expected, expected.max() - 80)
    np.testing.assert_allclose(found, expected - expected.mean(), atol=1e-3)
    assert (found == found.min()).sum() > 100  # where the quiet end is cut


def test_chunks_and_clips(tmp_path):
    tiny_files.fsd50k(tmp_path)
    train, validation, test = audio.fsd50k(tmp_path)
    assert train.groups.tolist() == [0, 1, 2, 3]  # one chunk of each
    assert validation.groups.tolist() == test.groups.tolist() == [0, 1, 1, 2, 2, 2]
    np.testing.assert_array_equal(validation.outputs[:3], [[1, 0, 1], [0, 1, 0], [0, 1, 0]])
    path = tmp_path / "data" / "chunks" / "dev_chunks" / "105_1.wav"
    _, samples = wavfile.read(path)
    expected = audio.mel_spectrogram(samples / 32_768)
    np.testing.assert_allclose(validation.inputs[2][..., 0], expected, atol=1e-2)
    chosen = {
        tuple(p.name for p in audio.fsd50k(tmp_path, seed=s)[0].inputs.entries) for s in range(8)
    }
    assert len(chosen) > 1
    # The folder of the tables does as well.
    again = audio.fsd50k(tmp_path / "data" / "chunks")[0]
    np.testing.assert_array_equal(again.inputs[:], train.inputs[:])
