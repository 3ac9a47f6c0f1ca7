"""Kernels against the definition, computed on the graph itself."""

import collections

import numpy as np
import pytest

from keras_xd import grammar
from keras_xd.grammar import parse, spaces
from keras_xd_tests.grammar.operation_graphs import operation_graph
from tuner_integration import kernels


def colours(term, iterations, level=None):
    """Counters of the nested tuples that the definition speaks of, an iteration each."""
    term = grammar.expand(term)
    labels, successors = operation_graph(term if level is None else term.fold(level))
    current, result = list(labels), [collections.Counter(labels)]
    for _ in range(iterations):
        current = [
            (own, tuple(sorted((current[s] for s in after), key=repr)))
            for own, after in zip(current, successors, strict=True)
        ]
        result.append(collections.Counter(current))
    return result


def definition(a, b, iterations, level=None):
    pairs = zip(colours(a, iterations, level), colours(b, iterations, level), strict=True)
    return sum(count * y[colour] for x, y in pairs for colour, count in x.items())


MOTIFS = grammar.Grammar("S -> Linear2 cell OP | Residual2 cell cell OP\nOP -> id | conv").share(
    {"cell": grammar.Grammar("CELL -> Diamond2 A A A A | Linear2 A A\nA -> pool | id | zero")}
)
# Without constraints, so that there are dead parts.
DEAD = grammar.Grammar(
    """
    S -> Cell C C C C C C | Residual3 C C C C
    C -> Residual2 A A A | Linear1 A | Diamond3 A A A A A A | Cell A A A A A A
    A -> zero | id | conv | Linear2 B zero | Linear1 B | Residual2 B id id
    B -> pool | relu | zero
    """
)
SPACES = {
    "cell": spaces.nas_bench_201_cell(),
    "darts": spaces.darts_cell(),
    "activation": spaces.activation_functions(),
    "motifs": MOTIFS,
    "dead": DEAD,
    "hierarchical": spaces.hierarchical_nas_bench_201(),
}


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("level", [None, 0, 1, 2, 3])
def test_dot_products_follow_the_definition(name, level):
    space, rng = SPACES[name], np.random.default_rng(3)
    count = 4 if name == "hierarchical" else 25
    terms = [space.sample(rng) for _ in range(count)]
    terms += [space.mutate(term, rng) for term in terms]
    iterations = 3
    kernel = kernels.WeisfeilerLehman(iterations, level)
    features = kernel.features(terms)
    for term, known in zip(terms, features, strict=True):
        expected = [sorted(c.values()) for c in colours(term, iterations, level)]
        assert [counts.tolist() for _, counts in known] == expected
    pairs = rng.integers(len(terms), size=(20, 2))
    products = kernels.gram(features, features)
    for a, b in pairs:
        assert products[a, b] == definition(terms[a], terms[b], iterations, level)
    first = kernels.gram(features, features, iterations=1)
    for a, b in pairs[:5]:
        assert first[a, b] == definition(terms[a], terms[b], 1, level)


def test_kept_parts_are_bounded(monkeypatch):
    monkeypatch.setattr(kernels, "_KEPT_PARTS", 20)
    rng = np.random.default_rng(0)
    kernel, other = kernels.WeisfeilerLehman(2), kernels.WeisfeilerLehman(2)
    for _ in range(10):
        term = DEAD.sample(rng)
        (found,), (expected,) = kernel.features([term]), other.features([term])
        np.testing.assert_array_equal(found[2][0], expected[2][0])
        assert len(kernel._parts) < 20 + term.size


def test_levels_have_colours_of_their_own():
    term = parse("(S Linear2 conv (OP pool))")
    whole, folded = (kernels.WeisfeilerLehman(1, level).features([term])[0] for level in (None, 2))
    assert not np.intersect1d(whole[0][0], folded[0][0]).size


@pytest.mark.parametrize(
    "text", ["(S Unknown conv)", "(S Linear2 conv)", "(S Linear1 (T DARTS id id id id))"]
)
def test_graphs_that_are_none_are_refused(text):
    with pytest.raises(ValueError):
        operation_graph(parse(text))
    with pytest.raises(ValueError):
        kernels.WeisfeilerLehman(1).features([parse(text)])


@pytest.mark.parametrize("arguments", [(-1,), (1.5,), (2, -1), (2, "1")])
def test_numbers_are_checked(arguments):
    with pytest.raises(ValueError, match="must be an integer"):
        kernels.WeisfeilerLehman(*arguments)


def test_hierarchical_kernel_is_made_of_the_normalised_levels():
    rng = np.random.default_rng(0)
    terms = [SPACES["motifs"].sample(rng) for _ in range(6)]
    kernel = kernels.HierarchicalKernel(levels=(0, 1, 2), iterations=4)
    features = kernel.features(terms)
    folded, whole = kernel.grams(features)
    grams = [*folded, whole[3]]
    sizes = [(1, 0), (2, 1), (2, 2), (3, None)]
    for actual, (iterations, level) in zip(grams, sizes, strict=True):
        products = np.array([[definition(a, b, iterations, level) for b in terms] for a in terms])
        norms = np.sqrt(np.diag(products))
        np.testing.assert_allclose(actual, products / norms / norms[:, None], rtol=1e-12)
        assert (np.linalg.eigvalsh(actual) > -1e-12).all()
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    cross = kernel.cross(features[:4], 3, weights)(features[4:])
    expected = sum(w * g for w, g in zip(weights, grams, strict=True))[4:, :4]
    np.testing.assert_allclose(cross, expected, rtol=1e-12)


def test_the_order_of_the_edges_of_a_topology_does_not_matter():
    """Whether its input reaches the output past all operations is known of every edge."""
    topologies = {
        f"Skip{number}": grammar.Topology(edges)
        for number, edges in enumerate([((1, 3), (1, 2), (2, 3)), ((1, 2), (1, 3), (2, 3))])
    }
    kernel = kernels.WeisfeilerLehman(2, topologies=topologies)
    terms = [parse(f"(S Skip{number} id id conv)") for number in range(2)]
    first, second = kernel.features(terms)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
