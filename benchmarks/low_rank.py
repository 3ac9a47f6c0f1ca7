"""What the low-rank form of finalized XD-operations costs and what it loses.

    python benchmarks/low_rank.py [--rounds 15] [--epochs 3] [--images 20000] [--seed 0]

Layers: the time of a call of a convolution, of the XD-operation that it became with its spectrum
and with 3, 4 and 6 matrices by axis, one thread, all in turn, beside the multiply–adds. From these
comes `RATE`: how many more multiply–adds the low-rank form may take where it is as fast.

Searches: ResNet-20 is rewritten and searched on CIFAR-10 (joint, images averaged over 2 × 2 pixels
where `--pool 2`), and finalized with the spectrum and with low ranks of several tolerances:
weights, layers that keep their spectrum, errors of the operations and of the outputs on test
images, the accuracy there, and the time of a call with 32 images, beside the backbone trained as
long, without a search. Writes benchmarks/low_rank.md, or nothing with `--dry-run`. CIFAR-10
is read by tensorflow-datasets (`TFDS_DATA_DIR`).
"""

import argparse
import importlib.metadata
import os
import pathlib
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

RESULTS = pathlib.Path(__file__).with_suffix(".md")
# batch, pixels along an axis, channels, strides
SHAPES = ((32, 32, 16, 1), (32, 16, 32, 1), (32, 8, 64, 1), (32, 32, 16, 2), (32, 32, 64, 1))
RANKS = (3, 4, 6)
TOLERANCES = (0.001, 0.01, 0.03, 0.1, 0.3)


def medians(contestants, inputs, rounds):
    """Return the median milliseconds of a call of each layer or model, all in turn."""
    import numpy as np
    import tensorflow as tf

    inputs = tf.constant(inputs)
    calls = {name: tf.function(each.__call__) for name, each in contestants.items()}
    times = {name: [] for name in calls}
    for index in range(rounds + 2):
        for name, call in calls.items():
            start = time.perf_counter()
            np.asarray(call(inputs, training=False))
            if index > 1:
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def layer_rows(rounds, shapes):
    """Return the lines of the table of layers."""
    import keras
    import tensorflow as tf

    from keras_xd import layers
    from keras_xd.layers.xd import low_rank

    lines = [
        "| batch, pixels, channels, strides | convolution, ms | spectrum | "
        + " | ".join(f"{r} × {r} matrices | multiply–adds" for r in RANKS)
        + " |",
        "|---" * (3 + 2 * len(RANKS)) + "|",
    ]
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
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def cifar10(count, pool):
    """Return training and test images and labels, float32 in [0, 1]."""
    import numpy as np
    import tensorflow_datasets as tfds

    def part(split):
        data = tfds.as_numpy(tfds.load("cifar10", split=split, batch_size=-1))
        images = data["image"].astype("float32") / 255
        if pool > 1:
            n, h, w, c = images.shape
            images = images.reshape(n, h // pool, pool, w // pool, pool, c).mean((2, 4))
        return images.astype("float32"), data["label"].astype("int32")

    images, labels = part("train")
    order = np.random.default_rng(0).permutation(len(images))[:count]
    return (images[order], labels[order]), part("test")


def search_rows(options, data=None):
    """Return the lines of the table of a search."""
    import keras
    import numpy as np

    import keras_xd

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
        forms[form] = keras_xd.finalize(search, keep="low_rank", tolerance=tolerance)
    lines = [
        "| form | parameters | operations of low rank | ranks | largest error of an operation | "
        "error of the outputs | test accuracy, % | ms, 32 images |",
        "|---" * 8 + "|",
    ]
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
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main(words=None, data=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=20000)
    parser.add_argument("--pool", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(words)
    names = ("rounds", "epochs", "images", "pool", "seed")
    command = " ".join(f"--{name} {getattr(options, name)}" for name in names)
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    lines = [
        "# XD-operations of low rank",
        "",
        f"Written by `python benchmarks/low_rank.py {command}`; {versions}, one thread, float32, "
        "without XLA.",
        "",
        "A call of a layer, milliseconds, medians of all in turn. Ratios are to the layer with its "
        "spectrum, of time and of multiply–adds.",
        "",
        *layer_rows(options.rounds, SHAPES),
        "",
        f"ResNet-20 on CIFAR-10, {options.images} images of {32 // options.pool} × "
        f"{32 // options.pool} pixels, {options.epochs} epochs of joint search, or of training the "
        "backbone, one seed. Errors are relative, of the linear map of an operation in the "
        "Frobenius norm and of the outputs for test images.",
        "",
        *search_rows(options, data),
    ]
    print("\n".join(lines))
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


if __name__ == "__main__":
    main()
