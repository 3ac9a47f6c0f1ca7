"""Spaces of architectures as grammars: those of the papers, and one of searchable operations."""

from keras_xd.core.argument_types import check_types
from keras_xd.grammar.constraints import Connected, InputDependent
from keras_xd.grammar.einspace import einspace, einspace_baselines
from keras_xd.grammar.grammar import Grammar

__all__ = [
    "activation_functions",
    "darts_cell",
    "einspace",
    "einspace_baselines",
    "hierarchical_nas_bench_201",
    "hierarchical_nas_bench_201_fixed_macro",
    "hierarchical_nas_bench_201_shared_cell",
    "nas_bench_201",
    "nas_bench_201_cell",
    "searchable_operations",
]

_MACRO = """
D2 -> Linear3 D1 D1 D0 | Linear3 D0 D1 D1 | Linear4 D1 D1 D0 D0
D1 -> Linear3 C C DOWN | Linear4 C C C DOWN | Residual3 C C DOWN DOWN
D0 -> Linear3 C C {cell} | Linear4 C C C {cell} | Residual3 C C {cell} {cell}
DOWN -> Linear2 {cell} resBlock | Linear3 {cell} {cell} resBlock
      | Residual2 {cell} resBlock resBlock
C -> Linear2 {cell} {cell} | Linear3 {cell} {cell} {cell} | Residual2 {cell} {cell} {cell}
"""
# The first alternative of each nonterminal above: three stages of five cells.
_FIXED_MACRO = """
D2 -> Linear3 D1 D1 D0
D1 -> Linear3 C C DOWN
D0 -> Linear3 C C {cell}
DOWN -> Linear2 {cell} resBlock
C -> Linear2 {cell} {cell}
"""
_HIERARCHICAL_CELL = """
CELL -> Cell OPS OPS OPS OPS OPS OPS
OPS -> id | zero | Linear1 CONVBLOCK [2] | avg_pool
CONVBLOCK -> Linear3 ACT CONV NORM
ACT -> relu | hardswish | mish
CONV -> conv3x3o | conv1x1o | dconv3x3o
NORM -> batch | instance | layer
"""
_CELL = """
CELL -> Cell OPS OPS OPS OPS OPS OPS
OPS -> id | zero | conv3x3 | conv1x1 | avg_pool
"""
_UNARY = (
    "identity negate absolute square cube square_root scale shift log_absolute exp sin cos sinh "
    "cosh tanh arcsinh arctan sinc relu minimum_zero sigmoid softplus gaussian erf constant"
)
_BINARY = (
    "add multiply subtract divide maximum minimum sigmoid_product gaussian_distance "
    "absolute_distance weighted_sum"
)


@check_types
def hierarchical_nas_bench_201() -> Grammar:
    """Return hierarchical NAS-Bench-201: a macro topology and a cell of its own at every place.

    All paths have two downsamplings: the digit of `D2`, `D1` and `D0` says how many. Convolutions
    are drawn with probability 0.4. Cells must connect their input with their output. 10^375.8
    terms.

    Example:

    >>> import math
    >>> import numpy as np
    >>> from keras_xd.grammar import spaces
    >>> grammar = spaces.hierarchical_nas_bench_201()
    >>> round(math.log10(grammar.count()), 1)
    375.8
    >>> grammar.sample(np.random.default_rng(0)).operator
    'Linear3'

    Reference:
        Schrodi et al., "Towards discovering neural architectures from scratch", 2022, section 5.
    """
    return _connected(_MACRO.format(cell="CELL") + _HIERARCHICAL_CELL)


@check_types
def hierarchical_nas_bench_201_fixed_macro() -> Grammar:
    """Return hierarchical NAS-Bench-201 with the macro topology fixed: three stages of five cells.

    Every cell is searched on its own.

    Example:

    >>> from keras_xd.grammar import spaces
    >>> spaces.hierarchical_nas_bench_201_fixed_macro().count() == 30**90
    True
    """
    return _connected(_FIXED_MACRO.format(cell="CELL") + _HIERARCHICAL_CELL)


@check_types
def hierarchical_nas_bench_201_shared_cell() -> Grammar:
    """Return hierarchical NAS-Bench-201 with one cell for all places of the macro topology.

    Example:

    >>> from keras_xd.grammar import spaces
    >>> grammar = spaces.hierarchical_nas_bench_201_shared_cell()
    >>> macros = grammar.count() // 30**6
    >>> macros
    75549915
    """
    return Grammar(_MACRO.format(cell="cell")).share({"cell": _connected(_HIERARCHICAL_CELL)})


@check_types
def nas_bench_201() -> Grammar:
    """Return cell-based NAS-Bench-201: the fixed macro topology with one shared cell.

    Example:

    >>> from keras_xd.grammar import spaces
    >>> spaces.nas_bench_201().count()
    15625

    Reference:
        Dong and Yang, "NAS-Bench-201: extending the scope of reproducible neural architecture
        search", ICLR 2020.
    """
    return Grammar(_FIXED_MACRO.format(cell="cell")).share({"cell": nas_bench_201_cell()})


@check_types
def nas_bench_201_cell() -> Grammar:
    """Return the cell of NAS-Bench-201: one of five operations on each of six edges.

    Example:

    >>> from keras_xd.grammar import spaces
    >>> grammar = spaces.nas_bench_201_cell()
    >>> grammar.count(), grammar.count(constrained=True)
    (15625, 15284)

    Reference:
        Dong and Yang, "NAS-Bench-201: extending the scope of reproducible neural architecture
        search", ICLR 2020.
    """
    return _connected(_CELL)


@check_types
def darts_cell() -> Grammar:
    """Return the cell of DARTS: four nodes, each with operations on two different earlier nodes.

    Nodes 0 and 1 are the outputs of the two cells before. `(NODE3 inputs_0_2 a b)` is the sum of
    operation a on node 0 and operation b on node 2. A network has two such terms, of its normal
    and its reduction cells.

    Example:

    >>> from keras_xd.grammar import spaces
    >>> spaces.darts_cell().count()
    1037664180

    Reference:
        Liu et al., "DARTS: Differentiable architecture search", ICLR 2019, section 2.1.
    """
    nodes = range(2, 6)
    lines = [f"CELL -> DARTS {' '.join(f'NODE{node}' for node in nodes)}"]
    for node in nodes:
        pairs = [(i, j) for j in range(node) for i in range(j)]
        lines.append(f"NODE{node} -> {' | '.join(f'inputs_{i}_{j} OP OP' for i, j in pairs)}")
    lines.append(
        "OP -> id | max_pool | avg_pool | sep_conv3x3 | sep_conv5x5 | dil_conv3x3 | dil_conv5x5"
    )
    return Grammar("\n".join(lines))


@check_types
def activation_functions() -> Grammar:
    """Return the space of activation functions: unary and binary functions of two levels.

    What is drawn depends on its input: `constant` never stands everywhere.

    Example:

    >>> from keras_xd.grammar import spaces
    >>> grammar = spaces.activation_functions()
    >>> grammar.count()
    393762525
    >>> swish = grammar.parse(
    ...     "(L2 UnaryTopo (L1 BinaryTopo (BINARY sigmoid_product) (UNARY identity)"
    ...     " (UNARY identity) id id))"
    ... )
    >>> swish.formula()
    'UnaryTopo(BinaryTopo(sigmoid_product, identity, identity, id, id))'

    Reference:
        Ramachandran et al., "Searching for activation functions", 2017, section 2.
    """
    return Grammar(
        f"""
        L2 -> BinaryTopo BINARY L1 L1 id id | UnaryTopo L1
        L1 -> BinaryTopo BINARY UNARY UNARY id id | UnaryTopo UNARY
        BINARY -> {" | ".join(_BINARY.split())}
        UNARY -> {" | ".join(_UNARY.split())}
        """,
        constraints=[InputDependent(["constant"])],
    )


@check_types
def searchable_operations() -> Grammar:
    """Return macro topologies whose leaves are operations that are searched themselves.

    The leaves are XD-operations that begin as a convolution, a depthwise convolution, a pooling or
    the identity, K-operations, attention and dynamic convolutions: outside, the grammar decides
    how they are arranged; inside, gradient descent decides what they compute. All paths have two
    downsamplings. An operation stands between a normalization and an activation, or alone.

    Example:

    >>> import math
    >>> from keras_xd.grammar import spaces
    >>> grammar = spaces.searchable_operations()
    >>> round(math.log10(grammar.count()), 1)
    113.1
    >>> "attention" in grammar.terminals
    True
    """
    return _connected(
        """
        D2 -> Linear3 D1 D1 D0 | Linear3 D0 D1 D1 | Linear4 D1 D1 D0 D0
        D1 -> Linear2 BLOCK DOWN | Linear3 BLOCK BLOCK DOWN | Residual3 BLOCK BLOCK DOWN DOWN
        D0 -> Linear2 BLOCK BLOCK | Linear3 BLOCK BLOCK BLOCK | Residual3 BLOCK BLOCK BLOCK BLOCK
        DOWN -> Linear2 BLOCK down | Residual2 BLOCK down down
        BLOCK -> Linear1 LAYER | Residual2 LAYER SHORT LAYER | Diamond2 LAYER LAYER LAYER LAYER
        SHORT -> id | zero
        LAYER -> Linear1 OPERATION | Linear3 NORM ACT OPERATION
        NORM -> batch | layer
        ACT -> relu | hardswish | mish
        OPERATION -> xd_conv3x3 | xd_conv1x1 | xd_depthwise3x3 | xd_avg_pool | xd_identity
                   | k_operation | attention | dynamic_conv
        """
    )


def _connected(text):
    return Grammar(text, constraints=[Connected()])
