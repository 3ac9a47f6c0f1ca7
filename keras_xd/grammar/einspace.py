"""einspace: networks of fundamental operations, with networks that are known as terms of it."""

from keras_xd.core.argument_types import check_types
from keras_xd.grammar.grammar import Grammar
from keras_xd.grammar.terms import Term

_DEPTH = 18
# Modules of images and of columns, with and without groups of channels inside: `IMAGE` and
# `COLUMNS` have them, what stands in a group, or on transposed columns, has them no more.
_MODULES = """
{name} -> Linear2 {name} {name} | clone2_add {name} {name}
        | clone4_add {name} [0.1] | clone8_add {name} [0.05]
        {groups} {routes}
        | Linear3 linear1to4 COMPUTE linear4to1 | Linear1 COMPUTE [{computation:g}]
"""
_GROUPS = (
    "| group2_concat {inner} {inner} | group4_concat {inner} [0.1] | group8_concat {inner} [0.05]"
)
_IMAGE_ROUTES = "| Linear3 im2col3x3 PATCH col2im | Linear3 im2col1x1 {columns} col2im"
_COLUMN_ROUTES = "| Linear3 permute COLUMN_PART permute | clone2_matmul SQUARE COLUMN_PART"
_REST = """
NET -> Linear1 IMAGE [2] | Linear3 IMAGE DOWN MIDDLE | Linear3 IMAGE EMBED COLUMNS
MIDDLE -> Linear1 IMAGE [2] | Linear3 IMAGE DOWN LAST | Linear3 IMAGE EMBED COLUMNS
LAST -> Linear1 IMAGE [2] | Linear3 IMAGE EMBED COLUMNS
DOWN -> Linear3 im2col3x3s2 HALVED col2im
EMBED -> Linear2 im2col4x4s4 TOKENS
PATCH -> linear9to1 [2] | Linear2 COMPUTE PATCH | Linear2 PATCH COMPUTE
HALVED -> linear9to2 [2] | Linear2 COMPUTE HALVED | Linear2 HALVED COMPUTE
TOKENS -> linear4to1 [2] | Linear2 COMPUTE TOKENS | Linear2 TOKENS COMPUTE
SQUARE -> clone2_matmul COLUMN_PART TRANSPOSED [3] | Linear2 SQUARE COMPUTE
TRANSPOSED -> Linear2 COLUMN_PART permute
COMPUTE -> id | linear [2] | norm | relu | leaky_relu | softmax | pos_enc
"""


@check_types
def einspace(computation: float = 4.5) -> Grammar:
    """Return the space of fundamental operations of einspace, as a grammar with types.

    Modules are sequences; branches, which `clone` a tensor or split its channels in `group`s, and
    aggregation by `add`, `concat` or `matmul`; routes, `im2col` and `permute`, with a module
    between them and what undoes them; and computation: linear maps, normalization, activations,
    positional encodings or nothing. The published grammar checks shapes while it derives a
    network. Here the nonterminals are types: images, columns `(positions, channels)`, patches,
    squares of positions, so every term, mutation and crossover fits. Images are halved twice at
    most, and widths are multiples of that of the stem, which must be a multiple of 8.

    The weight of computation keeps the other modules in balance: `growth` says by which factor a
    derivation grows, 0.94 by default, and with 3.6 or less derivations would have no finite
    expected size, counting all copies of repeated branches.

    Args:
        computation: weight of a module that computes, beside weights of about 1 of all others.

    Returns:
        A `keras_xd.grammar.Grammar` of recursive terms with at most 18 nested nonterminals.

    Raises:
        ValueError: the weight is not positive.

    Example:

    >>> import numpy as np
    >>> from keras_xd.grammar import growth, spaces
    >>> grammar = spaces.einspace()
    >>> growth(grammar) < 1 < growth(spaces.einspace(computation=3.0))
    True
    >>> grammar.sample(np.random.default_rng(0)).depth <= 18
    True

    Reference:
        Ericsson et al., "einspace: searching for neural architectures from fundamental
        operations", NeurIPS 2024, sections 3 and 4.
    """
    if not computation > 0:
        raise ValueError(f"`computation` must be positive. Received: computation={computation!r}")
    modules = {
        "IMAGE": ("IMAGE_PART", _IMAGE_ROUTES.format(columns="COLUMNS")),
        "IMAGE_PART": (None, _IMAGE_ROUTES.format(columns="COLUMN_PART")),
        "COLUMNS": ("COLUMN_PART", _COLUMN_ROUTES),
        "COLUMN_PART": (None, _COLUMN_ROUTES),
    }
    lines = [
        _MODULES.format(
            name=name,
            groups=_GROUPS.format(inner=inner) if inner else "",
            routes=routes,
            computation=computation,
        ).replace("\n", " ")
        for name, (inner, routes) in modules.items()
    ]
    return Grammar("\n".join([*_REST.strip().splitlines(), *lines]), "NET", max_depth=_DEPTH)


@check_types
def einspace_baselines() -> dict[str, Term]:
    """Return networks that are known, as terms of `einspace`: a start for a search.

    `resnet` has a residual block of two 3 × 3 convolutions on each of three resolutions, `vit`
    patches of 4 × 4 pixels and two blocks of attention of four heads, `mlp_mixer` two blocks that
    mix positions and channels by turns.

    Returns:
        Dictionary from names to terms, for `GrammarOracle(initial_terms=…)`.

    Example:

    >>> from keras_xd.grammar import spaces
    >>> grammar = spaces.einspace()
    >>> for term in spaces.einspace_baselines().values():
    ...     grammar.check(term)

    Reference:
        He et al., "Deep residual learning for image recognition", 2016; Dosovitskiy et al., "An
        image is worth 16x16 words", 2021; Tolstikhin et al., "MLP-Mixer", 2021.
    """

    def compute(module, name):
        return f"({module} Linear1 (COMPUTE {name}))"

    def row(module, parts):
        """Modules in a row, nested like a balanced tree, which is the least deep."""
        if len(parts) == 1:
            return parts[0]
        half = len(parts) // 2
        return f"({module} Linear2 {row(module, parts[:half])} {row(module, parts[half:])})"

    def residual(module, *parts):
        return f"({module} clone2_add {row(module, parts)} {compute(module, 'id')})"

    convolution = "(IMAGE Linear3 im2col3x3 (PATCH linear9to1) col2im)"
    norm, relu = compute("IMAGE", "norm"), compute("IMAGE", "relu")
    body = residual("IMAGE", convolution, norm, relu, convolution, norm)
    block = row("IMAGE", [body, relu])
    down = "(DOWN Linear3 im2col3x3s2 (HALVED linear9to2) col2im)"
    last = f"(MIDDLE Linear3 {block} {down} (LAST Linear1 {block}))"

    linear, part = compute("COLUMNS", "linear"), compute("COLUMN_PART", "linear")
    products = f"(SQUARE clone2_matmul {part} (TRANSPOSED Linear2 {part} permute))"
    weights = f"(SQUARE Linear2 {products} (COMPUTE softmax))"
    heads = f"(COLUMNS group4_concat (COLUMN_PART clone2_matmul {weights} {part}))"
    layer = compute("COLUMNS", "norm")
    perceptron = "({} Linear3 linear1to4 (COMPUTE relu) linear4to1)"
    channels = residual("COLUMNS", layer, perceptron.format("COLUMNS"))
    attention = residual("COLUMNS", layer, heads, linear)
    mixed = f"(COLUMNS Linear3 permute {perceptron.format('COLUMN_PART')} permute)"
    positions = residual("COLUMNS", layer, mixed)
    embedding = "(EMBED Linear2 im2col4x4s4 (TOKENS linear4to1))"
    begin = f"(NET Linear3 {compute('IMAGE', 'id')} {embedding}"
    transformer = row("COLUMNS", [compute("COLUMNS", "pos_enc"), *2 * [attention, channels], layer])
    texts = {
        "resnet": f"(NET Linear3 {block} {down} {last})",
        "vit": f"{begin} {transformer})",
        "mlp_mixer": f"{begin} {row('COLUMNS', [*2 * [positions, channels], layer])})",
    }
    grammar = einspace()
    return {name: grammar.parse(text) for name, text in texts.items()}
