"""einspace: networks of fundamental operations, with networks that are known as terms of it."""

from keras_xd.core.argument_types import check_types
from keras_xd.grammar.grammar import Grammar
from keras_xd.grammar.terms import Term

_DEPTH = 18
# Modules of images and of columns with what stands in their groups, and their routes. What stands
# in a group, or on transposed columns, has no groups itself.
_MODULES = {
    "IMAGE": ("IMAGE_PART", ("im2col3x3 PATCH col2im", "im2col1x1 COLUMNS col2im")),
    "IMAGE_PART": (None, ("im2col3x3 PATCH col2im", "im2col1x1 COLUMN_PART col2im")),
    "COLUMNS": ("COLUMN_PART", ("permute COLUMN_PART permute",)),
    "COLUMN_PART": (None, ("permute COLUMN_PART permute",)),
}
# Four and eight branches are rare, for all copies count in the balance.
_COPIES = {2: 1.0, 4: 0.1, 8: 0.05}
# Modules that halve an image, halve it and double its width, or widen it four times: their strides.
_STRIDES = {"STRIDE": "s2", "HALVE": "s2", "WIDEN": ""}
_SIZE = """
{name} -> Linear3 im2col3x3{stride} {name}3 col2im [2] | Linear3 im2col1x1{stride} {name}1 col2im
        | clone2_add {name} {name} [0.5] | Linear2 {name} IMAGE | Linear2 IMAGE {name}
"""
_STEPS = (
    " | Linear3 IMAGE STRIDE STAGE [0.5] | Linear3 IMAGE HALVE STAGE [0.5]"
    " | Linear3 IMAGE WIDEN STAGE [0.25] | Linear3 IMAGE EMBED COLUMNS [0.75]"
)
# One linear map stands for the eight published ones, which differ by their widths alone.
_REST = """
EMBED -> Linear2 im2col4x4s4 EMBED4 | Linear2 im2col8x8s8 EMBED8 | Linear2 im2col16x16s16 EMBED16
SQUARE -> clone2_matmul COLUMN_PART TRANSPOSED | clone2_scaled_matmul COLUMN_PART TRANSPOSED
        | Linear2 SQUARE COMPUTE
TRANSPOSED -> Linear2 COLUMN_PART permute
COMPUTE -> id | linear [8] | norm | leaky_relu | softmax | pos_enc
"""
# Linear maps of windows and of single pixels, with computations before and behind them.
_MAPS = {
    "PATCH": "linear9to1",
    "STRIDE3": "linear9to1",
    "STRIDE1": "linear",
    "HALVE3": "linear9to2",
    "HALVE1": "linear1to2",
    "WIDEN3": "linear9to4",
    "WIDEN1": "linear1to4",
    "EMBED4": "linear4to1",
    "EMBED8": "linear16to1",
    "EMBED16": "linear64to1",
}


@check_types
def einspace(computation: float = 0.46) -> Grammar:
    """Return the space of fundamental operations of einspace, as a grammar with types.

    Modules are sequences; branches, which `clone` a tensor or split its channels in `group`s, and
    aggregation by `add`, `concat` or products of matrices, scaled or not; routes, `im2col` and
    `permute`, with a module between them and what undoes them; and computation: linear maps,
    normalization, leaky ReLU, softmax, positional encodings or nothing. The published grammar
    checks shapes while it derives a network. Here the nonterminals are types: images, columns
    `(positions, channels)`, windows, squares of positions, so every term, mutation and crossover
    fits. Widths are multiples of that of the stem, which must be a multiple of 8.

    Sequences, branches and routes have equal probabilities, as published. That of computation
    keeps the others in balance: `growth` says by which factor a derivation grows, 0.94 by default.
    With the published 0.32 it would have no finite expected size, counting all copies of repeated
    branches.

    Args:
        computation: probability of a module that computes.

    Returns:
        A `keras_xd.grammar.Grammar` of recursive terms with at most 18 nested nonterminals.

    Example:

    >>> import numpy as np
    >>> from keras_xd.grammar import growth, spaces
    >>> grammar = spaces.einspace()
    >>> growth(grammar) < 1 < growth(spaces.einspace(computation=0.32))
    True
    >>> grammar.sample(np.random.default_rng(0)).depth <= 18
    True

    Reference:
        Ericsson et al., "einspace: searching for neural architectures from fundamental
        operations", NeurIPS 2024, sections 3 and 4.
    """
    if not 0 < computation < 1:
        raise ValueError(
            f"`computation` must be between 0 and 1. Received: computation={computation!r}"
        )
    alternatives = {name: _alternatives(name, *rest) for name, rest in _MODULES.items()}
    computing = f"Linear1 COMPUTE [{3 * computation / (1 - computation):g}]"
    lines = [f"NET -> {alternatives['IMAGE']}{_STEPS}", f"STAGE -> Linear1 IMAGE [2]{_STEPS}"]
    lines += [f"{name} -> {texts} | {computing}" for name, texts in alternatives.items()]
    lines += [
        _SIZE.format(name=name, stride=stride).replace("\n", " ")
        for name, stride in _STRIDES.items()
    ]
    lines += [
        f"{name} -> {linear} [2] | Linear2 COMPUTE {name} | Linear2 {name} COMPUTE"
        for name, linear in _MAPS.items()
    ]
    return Grammar("\n".join([*lines, _REST]), "NET", max_depth=_DEPTH)


def _alternatives(name, part, routes):
    """The modules of a type except for those that compute: three groups of weight 1 each."""
    branches = {}
    for copies, weight in _COPIES.items():
        arguments = 2 if copies == 2 else 1
        kinds = {"clone{}_add": name, "clone{}_concat": name}
        kinds |= {"group{}_concat": part} if part else {}
        for operator, inner in kinds.items():
            branches[" ".join([operator.format(copies), *arguments * [inner]])] = weight
    if name.startswith("COLUMN"):
        branches["clone2_matmul SQUARE COLUMN_PART"] = 1.0
    sequences = {f"Linear2 {name} {name}": 3.0, "Linear3 linear1to4 COMPUTE linear4to1": 1.0}
    groups = (sequences, branches, {f"Linear3 {route}": 1.0 for route in routes})
    return " | ".join(
        f"{text} [{weight / sum(group.values()):.4f}]"
        for group in groups
        for text, weight in group.items()
    )


@check_types
def einspace_baselines() -> dict[str, Term]:
    """Return networks that are known, as terms of `einspace`: a start for a search.

    They are those that the published searches begin with, with widths that are multiples of that
    of the stem: `resnet18` without pooling, `wide_resnet16_4`, `vit` with patches of 4 × 4 pixels
    and four blocks of attention of four heads, and `mlp_mixer` with eight blocks.

    Returns:
        Dictionary from names to terms, for `GrammarOracle(initial_terms=…)`.

    Example:

    >>> from keras_xd.grammar import spaces
    >>> grammar = spaces.einspace()
    >>> for term in spaces.einspace_baselines().values():
    ...     grammar.check(term)

    Reference:
        He et al., "Deep residual learning for image recognition", 2016; Zagoruyko and Komodakis,
        "Wide residual networks", 2016; Dosovitskiy et al., "An image is worth 16x16 words", 2021;
        Tolstikhin et al., "MLP-Mixer", 2021.
    """
    texts = {
        "resnet18": _resnet18(),
        "wide_resnet16_4": _wide_resnet(),
        "vit": _on_patches(4 * [*_attention(), *_perceptron()]),
        "mlp_mixer": _on_patches(8 * [_mixer()]),
    }
    grammar = einspace()
    return {name: grammar.parse(text) for name, text in texts.items()}


def _compute(module, *names):
    """Computations in a row."""
    return _row(module, [f"({module} Linear1 (COMPUTE {name}))" for name in names])


def _row(module, parts):
    """Modules in a row, nested like a balanced tree, which is the least deep."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({module} Linear2 {_row(module, parts[:half])} {_row(module, parts[half:])})"


def _residual(module, *parts):
    return f"({module} clone2_add {_row(module, parts)} {_compute(module, 'id')})"


_CONVOLUTION = "(IMAGE Linear3 im2col3x3 (PATCH linear9to1) col2im)"


def _resized(kind, size, *then):
    """A convolution that changes the size of an image, and modules behind it."""
    stride, linear = _STRIDES[kind], _MAPS[f"{kind}{size}"]
    text = f"({kind} Linear3 im2col{size}x{size}{stride} ({kind}{size} {linear}) col2im)"
    return f"({kind} Linear2 {text} {_row('IMAGE', list(then))})" if then else text


def _resized_residual(kind, then, shortcut, behind):
    """A residual block that changes the size of an image, and modules behind its sum."""
    branches = f"{_resized(kind, 3, *then)} {_resized(kind, 1, *shortcut)}"
    return f"({kind} Linear2 ({kind} clone2_add {branches}) {behind})"


def _stages(images, steps):
    """Modules of images and the steps between them."""
    text = f"(STAGE Linear1 {images[-1]})"
    for number in reversed(range(len(steps))):
        name = "STAGE" if number else "NET"
        text = f"({name} Linear3 {images[number]} {steps[number]} {text})"
    return text


def _resnet18():
    norm, relu = _compute("IMAGE", "norm"), _compute("IMAGE", "leaky_relu")
    body = [norm, relu, _CONVOLUTION, norm]
    block = _row("IMAGE", [_residual("IMAGE", _CONVOLUTION, *body), relu])
    halve = _resized_residual("HALVE", body, [norm], relu)
    images = [relu, _row("IMAGE", [block, block]), *3 * [block]]
    return _stages(images, [_resized("STRIDE", 3), *3 * [halve]])


def _wide_resnet():
    activated = _compute("IMAGE", "norm", "leaky_relu")
    body = [activated, _CONVOLUTION]
    block = _row("IMAGE", [_residual("IMAGE", _CONVOLUTION, *body), activated])
    steps = [_resized_residual(kind, body, [], activated) for kind in ("WIDEN", "HALVE", "HALVE")]
    return _stages([_compute("IMAGE", "leaky_relu"), *3 * [block]], steps)


def _on_patches(modules):
    begin = f"{_compute('IMAGE', 'id')} (EMBED Linear2 im2col4x4s4 (EMBED4 linear4to1))"
    return f"(NET Linear3 {begin} {_row('COLUMNS', [_compute('COLUMNS', 'pos_enc'), *modules])})"


def _attention():
    part = _compute("COLUMN_PART", "linear")
    products = f"(SQUARE clone2_scaled_matmul {part} (TRANSPOSED Linear2 {part} permute))"
    head = f"(COLUMNS clone2_matmul (SQUARE Linear2 {products} (COMPUTE softmax)) {part})"
    heads = f"(COLUMNS clone4_concat {head})"
    return _residual("COLUMNS", heads), _compute("COLUMNS", "norm")


def _perceptron():
    layers = _compute("COLUMNS", "linear", "leaky_relu", "linear")
    return _residual("COLUMNS", layers), _compute("COLUMNS", "norm")


def _mixer():
    positions = "(COLUMN_PART Linear3 linear1to4 (COMPUTE leaky_relu) linear4to1)"
    mixed = f"(COLUMNS Linear3 permute {positions} permute)"
    channels = _compute("COLUMNS", "linear", "leaky_relu", "linear")
    return _residual("COLUMNS", _compute("COLUMNS", "norm"), mixed, channels)
