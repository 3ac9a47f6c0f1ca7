"""Features that were written are those that are computed, and those of their term and kernel."""

import numpy as np
import pytest

from keras_xd.grammar import Topology, spaces
from tuner_integration.feature_files import FeatureFiles
from tuner_integration.kernels import HierarchicalKernel

CELLS = spaces.nas_bench_201_cell()


class Counted(HierarchicalKernel):
    """Counts how often features are computed."""

    computed = 0

    def features(self, term):
        self.computed += 1
        return super().features(term)


def test_features_are_computed_once_and_read_as_they_were(tmp_path, rng):
    term = spaces.hierarchical_nas_bench_201().sample(rng)
    kernel = Counted((0, 1, 2))
    expected = HierarchicalKernel((0, 1, 2)).features(term)
    for _ in range(2):
        found = FeatureFiles(tmp_path / "features").features(kernel, term)
        assert [len(level) for level in found] == [len(level) for level in expected] == [2, 3, 3, 5]
        for level, other in zip(found, expected, strict=True):
            for pair, expected_pair in zip(level, other, strict=True):
                for array, expected_array in zip(pair, expected_pair, strict=True):
                    assert array.dtype == expected_array.dtype
                    np.testing.assert_array_equal(array, expected_array)
    assert kernel.computed == 1
    assert len(list((tmp_path / "features").iterdir())) == 1


def test_other_terms_and_kernels_have_files_of_their_own(tmp_path, rng):
    files = FeatureFiles(tmp_path)
    swapped = {"Cell": Topology(((1, 3), (1, 2), (2, 3), (1, 4), (2, 4), (3, 4)))}
    kernels = [
        Counted((0, 1)),
        Counted((0,)),
        Counted((0, 1), iterations=2),
        Counted((0, 1), topologies=swapped),
    ]
    terms = [CELLS.sample(rng) for _ in range(2)]
    for _ in range(2):
        for kernel in kernels:
            for term in terms:
                files.features(kernel, term)
    assert [kernel.computed for kernel in kernels] == [2] * 4
    assert len(list(tmp_path.iterdir())) == 8


def test_a_damaged_file_is_an_error_and_not_other_features(tmp_path, rng):
    files, kernel, term = FeatureFiles(tmp_path), HierarchicalKernel((0,)), CELLS.sample(rng)
    files.features(kernel, term)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError):
        files.features(kernel, term)
