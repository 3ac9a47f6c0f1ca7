"""Draw the pictures of the pages on concepts: `python docs/make_images.py [--output FOLDER]`.

Every picture is computed by the package's own objects. Needs the extra `plot`.
"""

import argparse
import pathlib

import matplotlib
import numpy as np
from keras import ops
from matplotlib.figure import Figure

import keras_xd
from keras_xd import genotypes, grammar, layers, visualization
from keras_xd.kmatrix import constructions
from keras_xd.layers.masked import masks
from keras_xd.visualization.cells import plot_cell
from keras_xd.visualization.operators import operator_matrix

FOLDER = pathlib.Path(__file__).parent / "images"
POINTS = 16
KERNEL = (0.5, 1.0, -0.7)
BLUE, ORANGE, GRAY = "#3949ab", "#ef6c00", "#9e9e9e"


def xd_operations():
    """`K`, the spectrum, `M` and the operation they make, for three starts of one layer."""
    order = np.random.default_rng(3).permutation(POINTS)
    placed = np.zeros(POINTS)
    placed[[1, 0, -1]] = KERNEL  # where a 3-kernel lies on the circle: y[t] = Σ w[j] x[t + j - 1]
    starts = {
        "convolution": "convolution",
        "convolution\nafter a permutation": layers.warm_starts.Composed("convolution", input=order),
        "random": "random_unitary",
    }
    figure = Figure(figsize=(9, 6.6), layout="constrained")
    axes = figure.subplots(len(starts), 4)
    titles = (r"Re $K$", r"|diag$(L\,w)|$", r"Re $M$", r"Re$(K\,\mathrm{diag}(L\,w)\,M)$")
    for number, (name, start) in enumerate(starts.items()):
        row = axes[number]
        layer = layers.XDConv1D(
            1, 3, padding="circular", depth=3, warm_start=start, use_bias=False, seed=1
        )
        layer.build((None, POINTS, 1))
        layer.kernel.assign(np.reshape(KERNEL, (3, 1, 1)))
        found = layer.describe()
        spectrum = np.diag(np.abs(found["matrix/L0"] @ placed))
        panels = (
            np.real(found["matrix/K0"]),
            spectrum,
            np.real(found["matrix/M0"]),
            operator_matrix(layer),
        )
        for column, (axis, panel, title) in enumerate(zip(row, panels, titles, strict=True)):
            largest = np.abs(panel).max()
            axis.imshow(panel, cmap="RdBu_r", vmin=-largest, vmax=largest)
            axis.set(xticks=[], yticks=[])
            if number == 0:
                axis.set_title(title)
            if column == 0:
                axis.set_ylabel(name)
    return figure


def k_operations():
    """The stages of a butterfly, their product, and one of another radix."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    rows = figure.subplots(2, 5)
    for row, radices in zip(rows, ((2, 2, 2, 2), (4, 4)), strict=True):
        stages = constructions.dft(radices)
        panels = []
        for index, stage in enumerate(stages):
            alone = constructions.identity(radices)
            alone[index] = stage
            panels.append((f"stage {index + 1}", constructions.butterfly_dense(alone)))
        panels.append(("product", constructions.butterfly_dense(stages)))
        for axis in row[len(panels) :]:
            axis.axis("off")
        for axis, (title, panel) in zip(row, panels, strict=False):
            largest = np.abs(panel).max()
            axis.imshow(np.real(panel), cmap="RdBu_r", vmin=-largest, vmax=largest)
            axis.set(xticks=[], yticks=[])
            axis.set_title(title)
        row[0].set_ylabel("radix " + " · ".join(map(str, radices)))
    return figure


def learned_sizes():
    """A kernel under a Gaussian mask, and channels under a sigmoid one, each at two sizes."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    taps = masks.coordinates(33)
    kernel = np.cos(9 * taps) + 0.4 * np.sin(23 * taps)
    left.stem(taps, kernel, linefmt=GRAY, markerfmt=" ", basefmt=" ", label="kernel")
    for width, colour in ((0.15, BLUE), (0.35, ORANGE)):
        mask = ops.convert_to_numpy(masks.gaussian(taps, width))
        size = float(masks.gaussian_size(33, width))
        left.plot(taps, mask, color=colour, label=f"mask, width {width}: {size:.0f} of 33 taps")
        left.plot(taps, mask * kernel, ".", color=colour)
    left.set(title="kernel size", xlabel="tap", ylim=(-1.5, 2.4))
    channels = masks.coordinates(64)
    for offset, colour in ((-0.3, BLUE), (0.4, ORANGE)):
        mask = ops.convert_to_numpy(masks.sigmoid(channels, offset, 25.0))
        size = float(masks.sigmoid_size(64, offset, 25.0))
        label = f"offset {offset}: {size:.0f} of 64 channels"
        right.step(channels, mask, color=colour, where="mid", label=label)
    right.axhline(masks.THRESHOLD, color=GRAY, linestyle=":", label="threshold 0.1")
    right.set(title="width", xlabel="channel", ylim=(-0.05, 1.5))
    for axis in (left, right):
        axis.legend(loc="upper center", fontsize=8, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def neural_operator_search():
    """A cell with features, attention and a dynamic convolution."""
    cell = genotypes.random_cell(np.random.default_rng(4))
    return plot_cell(cell)


def algebraic_search():
    """The network of one term of a small grammar."""
    return visualization.plot_tree(_term())


def algebraic_network():
    """The graph that the term of `algebraic_search` stands for."""
    return visualization.plot_network(_term())


def _term():
    space = grammar.Grammar(
        """
        NET   -> Linear2 BLOCK BLOCK | Residual2 BLOCK BLOCK id
        BLOCK -> Linear2 conv ACT | Diamond2 conv conv pool id
        ACT   -> relu | mish
        """
    )
    return space.parse(
        "(NET Residual2 (BLOCK Linear2 conv (ACT relu)) (BLOCK Diamond2 conv conv pool id) id)"
    )


PICTURES = (
    xd_operations,
    k_operations,
    learned_sizes,
    neural_operator_search,
    algebraic_search,
    algebraic_network,
)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=FOLDER)
    folder = parser.parse_args(arguments).output
    folder.mkdir(parents=True, exist_ok=True)
    # The same numbers give the same file: no date, no random names of elements.
    with matplotlib.rc_context({"svg.hashsalt": "keras_xd", "font.size": 10}):
        for draw in PICTURES:
            path = folder / f"concept_{draw.__name__}.svg"
            draw().savefig(path, metadata={"Date": None}, bbox_inches="tight")
            print(path.name)


if __name__ == "__main__":
    print(f"keras_xd {keras_xd.__version__}")
    main()
