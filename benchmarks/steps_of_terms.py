"""Random terms of every space are built and trained for a step.

    python benchmarks/steps_of_terms.py [--terms 200] [--spaces einspace …] [--dry-run]

Each term is drawn by the weights of its grammar and built on images of 8 × 8 pixels, two samples
and a stem of 8 channels (activation functions: between two dense layers), then trained for a step
of gradient descent without a compiled graph. Counted are terms that build, and those whose loss is
finite. The table goes to benchmarks/steps_of_terms.md, or nowhere with `--dry-run`; spaces that are
not named keep their rows.
"""

import argparse
import os
import pathlib
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from keras_xd import grammar
from keras_xd.grammar import primitives, spaces

RESULTS = pathlib.Path(__file__).with_suffix(".md")
IMAGES = {
    "hierarchical_nas_bench_201": primitives.nas_bench_201,
    "hierarchical_nas_bench_201_fixed_macro": primitives.nas_bench_201,
    "hierarchical_nas_bench_201_shared_cell": primitives.nas_bench_201,
    "nas_bench_201": primitives.nas_bench_201,
    "nas_bench_201_cell": primitives.nas_bench_201,
    "searchable_operations": lambda: primitives.searchable_operations(depth=1),
    "einspace": lambda: primitives.einspace((8, 8)),
}
SPACES = (*IMAGES, "darts_cell", "activation_functions")


def network(space, term):
    """Return the compiled model of a term."""
    head = primitives.head(3)
    if space == "activation_functions":
        inputs = keras.Input((8,))
        dense = keras.layers.Dense(8)(inputs)
        function = grammar.build(term, keras.Input((8,)), primitives.activation_functions())
        model = keras.Model(inputs, keras.layers.Dense(3)(function(dense)))
    elif space == "darts_cell":
        image = keras.Input((8, 8, 8))
        cell = grammar.build(
            term, [keras.Input((8, 8, 8)), keras.Input((8, 8, 8))], primitives.darts(), head=head
        )
        model = keras.Model(image, cell([image, image]))
    else:
        model = grammar.build(
            term, keras.Input((8, 8, 3)), IMAGES[space](), stem=primitives.stem(8), head=head
        )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3), loss, run_eagerly=True)
    return model


def step(space, term, rng):
    """Build and train; return the loss and the number of parameters."""
    keras.utils.clear_session()
    model = network(space, term)
    x = rng.normal(size=(2, *model.input_shape[1:])).astype("float32")
    loss = model.train_on_batch(x, np.array([0, 2]))
    return float(loss), model.count_params()


def study(space, count, seed=0):
    """Return how many of the terms build, how many train, and the numbers of parameters."""
    terms, rng = np.random.default_rng(seed), np.random.default_rng(seed)
    space_grammar = getattr(spaces, space)()
    built, trained, parameters, failures = 0, 0, [], []
    for _ in range(count):
        term = space_grammar.sample(terms)
        try:
            loss, size = step(space, term, rng)
        except (ValueError, RuntimeError) as error:
            failures.append(f"{term}: {error}")
            continue
        built += 1
        trained += bool(np.isfinite(loss))
        parameters.append(size)
    return {"built": built, "trained": trained, "parameters": parameters, "failures": failures}


def main(arguments=None):
    """Measure, and write the page; return the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--terms", type=int, default=200)
    parser.add_argument("--spaces", nargs="+", choices=SPACES, default=SPACES)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(arguments)
    known = {}
    if options.output.exists():
        lines = options.output.read_text(encoding="utf-8").splitlines()
        known = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    for space in options.spaces:
        started = time.perf_counter()
        found = study(space, options.terms)
        middle = int(statistics.median(found["parameters"])) if found["parameters"] else 0
        most = max(found["parameters"], default=0)
        seconds = (time.perf_counter() - started) / options.terms
        known[space] = (
            f"| {space} | {options.terms} | {found['built']} | {found['trained']} | {middle:,} | "
            f"{most:,} | {seconds:.2f} |"
        )
        print(known[space], *found["failures"][:3], sep="\n", flush=True)
        if not options.dry_run:
            head = [
                "# Random terms of every space, built and trained for a step",
                "",
                "Written by `python benchmarks/steps_of_terms.py`.",
                "",
                "| space | terms | built | finite loss | median parameters | most | s a term |",
                "|---|---|---|---|---|---|---|",
            ]
            rows = [known[name] for name in SPACES if name in known]
            options.output.write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")
    return {name: known[name] for name in options.spaces}


if __name__ == "__main__":
    main()
