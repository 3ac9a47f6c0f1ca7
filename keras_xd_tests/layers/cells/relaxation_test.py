import json

import keras
import numpy as np
import pytest

from keras_xd import genotypes
from keras_xd.core.tracing import traced_part
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.layers.cells.genotypes import cell_of_weights
from keras_xd.layers.cells.relaxation import PATHS, drawn_cell, drawn_paths

NAMES = ("dynamic_3", "identity", "channel_attention", "dilated_3")
MAKES = np.array([False, True, False, True])


def drawn(relaxation, logits, noise=None, temperature=1.0, names=NAMES):
    count = 1 if noise is None else PATHS[relaxation]
    paths, aside = drawn_paths(names, relaxation, count, logits, noise, temperature)
    assert not aside
    return [keras.ops.convert_to_numpy(paths[name]) for name in ("numbers", "weights")]


def gumbel(rng, shape):
    return rng.gumbel(size=shape).astype("float32")


def test_one_operation_of_each_block_makes_features(rng):
    """It is the best draw of all that fulfil this."""
    for _ in range(20):
        logits = rng.standard_normal((18, 4)).astype("float32")
        logits[:, ~MAKES] += 3
        noise = gumbel(rng, (18, 4))
        numbers, weights = drawn("gumbel", logits, noise)
        assert np.all(weights == 1) and numbers.shape == weights.shape == (18, 1)
        scores = logits - np.log(np.exp(logits).sum(-1, keepdims=True)) + noise
        for block, sources in enumerate(genotypes.SOURCES):
            edges = [genotypes.first_tier_edge(block, source) for source in sources]
            grids = np.meshgrid(*[np.arange(4)] * len(edges), indexing="ij")
            choices = np.stack([grid.ravel() for grid in grids], -1)
            choices = choices[MAKES[choices].any(-1)]
            totals = sum(scores[edge][choices[:, i]] for i, edge in enumerate(edges))
            assert numbers[edges, 0].tolist() == choices[np.argmax(totals)].tolist()
        np.testing.assert_array_equal(numbers[14:, 0], scores[14:].argmax(-1))


@pytest.mark.parametrize("temperature", [0.5, 4.0])
def test_derivatives_are_those_of_a_softmax_with_noise(temperature, rng):
    import tensorflow as tf

    logits = tf.constant(rng.standard_normal((18, 4)), "float32")
    noise = gumbel(rng, (18, 4))
    slopes = rng.standard_normal((18, 1)).astype("float32")
    with tf.GradientTape() as tape:
        tape.watch(logits)
        paths, _ = drawn_paths(NAMES, "gumbel", 1, logits, noise, temperature)
        total = tf.reduce_sum(slopes * paths["weights"])
    found = tape.gradient(total, logits).numpy()
    numbers = paths["numbers"].numpy()[:, 0]

    def soft(values):
        powers = np.exp((values.astype("float64") + noise) / temperature)
        shares = powers / powers.sum(-1, keepdims=True)
        return np.sum(slopes[:, 0] * shares[np.arange(18), numbers])

    for place in [(0, 0), (3, 1), (17, 2), (9, numbers[9])]:
        step = np.zeros((18, 4))
        step[place] = 1e-5
        wanted = (soft(logits.numpy() + step) - soft(logits.numpy() - step)) / 2e-5
        assert found[place] == pytest.approx(wanted, rel=1e-3, abs=1e-5)


def test_two_operations_have_renormalised_shares(rng):
    logits = rng.standard_normal((18, 4)).astype("float32")
    noise = gumbel(rng, (18, 4))
    numbers, weights = drawn("sampled", logits, noise)
    first, _ = drawn("gumbel", logits, noise)
    np.testing.assert_array_equal(numbers[:, :1], first)
    scores = logits + noise
    np.put_along_axis(scores, first, -np.inf, axis=1)
    np.testing.assert_array_equal(numbers[:, 1], scores.argmax(-1))
    powers = np.exp(np.take_along_axis(logits, numbers, axis=1))
    np.testing.assert_allclose(weights, powers / powers.sum(-1, keepdims=True), rtol=1e-5)


def test_a_single_sampled_operation_has_the_weight_1(rng):
    logits = rng.standard_normal((18, 4)).astype("float32")
    noise = gumbel(rng, (18, 4))
    paths, _ = drawn_paths(NAMES, "sampled", 1, logits, noise, None)
    np.testing.assert_array_equal(paths["numbers"], drawn("gumbel", logits, noise)[0])
    assert np.all(keras.ops.convert_to_numpy(paths["weights"]) == 1)


def joint_shares(logits, edge_logits):
    """Return the shares of operations times those of their edges, in float64."""
    shares = np.exp(logits.astype("float64"))
    shares /= shares.sum(-1, keepdims=True)
    for block, sources in enumerate(genotypes.SOURCES):
        edges = [genotypes.first_tier_edge(block, source) for source in sources]
        of_edges = np.exp(edge_logits[edges].astype("float64"))
        shares[edges] *= (of_edges / of_edges.sum())[:, None]
    return shares


def cell_of_numbers(numbers):
    """Return the cell of drawn numbers, those of the edges that are not drawn being 4."""
    blocks = []
    for block, sources in enumerate(genotypes.SOURCES):
        places = [(numbers[genotypes.first_tier_edge(block, s)], s) for s in sources]
        first = tuple((NAMES[number], source) for number, source in places if number < 4)
        last = NAMES[numbers[genotypes.second_tier_edge(block)]]
        blocks.append(genotypes.BlockGenotype(first, last))
    return genotypes.CellGenotype(tuple(blocks))


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("spread", [0.5, 10.0])
def test_a_single_path_is_the_cell_derived_from_shares_with_noise(noisy, spread, rng):
    """Of shares from nearly equal ones to 1 beside 1e-8, in which sums of float32 would vanish."""
    draw = traced_part(drawn_cell, NAMES)
    for trial in range(40):
        logits = (spread * rng.standard_normal((18, 4))).astype("float32")
        logits[:, ~MAKES] += 3 * (trial % 2)
        edge_logits = (spread * rng.standard_normal(14)).astype("float32")
        noise = gumbel(rng, (18, 4))
        paths, aside = draw(logits, edge_logits, noise if noisy else None, np.float32(1))
        numbers, weights = (
            keras.ops.convert_to_numpy(paths[name])[:, 0] for name in ("numbers", "weights")
        )
        shares = joint_shares(logits, edge_logits) * (np.exp(noise) if noisy else 1)
        assert not aside and cell_of_numbers(numbers) == cell_of_weights(shares, NAMES)
        np.testing.assert_array_equal(weights, numbers < 4)


@pytest.mark.parametrize("temperature", [0.5, 4.0])
def test_derivatives_of_a_single_path_are_those_of_a_softmax_of_tiers(temperature, rng):
    import tensorflow as tf

    values = [tf.constant(rng.standard_normal(shape), "float32") for shape in ((18, 4), (14,))]
    noise = gumbel(rng, (18, 4))
    slopes = rng.standard_normal((18, 1)).astype("float32")
    with tf.GradientTape() as tape:
        tape.watch(values)
        paths, _ = drawn_cell(NAMES, *values, noise, temperature)
        total = tf.reduce_sum(slopes * paths["weights"])
    found = [slope.numpy() for slope in tape.gradient(total, values)]
    numbers = paths["numbers"].numpy()[:, 0]
    ends = np.cumsum([len(sources) for sources in genotypes.SOURCES])
    tiers = [*np.split(np.arange(14), ends[:-1]), *np.arange(14, 18)[:, None]]

    def soft(logits, edge_logits):
        powers = (joint_shares(logits, edge_logits) * np.exp(noise)) ** (1 / temperature)
        total = 0.0
        for edges in tiers:
            drawn = [edge for edge in edges if numbers[edge] < 4]
            parts = slopes[drawn, 0] * powers[drawn, numbers[drawn]]
            total += parts.sum() / powers[edges].sum()
        return total

    places = [(0, (0, 0)), (0, (6, 1)), (0, (17, 2)), (1, (1,)), (1, (4,)), (1, (13,))]
    for which, place in places:
        moved = []
        for sign in (1, -1):
            changed = [value.numpy().astype("float64") for value in values]
            changed[which][place] += sign * 1e-5
            moved.append(soft(*changed))
        wanted = (moved[0] - moved[1]) / 2e-5
        assert found[which][place] == pytest.approx(wanted, rel=1e-3, abs=1e-5)


SMALL = ("dynamic_3", "identity", "dilated_3")


def test_shares_are_the_softmax_of_the_logits(rng):
    architecture = ArchitectureLogits(operations=SMALL)
    architecture.build()
    logits = rng.standard_normal((18, 3))
    architecture.logits.assign(logits)
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    for shares in (architecture.probabilities, architecture()):
        found = keras.ops.convert_to_numpy(shares)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert architecture.genotype == genotypes.derive_cell(logits.astype("float32"), SMALL)


def test_configuration_and_bad_arguments():
    architecture = ArchitectureLogits(True, SMALL, seed=4, name="architecture")
    config = json.loads(json.dumps(architecture.get_config()))
    assert config["operations"] == list(SMALL)
    assert ArchitectureLogits.from_config(config).get_config() == architecture.get_config()
    with pytest.raises(ValueError, match="make features"):
        ArchitectureLogits(operations=("dynamic_3", "dynamic_5"))
    with pytest.raises(ValueError, match="different names"):
        ArchitectureLogits(operations=("identity", "identity"))
