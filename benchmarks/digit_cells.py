"""Curves of NAS-Bench-201 cells that are trained on scikit-learn's digits, for other benchmarks.

    python benchmarks/digit_cells.py [--cells 78]

Trains random cells with different networks, 8 channels between a stem and a head, for 9 epochs on
600 images of 8 × 8 pixels, with a seed each; the error is that on the other 1,197. Term, costs,
error and loss after each epoch, and seconds go to benchmarks/digit_cells.json, to which further
cells are added.
"""

import argparse
import json
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from sklearn.datasets import load_digits

from keras_xd import grammar
from keras_xd.grammar import primitives
from tuner_integration.costs import model_costs

RESULTS = pathlib.Path(__file__).with_suffix(".json")
TRAINING, EPOCHS, FILTERS, RATE = 600, 9, 8, 3e-3
CELLS = grammar.spaces.nas_bench_201_cell()


def digits():
    """Return `(x, y, validation x, validation y)`."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = (x[order] / 8 - 1).reshape(-1, 8, 8, 1).astype("float32"), y[order]
    return x[:TRAINING], y[:TRAINING], x[TRAINING:], y[TRAINING:]


def network(cell, filters=FILTERS):
    """Return the compiled model of a cell."""
    model = grammar.build(
        cell,
        keras.Input((8, 8, 1)),
        primitives.nas_bench_201(),
        stem=primitives.stem(filters),
        head=primitives.head(10),
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(RATE), loss, metrics=["accuracy"])
    return model


def different_cells(count):
    """Return random cells whose networks are different, always the same ones first."""
    rng, found = np.random.default_rng(0), {}
    while len(found) < count:
        cell = CELLS.sample(rng)
        found.setdefault(grammar.network_digest(cell), cell)
    return list(found.values())


def trained(cell, seed, epochs=EPOCHS):
    """Return what is recorded of a cell."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    x, y, validation_x, validation_y = digits()
    started = time.perf_counter()
    model = network(cell)
    history = model.fit(
        x,
        y,
        32,
        epochs,
        verbose=0,
        validation_data=(validation_x, validation_y),
        validation_batch_size=400,
    ).history
    return {
        "cell": str(cell),
        **model_costs(model),
        "errors": [round(1 - value, 5) for value in history["val_accuracy"]],
        "losses": [round(value, 5) for value in history["val_loss"]],
        "seconds": round(time.perf_counter() - started, 2),
    }


def main(arguments=None):
    """Train what is missing; return the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=78)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    options = parser.parse_args(arguments)
    rows = json.loads(options.output.read_text()) if options.output.exists() else []
    for seed, cell in enumerate(different_cells(options.cells)):
        if seed < len(rows):
            continue
        rows.append(trained(cell, seed, options.epochs))
        lines = ",\n".join(json.dumps(row) for row in rows)
        options.output.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        print(seed, rows[-1]["errors"][-1], rows[-1]["seconds"], flush=True)
    return rows


if __name__ == "__main__":
    main()
