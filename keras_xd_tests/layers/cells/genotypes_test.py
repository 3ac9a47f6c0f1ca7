import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from keras_xd import genotypes
from keras_xd.layers.cells.genotypes import BlockGenotype, CellGenotype, Genotype
from keras_xd_tests.layers.cells.cell_references import softmax

FEATURES = {"separable_3", "separable_5", "dilated_3", "dilated_5", "identity"}
FEATURES |= {"max_pooling_3", "average_pooling_3", "xd_3", "xd_5"}


def cell(*seconds):
    seconds = seconds or ("identity",) * 4
    return CellGenotype(
        tuple(BlockGenotype((("separable_3", 0), ("dynamic_3", 1)), name) for name in seconds)
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "operations", [genotypes.NOS_OPERATIONS, ("dynamic_5", "xd_3", "identity")]
)
def test_derivation_is_the_best_of_all(seed, operations):
    rng = np.random.default_rng(seed)
    # The first ones are hostile: no features would be taken without the rule.
    scale = (0.01, 1.0, 30.0)[seed % 3]
    logits = scale * rng.standard_normal((18, len(operations)))
    if seed < 6:
        logits += 8 * np.array([name not in FEATURES for name in operations])
    weights, found = softmax(logits), genotypes.derive_cell(logits, operations)
    edge = 0
    for block, derived in enumerate(found.blocks):
        nodes = 2 + block
        table = weights[edge : edge + nodes]
        edge += nodes
        # The best is to be had by the best on both edges, or by the best features on one of them.
        of_features = table[:, [name in FEATURES for name in operations]]
        sums = [
            table[i].max() + of_features[j].max()
            for i, j in itertools.permutations(range(nodes), 2)
        ]
        (a, i), (b, j) = derived.first
        assert i < j and {a, b} & FEATURES
        of = operations.index
        assert table[i, of(a)] + table[j, of(b)] == pytest.approx(max(sums), rel=1e-12)
        assert derived.second == operations[int(np.argmax(weights[14 + block]))]


def test_ties_go_to_the_first():
    names = ("channel_attention", "identity", "separable_3")
    found = genotypes.derive_cell(np.zeros((18, 3)), names)
    for block in found.blocks:
        assert block.first == (("channel_attention", 0), ("identity", 1))
        assert block.second == "channel_attention"


@pytest.mark.parametrize(
    "logits, operations, message",
    [
        (np.zeros((17, 11)), genotypes.NOS_OPERATIONS, "18 rows"),
        (np.zeros((18, 10)), genotypes.NOS_OPERATIONS, "11 numbers"),
        (np.full((18, 2), np.nan), ("identity", "dynamic_3"), "finite"),
        (np.full((18, 2), np.inf), ("identity", "dynamic_3"), "finite"),
        (np.zeros((18, 2)), ("dynamic_5", "dynamic_3"), "make features"),
        (np.zeros((18, 2)), ("identity", "identity"), "different names"),
        (np.zeros((18, 2)), ("identity", "convolution"), "different names"),
        (np.zeros((18, 1)), ("identity",), "two or more"),
        (np.zeros((18, 1)), "identity", "must be a sequence"),
    ],
)
def test_bad_weights(logits, operations, message):
    with pytest.raises(ValueError, match=message):
        genotypes.derive_cell(logits, operations)


def test_the_space_has_the_size_of_the_paper():
    """Section 4.2 counts pairs of earlier nodes times operations, 10^14 cells."""
    cells = published = 1
    for block in range(4):
        pairs = list(itertools.combinations(range(2 + block), 2))
        cells *= sum(_exists(pair, *names) for pair in pairs for names in _triples())
        published *= len(pairs) * 11**3
    assert math.floor(math.log10(published)) == 14
    # Without the pairs of which none makes features, as the section on the outcome says.
    assert cells == math.prod((1, 3, 6, 10)) * ((11**2 - 4**2) * 11) ** 4


def _triples():
    return itertools.product(genotypes.NOS_OPERATIONS, repeat=3)


def _exists(sources, first, other, second):
    try:
        return bool(BlockGenotype(tuple(zip((first, other), sources, strict=True)), second))
    except ValueError:
        return False


def test_json_and_text():
    found = genotypes.random_genotype(np.random.default_rng(3), genotypes.ALL_OPERATIONS)
    assert Genotype.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert hash(Genotype.from_dict(found.to_dict())) == hash(found)
    assert len({found, dataclasses.replace(found, normal=cell())}) == 2
    blocks = [f"{node} = identity[separable_3(0) + dynamic_3(1)]" for node in range(2, 6)]
    text = "; ".join(blocks)
    assert str(Genotype(cell(), cell())) == f"normal: {text}\nreduction: {text}"
    assert cell().operations == ("dynamic_3", "identity", "separable_3")


@pytest.mark.parametrize(
    "first, second",
    [
        ((("identity", 0), ("identity", 0)), "identity"),
        ((("dynamic_3", 0), ("channel_attention", 1)), "identity"),
        ((("identity", 0),), "identity"),
        ((("identity", 0), ("identity", -1)), "identity"),
        ((("identity", 0), ("identity", True)), "identity"),
        ((("identity", 0), ("convolution", 1)), "identity"),
        ((("identity", 0), ("identity", 1)), "none"),
        ((("identity", 0), ("identity", 1)), ["identity"]),
        (None, "identity"),
    ],
)
def test_bad_blocks(first, second):
    with pytest.raises(ValueError, match="two different nodes"):
        BlockGenotype(first, second)


def test_bad_cells_and_genotypes():
    late = BlockGenotype((("identity", 0), ("identity", 2)), "identity")
    with pytest.raises(ValueError, match="4 blocks"):
        CellGenotype((late, *cell().blocks[1:]))
    CellGenotype((cell().blocks[0], late, *cell().blocks[2:]))
    with pytest.raises(ValueError, match="4 blocks"):
        CellGenotype(cell().blocks[:3])
    with pytest.raises(ValueError, match="4 blocks"):
        CellGenotype((1, 2, 3, 4))
    with pytest.raises(ValueError, match="two CellGenotype"):
        Genotype(cell(), None)
    for content in ({}, {"normal": cell().to_dict()}, None, {"normal": {}, "reduction": {}}):
        with pytest.raises(ValueError, match="`to_dict`"):
            Genotype.from_dict(content)


def test_random_cells_are_drawn_evenly():
    rng = np.random.default_rng(0)
    names = ("identity", "separable_3", "dynamic_3")
    blocks = [genotypes.random_cell(rng, names).blocks for _ in range(4000)]
    # 8 of the 9 pairs of operations are allowed, on 3 pairs of nodes in the second block.
    counts = {}
    for found in blocks:
        counts[found[1].first] = counts.get(found[1].first, 0) + 1
    assert len(counts) == 24
    # Each is binomial of mean 167 and standard deviation 13.
    assert max(abs(count - 4000 / 24) for count in counts.values()) < 5 * 13
    seconds = np.array([found[3].second == "dynamic_3" for found in blocks])
    assert abs(seconds.mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / 4000)
