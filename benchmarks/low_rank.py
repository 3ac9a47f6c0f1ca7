"""What the low-rank form of finalized XD-operations costs and what it loses.

    python benchmarks/low_rank.py [--rounds 15] [--epochs 3] [--images 20000] [--seed 0]

Layers: the time of a convolution, of its XD-operation with the spectrum and with 3, 4 and 6
matrices by axis, one thread, beside the multiply–adds: how many more the low-rank form may take
where it is as fast. Searches: ResNet-20 is searched on CIFAR-10 (`TFDS_DATA_DIR`) and finalized
with the spectrum and with low ranks of several tolerances, beside the backbone trained as long.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
import tensorflow as tf
import timing

import keras_xd
from keras_xd import layers
from keras_xd.layers.xd import low_rank

# batch, pixels along an axis, channels, strides
SHAPES = ((32, 32, 16, 1), (32, 16, 32, 1), (32, 8, 64, 1), (32, 32, 16, 2), (32, 32, 64, 1))
RANKS = (3, 4, 6)
TOLERANCES = (0.001, 0.01, 0.03, 0.1, 0.3)


def medians(contestants, inputs, rounds):
    """Return the median milliseconds of a call of each layer or model, all in turn."""
    inputs = tf.constant(inputs)
    functions = {name: tf.function(each.__call__) for name, each in contestants.items()}
    calls = {
        name: lambda call=call: np.asarray(call(inputs, training=False))
        for name, call in functions.items()
    }
    return timing.medians(calls, rounds)


def layer_rows(rounds, shapes):
    """Return the lines of the table of layers."""
    words = ["batch, pixels, channels, strides", "convolution, ms", "spectrum"]
    words += [word for r in RANKS for word in (f"{r} × {r} matrices", "multiply–adds")]
    lines = timing.head(*words)
    for batch, size, channels, strides in shapes:
        arguments = {"filters": channels * strides, "kernel_size": 3, "strides": strides}
        layer = layers.XDConv2D(**arguments, padding="same")
        convolution = keras.layers.Conv2D(**arguments, padding="same")
        for each in (layer, convolution):
            each.build((None, size, size, channels))
        whole = low_rank.tucker(layer, layer._grouped_kernel())
        contestants = {"convolution": convolution, "spectrum": layer.finalize()}
        for rank in RANKS:
            contestants[rank] = layers.StaticLowRankXD.from_decomposition(
                layer, whole.truncated((rank, rank)), periodic=False
            )
        found = medians(contestants, tf.random.normal((batch, size, size, channels)), rounds)
        count = contestants["spectrum"].multiply_adds(None)
        cells = [f"{batch}, {size}×{size}, {channels}, {strides}", f"{found['convolution']:.2f}"]
        cells.append(f"{found['spectrum']:.2f}")
        for rank in RANKS:
            cells.append(f"{found[rank]:.2f} = {found[rank] / found['spectrum']:.2f} ×")
            cells.append(f"{contestants[rank].multiply_adds(None) / count:.2f} ×")
        lines.append(timing.row(*cells))
    return lines


def cifar10(count, pool):
    """Return training and test images and labels, float32 in [0, 1]."""
    from datasets import images

    train, validation, test = images.load("cifar10")
    x, y = (np.concatenate(pair) for pair in zip(train, validation, strict=True))
    order = np.random.default_rng(0).permutation(len(x))[:count]
    return [(images.block_means(x, pool), y) for x, y in ((x[order], y[order]), test)]


def search_rows(options, data=None):
    """Return the lines of the table of a search."""
    (images, labels), (test_images, test_labels) = data or cifar10(options.images, options.pool)
    keras.utils.set_random_seed(options.seed)
    backbone = keras_xd.models.resnet20(images.shape[1:], 10)
    search = keras_xd.SearchModel(keras_xd.rewrite(backbone))
    for model in (search, backbone):
        model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(images, labels, batch_size=64, epochs=options.epochs, verbose=2)

    def outputs_of(model):
        return np.asarray(model.predict(test_images, batch_size=256, verbose=0))

    whole = keras_xd.finalize(search)
    expected = outputs_of(whole)
    forms = {"backbone": backbone, "spectrum": whole}
    for tolerance in TOLERANCES:
        form = f"low rank, tolerance {tolerance}"
        forms[form] = keras_xd.finalize(search, form="low_rank", tolerance=tolerance)
    words = ["form", "parameters", "operations of low rank", "ranks"]
    words += ["largest error of an operation", "error of the outputs", "test accuracy, %"]
    lines = timing.head(*words, "ms, 32 images")
    times = medians(forms, test_images[:32], options.rounds)
    for form, model in forms.items():
        rows = model.report.rows if model is not backbone else ()
        low = [row for row in rows if row.form == "low_rank"]
        outputs = outputs_of(model)
        error = np.linalg.norm(outputs - expected) / np.linalg.norm(expected)
        accuracy = 100 * np.mean(np.argmax(outputs, -1) == test_labels)
        ranks = sorted({"×".join(map(str, row.ranks)) for row in low})
        kept = f"{len(low)} of {len(rows)}" if rows else ""
        cells = [form, f"{model.count_params():,}", kept, ", ".join(ranks)]
        cells.append(f"{max(row.error for row in low):.2g}" if low else "")
        cells += [f"{error:.2g}" if rows else "", f"{accuracy:.2f}", f"{times[form]:.1f}"]
        lines.append(timing.row(*cells))
    return lines


def main(words=None, data=None):
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=20000)
    parser.add_argument("--pool", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    names = ("rounds", "epochs", "images", "pool", "seed")
    command = " ".join(f"--{name} {getattr(options, name)}" for name in names)
    lines = timing.page(
        "XD-operations of low rank",
        f"Written by `python benchmarks/low_rank.py {command}`; {timing.versions()}, one thread, "
        "float32, without XLA.",
        "A call of a layer, milliseconds, medians of all in turn. Ratios are to the layer with its "
        "spectrum, of time and of multiply–adds.",
        layer_rows(options.rounds, SHAPES),
        f"ResNet-20 on CIFAR-10, {options.images} images of {32 // options.pool} × "
        f"{32 // options.pool} pixels, {options.epochs} epochs of joint search, or of training the "
        "backbone, one seed. Errors are relative, of the linear map of an operation in the "
        "Frobenius norm and of the outputs for test images.",
        search_rows(options, data),
    )
    return timing.write(options, lines)


if __name__ == "__main__":
    main()
