"""How `chrysalis.py` trains weights, and searches architectures."""

import keras
import numpy as np

import keras_xd
from experiments.xd.cifar10 import MOMENTUM, WEIGHT_DECAY, schedule

RATES = {"sgd": 1e-2, "adam": 5e-4, "adadelta": 1.0}
DARTS_RATE, PERIODS, PATIENCE = 1e-3, 4, 3
MODES = {"sgd": "joint", "sgdr": "joint", "darts1": "first_order", "darts2": "second_order"}


def fit(model, data, recipe, epochs, seed, search=None, xla=False):
    """Compile and fit a model; return it, or the `SearchModel` of it.

    Args:
        model: a network, or the search space of one.
        data: what has `train`, `validation`, `batches` and `scaled`.
        recipe: `"sgd"`, falling rates; `"adam"`; `"adadelta"`, with early stopping on the
            validation samples.
        epochs: number of epochs. An epoch passes each training sample once: DARTS moves the
            weights by half of them and the architecture by the others.
        seed: integer that the order of the samples follows from, and their augmentation.
        search: `"sgd"`, `"sgdr"`, `"darts1"`, `"darts2"`, or `None` to train the weights only.
        xla: whether XLA is used.
    """
    train, others = [data.train], {}
    if search in ("darts1", "darts2"):
        train = halves(*data.train, seed)
    batches = [data.batches(*part, seed) for part in train]
    if len(batches) > 1:
        others["architecture_validation_data"] = batches[1]
    steps = epochs * len(batches[0])
    arguments = {
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "metrics": ["accuracy"],
        "jit_compile": xla,
    }
    callbacks = [keras_xd.callbacks.TerminateOnNonFinite()]
    rate = schedule(RATES["sgd"], steps) if recipe == "sgd" else RATES[recipe]
    if search is not None:
        model = keras_xd.SearchModel(model)
        arguments["mode"] = MODES[search]
        if search == "sgdr":
            rate = RATES["sgd"]
            callbacks.append(
                keras_xd.callbacks.WarmRestarts(
                    epochs // PERIODS,
                    learning_rate=rate,
                    architecture_learning_rate=rate,
                    annealing=falling,
                    seed=seed,
                )
            )
        if search.startswith("darts"):
            arguments["architecture_optimizer"] = keras.optimizers.Adam(DARTS_RATE)
        else:
            arguments["architecture_optimizer"] = optimizer(recipe, rate, decay=False)
    if recipe == "adadelta":
        callbacks.append(
            keras.callbacks.EarlyStopping(
                "val_accuracy", mode="max", patience=PATIENCE, restore_best_weights=True
            )
        )
        inputs, labels = data.validation
        others |= {"validation_data": (data.scaled(inputs), labels), "validation_batch_size": 250}
    model.compile(optimizer(recipe, rate), **arguments)
    model.fit(batches[0], epochs=epochs, callbacks=callbacks, verbose=0, **others)
    return model


def optimizer(recipe, rate, decay=True):
    """Return an optimizer of weights, or without decay one of an architecture."""
    if recipe == "adam":
        return keras.optimizers.Adam(rate)
    if recipe == "adadelta":
        return keras.optimizers.Adadelta(rate, rho=0.95, epsilon=1e-6)
    # Keras' weight decay passes by the momentum, which multiplies by 1 / (1 - momentum).
    decay = WEIGHT_DECAY / (1 - MOMENTUM) if decay else None
    return keras.optimizers.SGD(rate, momentum=MOMENTUM, weight_decay=decay)


def falling(progress):
    """Return the factor of the rate in a period of SGDR: that of `cifar10.schedule`."""
    return 1.0 if progress < 0.5 else 0.5 if progress < 0.75 else 0.1


def halves(inputs, labels, seed):
    """Return two halves of the samples, drawn by the seed; one that is left over is left out."""
    order = np.random.default_rng(seed).permutation(len(inputs))
    half = len(inputs) // 2
    return [(inputs[chosen], labels[chosen]) for chosen in (order[:half], order[half : 2 * half])]
