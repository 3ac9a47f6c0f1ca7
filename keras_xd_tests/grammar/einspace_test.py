import numpy as np
import pytest

from keras_xd.grammar import (
    expected_size,
    growth,
    network_digest,
    network_graph,
    operation_graph,
    spaces,
)
from keras_xd.grammar.topologies import TOPOLOGIES


def test_weights_are_in_balance():
    assert growth(spaces.einspace()) == pytest.approx(0.938, abs=5e-4)
    assert expected_size(spaces.einspace()) == pytest.approx(17.5, abs=0.05)
    assert growth(spaces.einspace(3.6)) > 1 > growth(spaces.einspace(3.7))
    with pytest.raises(ValueError, match="`computation` must be positive"):
        spaces.einspace(0.0)


def test_terms_vary_within_the_space(rng):
    grammar = spaces.einspace()
    terms = list(spaces.einspace_baselines().values())
    terms += [grammar.sample(rng) for _ in range(20)]
    for term in terms:
        grammar.check(term)
        assert grammar.parse(str(term)) == term
        grammar.check(grammar.mutate(term, rng))
        grammar.check(grammar.crossover(term, terms[0], rng))
        operation_graph(term), network_digest(term)


def test_all_groups_of_operations_occur(rng):
    grammar = spaces.einspace()
    found = {node.operator for _ in range(300) for node in grammar.sample(rng).nodes()}
    assert {
        *("clone2_add", "clone4_add", "clone8_add", "clone2_matmul"),
        *("group2_concat", "group4_concat", "im2col1x1", "im2col3x3", "col2im", "permute"),
        *("id", "linear", "norm", "relu", "leaky_relu", "softmax", "pos_enc"),
    } <= found


def operations(name):
    term = spaces.einspace_baselines()[name]
    return [edge.operation for edge in network_graph(term).edges]


def test_baselines_are_the_networks_they_are_named_after():
    resnet, vit, mixer = map(operations, ("resnet", "vit", "mlp_mixer"))
    assert resnet.count("im2col3x3") == 6 and resnet.count("im2col3x3s2") == 2
    assert resnet.count("linear9to1") == 6 and "matmul" not in resnet
    # Two blocks of four heads with two products each, and a softmax.
    assert vit.count("matmul") == 16 and vit.count("softmax") == 8
    assert vit.count("part1of4") == 2 and vit.count("pos_enc") == 1
    assert mixer.count("permute") == 4 and mixer.count("linear1to4") == 4
    assert not {"matmul", "im2col3x3"} & set(mixer)


def test_branches_get_one_value_each():
    topology = TOPOLOGIES["clone2_matmul"]
    term = spaces.einspace().parse(
        "(NET Linear3 (IMAGE Linear1 (COMPUTE id)) (EMBED Linear2 im2col4x4s4 (TOKENS linear4to1))"
        " (COLUMNS clone2_matmul (SQUARE clone2_matmul (COLUMN_PART clone2_add (COLUMN_PART Linear1"
        " (COMPUTE linear)) (COLUMN_PART Linear1 (COMPUTE relu))) (TRANSPOSED Linear2 (COLUMN_PART"
        " Linear1 (COMPUTE norm)) permute)) (COLUMN_PART Linear1 (COMPUTE softmax))))"
    )
    graph = network_graph(term)
    stacks = [node for node, how in graph.merges.items() if how == "stack"]
    assert len(stacks) == 2
    for node in stacks:
        assert sum(edge.target == node for edge in graph.edges) == 2
    assert topology.copies == 1 and TOPOLOGIES["clone8_add"].copies == 8
    with pytest.raises(ValueError, match="4 branches has 1 arguments. Received: 2"):
        TOPOLOGIES["group4_concat"].expand(term.arguments[:2])


def test_evolution_begins_at_the_baselines():
    kt = pytest.importorskip("keras_tuner")
    from tuner_integration import GrammarOracle

    baselines = [str(term) for term in spaces.einspace_baselines().values()]
    oracle = GrammarOracle(
        {"network": spaces.einspace()},
        kt.Objective("loss", "min"),
        max_trials=8,
        strategy="evolution",
        initial_trials=3,
        sample=1,
        initial_terms=baselines,
        seed=0,
    )
    asked = []
    while terms := oracle.ask():
        asked += terms
        oracle.tell(terms[0], float(np.log(len(terms[0]))))
    assert asked[:3] == baselines and len(set(asked)) == 8
    grammar = spaces.einspace()
    # A mutation keeps most of its parent.
    parts = [{str(node) for node in grammar.parse(text).nodes()} for text in asked]
    for later in parts[3:]:
        assert max(len(later & earlier) for earlier in parts[:3]) >= 3
