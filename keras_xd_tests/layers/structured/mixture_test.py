import numpy as np
import pytest

from keras_xd import layers
from keras_xd.kmatrix import families
from keras_xd.layers.structured import mixture

EVERY = (*families.FAMILIES, "dense")


def built(shape=(30, 42), **options):
    layer = layers.MixedDense(shape[1], **{"families": EVERY, "densities": (0.9, 0.5), **options})
    layer.build((None, shape[0]))
    layer.logits.assign(np.random.default_rng(2).normal(size=layer.logits.shape))
    return layer


def test_a_mixture_is_the_sum_of_its_candidates(rng):
    layer = built()
    x = rng.normal(size=(4, 30)).astype("float32")
    shares = np.exp(layer.logits.numpy()) / np.exp(layer.logits.numpy()).sum()
    parts = [kernel(x) for kernel in layer.kernel.kernels]
    expected = sum(share * np.array(part) for share, part in zip(shares, parts, strict=True))
    np.testing.assert_allclose(np.array(layer(x)), expected, atol=1e-5)
    np.testing.assert_allclose(x @ np.array(layer.kernel.dense()), expected, atol=1e-5)


def test_expected_costs_are_those_of_the_candidates():
    layer = built(families=("low_rank", "dense"), densities=(0.5,))
    layer.logits.assign([0.0, np.log(3)])
    rank = int(0.5 * 30 * 42) // 72
    expected = 0.25 * 72 * rank + 0.75 * 30 * 42
    assert float(layer.kernel.parameters) == pytest.approx(expected)
    assert float(layer.complexity((None, 5, 30))) == pytest.approx(5 * expected)
    assert float(layer.parameters()) == pytest.approx(expected + 42)


def test_candidates_that_a_kernel_cannot_become_are_left_out():
    options = mixture.MixtureOptions(("low_rank", "monarch", "dense"), (0.5, 0.1), "spectral")
    assert list(options.candidates([(7, 12)])) == ["low_rank_0.5", "dense"]
    assert list(options.candidates([(64, 64)])) == [
        "low_rank_0.5",
        "low_rank_0.1",
        "monarch_0.5",
        "monarch_0.1",
        "dense",
    ]
    # Equal sizes are one candidate.
    close = mixture.MixtureOptions(("low_rank",), (0.5, 0.49, 0.25), "spectral")
    assert list(close.candidates([(64, 64)])) == ["low_rank_0.5", "low_rank_0.49", "low_rank_0.25"]
    assert list(close.candidates([(16, 16)])) == ["low_rank_0.5", "low_rank_0.49", "low_rank_0.25"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"families": ("sparse", "dense")}, "`families` must be one of .*'sparse'"),
        ({"families": "dense"}, "`families` must be a list or tuple"),
        ({"families": ("dense", "dense")}, "`families` must be different ones"),
        ({"densities": (0.5, 0.0)}, "density=0.0"),
        ({"densities": ()}, "`densities` must be different ones"),
        ({"families": ("dense",)}, "two candidates or more .* are left"),
        ({"families": ("monarch", "dense"), "units": 41}, "monarch_0.5: .*common divisor"),
        ({"learning_rates": "fast"}, "`learning_rates` must be one of"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        layers.MixedDense(**{"units": 42, **options}).build((None, 30))


@pytest.mark.parametrize("index", range(3))
def test_the_chosen_one_is_the_nearest_to_the_mixture(index, rng):
    layer = built(families=("low_rank", "monarch"), densities=(0.5, 0.25))
    layer.logits.assign(2.0 * np.eye(4)[index])
    plain = layer.finalize()
    found, target = np.array(plain.kernel.dense()), np.array(layer.kernel.dense())
    own = np.array(layer.kernel.kernels[index].dense())
    error = np.linalg.norm(found - target)
    assert error < np.linalg.norm(own - target)
    family, sizes = layer.candidates[layer.largest]
    best = families.nearest(target.T.astype("float64"), family, sizes[0])
    np.testing.assert_allclose(error, np.linalg.norm(best.matrix.T - target), rtol=1e-4)
    layer.logits.assign(200.0 * np.eye(4)[index])
    np.testing.assert_array_equal(np.array(layer.finalize().kernel.dense()), own)


def test_every_candidate_is_projected(rng):
    layer = built(families=("blast", "low_rank"))
    matrix = rng.normal(size=(30, 42))
    found = layer.project(matrix, rng.normal(size=(50, 30)))
    assert list(found) == list(layer.operation_names)
    for kernel, (name, projection) in zip(layer.kernel.kernels, found.items(), strict=True):
        np.testing.assert_allclose(
            np.array(kernel.dense()), projection.matrix.T, atol=1e-5, err_msg=name
        )
        assert (projection.output_error is None) == name.startswith("blast")
