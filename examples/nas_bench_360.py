"""Train a network, or search one, on a task of NAS-Bench-360 and print the task's error.

    python examples/nas_bench_360.py --task ninapro --data-dir path/of/the/files
    python examples/nas_bench_360.py --task darcy --data-dir path/of/the/files --space xd

The files are the published ones, or converted ones where those are pickled;
examples/datasets/README.md lists them. The backbone is a small residual network of the task's rank, not the Wide ResNet of the
benchmark. With `--space dash` its kernel sizes and dilations are searched and the network that is
found is trained from scratch; with `--space xd` its convolutions are searched; with `--space
structured` the families and sizes of its dense matrices, after which it is trained on.
"""

import argparse
import itertools
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from datasets import nas_bench_360
from datasets.batches import Batches
from parsing import positive, rate, seed

import keras_xd

SPACES = ("none", "dash", "xd", "structured")
STAGES = 3
OPTIONS = {
    "dash": {},
    "xd": {},
    "structured": {
        "family": ("low_rank", "monarch", "dense"),
        "density": (0.75, 0.5),
        "only": "hidden",
    },
}


def make_loss(name):
    """Return the loss that the benchmark trains a task with."""
    kind = nas_bench_360.TASKS[name].kind
    if kind == "classes":
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if kind in ("labels", "mask"):
        return keras.losses.BinaryCrossentropy(from_logits=True)
    return keras_xd.losses.RelativeL2() if name == "darcy" else keras.losses.MeanSquaredError()


def make_backbone(task, part, filters):
    """Return a residual network for samples like those of `part`.

    Classes and labels are told from means over all places, after poolings that halve each axis;
    fields and masks keep every place. Outputs are logits, or numbers in the range of the part's.
    """
    shape, point = part.inputs.shape[1:], task.kind in ("classes", "labels")
    rank = len(shape) - 1
    convolution = getattr(keras.layers, f"Conv{rank}D")
    inputs = keras.Input(shape, name="sample")
    x = keras.layers.BatchNormalization(momentum=0.9, name="scale")(inputs)
    for stage in range(STAGES):
        width = filters * 2**stage if point else filters
        skip = convolution(width, 1, name=f"skip{stage}")(x)
        for index in (1, 2):
            x = convolution(width, 3, padding="same", name=f"conv{stage}_{index}")(x)
            x = keras.layers.BatchNormalization(momentum=0.9, name=f"normalization{stage}_{index}")(
                x
            )
            if index == 1:
                x = keras.layers.ReLU(name=f"relu{stage}_1")(x)
        x = keras.layers.ReLU(name=f"relu{stage}_2")(
            keras.layers.Add(name=f"add{stage}")([x, skip])
        )
        if point and stage + 1 < STAGES:
            x = getattr(keras.layers, f"AveragePooling{rank}D")(2, padding="same")(x)
    if point:
        x = getattr(keras.layers, f"GlobalAveragePooling{rank}D")()(x)
    x = keras.layers.Dense(2 * filters, activation="relu", name="hidden")(x)
    outputs = task.outputs or part.outputs.shape[-1]
    x = keras.layers.Dense(outputs, name="outputs")(x)
    if task.kind == "field":
        some = part.outputs[:100]
        x = keras.layers.Rescaling(float(some.std()), float(some.mean()), name="range")(x)
    return keras.Model(inputs, x, name="backbone")


def train(model, name, part, options, architecture_optimizer=None):
    """Train a network, or a search with the optimizer of its architecture."""
    arrays = [part.inputs, part.outputs]
    if part.weights is not None:
        arrays.append(part.weights)
    batches = Batches(*arrays, batch_size=options.batch_size, seed=options.seed)
    steps = options.epochs * len(batches)
    schedule = keras.optimizers.schedules.CosineDecay(options.rate, steps)
    arguments = {"optimizer": keras.optimizers.Adam(schedule), "loss": make_loss(name)}
    if architecture_optimizer is not None:
        arguments["architecture_optimizer"] = architecture_optimizer
    model.compile(**arguments)
    model.fit(batches, epochs=options.epochs, shuffle=False, verbose=options.verbose)
    return model


def search(backbone, name, part, options):
    """Return the network that is found in the space that starts at the backbone."""
    space = keras_xd.rewrite(backbone, to=options.space, **OPTIONS[options.space])
    optimizer = keras.optimizers.Adam(options.architecture_rate)
    searched = train(keras_xd.SearchModel(space), name, part, options, optimizer)
    found = keras_xd.finalize(searched)
    if options.space == "dash":
        found = keras.models.clone_model(found)
    return found if options.space == "xd" else train(found, name, part, options)


def predict(model, inputs, batch_size):
    """Return a network's outputs; samples larger than its inputs are cut into windows."""
    window, result = model.input_shape[1:-1], []
    for start in range(0, len(inputs), batch_size):
        batch = inputs[start : start + batch_size]
        sides = [
            [slice(place, place + size) for place in range(0, whole, size)]
            for size, whole in zip(window, batch.shape[1:-1], strict=True)
        ]
        if all(len(side) == 1 for side in sides):
            result.append(model.predict_on_batch(batch))
            continue
        outputs = np.empty((*batch.shape[:-1], model.output_shape[-1]), "float32")
        for place in itertools.product(*sides):
            outputs[:, *place] = model.predict_on_batch(batch[:, *place])
        result.append(outputs)
    return np.concatenate(result)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=nas_bench_360.TASKS, required=True)
    parser.add_argument("--data-dir", required=True, help="folder of the task's files")
    parser.add_argument("--space", choices=SPACES, default="none", help="what is searched")
    parser.add_argument("--epochs", type=positive, default=20)
    parser.add_argument("--batch-size", type=positive, help="by default 64, of maps 8")
    parser.add_argument("--filters", type=positive, default=32, help="channels of a convolution")
    parser.add_argument("--rate", type=rate, default=1e-3, help="learning rate of the weights")
    parser.add_argument("--architecture-rate", type=rate, default=1e-3)
    parser.add_argument("--subset", type=positive, help="use at most so many samples of each part")
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--verbose", type=int, choices=(0, 1, 2), default=2, help="as of `fit`")
    options = parser.parse_args(arguments)
    if options.batch_size is None:
        maps = nas_bench_360.TASKS[options.task].kind in ("field", "mask")
        options.batch_size = 8 if maps else 64
    try:
        parts = nas_bench_360.load(options.task, options.data_dir, options.subset, options.seed)
    except ValueError as error:
        parser.error(str(error))
    return options, parts


def main(arguments=None):
    """Run one task; return the errors and the number of parameters."""
    options, (training, validation, test) = parse(arguments)
    task = nas_bench_360.TASKS[options.task]
    keras.utils.set_random_seed(options.seed)
    model = make_backbone(task, training, options.filters)
    print(
        f"{options.task}, {options.space}: {len(training)} samples for training, "
        f"{len(validation)} for validation, {len(test)} for testing, {model.count_params():,} "
        "parameters of the backbone",
        flush=True,
    )
    if options.space == "none":
        train(model, options.task, training, options)
    else:
        model = search(model, options.task, training, options)
    result = {"parameters": model.count_params()}
    for name, part in (("validation", validation), ("test", test)):
        result[name] = task.error(part, predict(model, part.inputs, options.batch_size))
        print(f"{name}: {task.metric} {result[name]:.4f}")
    print(f"parameters: {result['parameters']:,}")
    return result


if __name__ == "__main__":
    main()
