import keras
import numpy as np
import pytest
from hypothesis import given, settings

from keras_xd.grammar import build, parse, spaces
from keras_xd.grammar.topologies import TOPOLOGIES
from keras_xd_tests.grammar.graphs_test import TREES, text

TABLE = {
    "a": lambda shape, name: keras.layers.Rescaling(2.0, 1.0, name=name),
    "b": lambda shape, name: keras.layers.Rescaling(-0.5, name=name),
    "dense": lambda shape, name: keras.layers.Dense(shape[-1], name=name),
    "wide": lambda shape, name: keras.layers.Dense(2 * shape[-1], name=name),
    "subtract": lambda shape, name: keras.layers.Subtract(name=name),
}
SHARED = "(SHARED share:cell (S Linear2 cell (A Linear2 dense cell)) (C Linear2 dense (O dense)))"


def value(tree, x):
    """What a tree of `a`, `b`, `id` and `zero` computes; `None` where nothing arrives."""
    name, *arguments = tree
    if not arguments:
        return {"a": 2 * x + 1, "b": -0.5 * x, "id": x, "zero": None}[name]
    topology = TOPOLOGIES[name]
    values = {topology.inputs[0]: x}
    edges = sorted(zip(topology.edges, arguments, strict=True), key=lambda pair: pair[0])
    for (source, target), argument in edges:
        if values.get(source) is not None:
            result = value(argument, values[source])
            if result is not None:
                values[target] = topology.copies * result + values.get(target, 0)
    return values.get(topology.output)


@settings(max_examples=20)
@given(TREES)
def test_models_compute_what_the_term_says(tree):
    x = np.array([[1.0, -2.0]], "float32")
    expected = value(tree, x)
    inputs = keras.Input((2,))
    if expected is None:
        with pytest.raises(ValueError, match="A path must lead"):
            build(parse(text(tree)), inputs, TABLE)
    else:
        model = build(parse(text(tree)), inputs, TABLE)
        np.testing.assert_allclose(np.array(model(x)), expected, rtol=1e-6)


def test_motifs_share_the_architecture_and_weights_if_asked():
    term = parse(SHARED)
    apart = build(term, keras.Input((3,)), TABLE)
    together = build(term, keras.Input((3,)), TABLE, share_weights=True)
    # Two layers in each of two cells, or in both, and one between them.
    assert apart.count_params() == 5 * 12 and together.count_params() == 3 * 12
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    expected = x
    first, second, between = (together.get_layer(f"dense_edge{i}") for i in (1, 2, 3))
    for layer in (first, second, between, first, second):
        kernel, bias = layer.get_weights()
        expected = expected @ kernel + bias
    np.testing.assert_allclose(np.array(together(x)), expected, rtol=1e-5, atol=1e-6)


def test_cells_of_two_inputs_concatenate():
    names = ("max_pool", "avg_pool", "sep_conv3x3", "sep_conv5x5", "dil_conv3x3", "dil_conv5x5")
    table = {name: TABLE["a"] for name in names}
    term = spaces.darts_cell().parse(
        "(CELL DARTS (NODE2 inputs_0_1 (OP id) (OP max_pool))"
        " (NODE3 inputs_0_2 (OP avg_pool) (OP id)) (NODE4 inputs_1_3 (OP id) (OP id))"
        " (NODE5 inputs_0_1 (OP id) (OP id)))"
    )
    model = build(term, [keras.Input((2,)), keras.Input((2,))], table)
    x = np.array([[1.0, -2.0]], "float32")
    y = np.array([[0.5, 3.0]], "float32")
    node2 = x + 2 * y + 1
    node3 = 2 * x + 1 + node2
    expected = np.concatenate([node2, node3, y + node3, x + y], axis=1)
    np.testing.assert_allclose(np.array(model([x, y])), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("term", "inputs", "rule"),
    [
        ("(O x/y)", 1, "must have every primitive of the term. Received: no x/y"),
        ("(O a)", 2, "The term has 1 inputs. Received: inputs with 2"),
        ("(S Residual2 wide id id)", 1, "must have the same shape"),
        ("(O zero)", 1, "A path must lead"),
        ("(S blend a b)", 1, "must be one of the topologies"),
    ],
)
def test_terms_that_are_no_model(term, inputs, rule):
    given = [keras.Input((2,)) for _ in range(inputs)]
    with pytest.raises(ValueError, match=rule):
        build(parse(term), given, TABLE)
