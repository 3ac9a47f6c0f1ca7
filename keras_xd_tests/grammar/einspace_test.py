import numpy as np
import pytest

from keras_xd.grammar import growth, spaces
from keras_xd.grammar.graphs import network_digest, network_graph
from keras_xd.grammar.rules import read_productions


def test_weights_are_in_balance():
    assert growth(spaces.einspace()) == pytest.approx(0.935, abs=5e-4)
    assert growth(spaces.einspace(0.41)) > 1 > growth(spaces.einspace(0.42))
    for computation in (0.0, 1.0):
        with pytest.raises(ValueError, match="`computation` must be between 0 and 1"):
            spaces.einspace(computation)


@pytest.mark.parametrize("computation", [0.32, 0.46])
@pytest.mark.parametrize("name", ["IMAGE", "IMAGE_PART", "COLUMNS", "COLUMN_PART"])
def test_groups_have_the_published_probabilities(name, computation):
    """Computation has its own, sequences, branches and routes share the rest equally."""
    shares = dict.fromkeys(("sequence", "branch", "route", "computation"), 0.0)
    for production in read_productions(str(spaces.einspace(computation)))[name]:
        symbols = (production.operator, *production.arguments)
        if symbols == ("Linear1", "COMPUTE"):
            group = "computation"
        elif production.operator.startswith(("clone", "group")):
            group = "branch"
        elif symbols[1].startswith(("im2col", "permute")):
            group = "route"
        else:
            group = "sequence"
        shares[group] += production.weight
    found = np.array(list(shares.values())) / sum(shares.values())
    np.testing.assert_allclose(found, [*3 * [(1 - computation) / 3], computation], atol=1e-4)


def test_terms_vary_within_the_space(rng):
    grammar = spaces.einspace()
    terms = list(spaces.einspace_baselines().values())
    terms += [grammar.sample(rng) for _ in range(10)]
    for term in terms:
        grammar.check(grammar.mutate(term, rng))
        grammar.check(grammar.crossover(term, terms[0], rng))
        network_digest(term)


def test_all_groups_of_operations_occur(rng):
    grammar = spaces.einspace()
    found = {node.operator for _ in range(300) for node in grammar.sample(rng).nodes()}
    assert {
        *("clone2_add", "clone4_add", "clone8_add", "clone2_concat", "clone4_concat"),
        *("clone2_matmul", "clone2_scaled_matmul", "group2_concat", "group4_concat"),
        *("im2col1x1", "im2col1x1s2", "im2col3x3", "im2col3x3s2", "col2im", "permute"),
        *("im2col4x4s4", "im2col8x8s8", "im2col16x16s16"),
        *("id", "linear", "norm", "leaky_relu", "softmax", "pos_enc"),
    } <= found


def operations(name):
    term = spaces.einspace_baselines()[name]
    return [edge.operation for edge in network_graph(term).edges]


def test_baselines_are_the_networks_they_are_named_after():
    resnet, wide, vit, mixer = map(operations, ("resnet18", "wide_resnet16_4", "vit", "mlp_mixer"))
    # Eight blocks of two convolutions, and one in the place of pooling; three shortcuts.
    assert resnet.count("im2col3x3") + resnet.count("im2col3x3s2") == 17
    assert resnet.count("linear1to2") == 3 and resnet.count("im2col3x3s2") == 4
    # Six blocks of two convolutions, the first of which widens; three shortcuts.
    assert wide.count("im2col3x3") + wide.count("im2col3x3s2") == 12
    assert wide.count("linear9to4") == 1 and wide.count("im2col1x1s2") == 2
    # Four blocks of four heads with two products each, and a softmax.
    assert vit.count("matmul") == vit.count("scaled_matmul") == vit.count("softmax") == 16
    assert vit.count("linear4to1") == 1 + 4 and vit.count("pos_enc") == 1
    assert mixer.count("permute") == 16 and mixer.count("linear1to4") == 8
    assert "matmul" not in {*resnet, *wide, *mixer} and "im2col3x3" not in {*vit, *mixer}
