"""The methods of the scoreboard: how each comes from a backbone to a trained plain network."""

import dataclasses
import time

import fitting
import keras
import numpy as np
import tensorflow as tf

import keras_xd
from experiments.scoreboard import networks
from experiments.scoreboard.scoreboard_report import NAMES

PERIODS = 10  # epochs in which a training is told, so that warm-up is a share of it
SEARCH_SHARE = 1 / 3  # of the updates, where the found network is trained anew or searched on
RATES = (1e-3, 3e-3, 1e-2, 2e-2)
# Of searches, as many: the rate, and how many times the recipe's the architecture's is.
PAIRS = ((1e-3, 1), (3e-3, 3), (1e-2, 10), (1e-2, 1))
METHODS = tuple(NAMES)
SEARCHES = METHODS[METHODS.index("darts") :]


def settings(method):
    """Return the settings that are tried for a method, as many for each."""
    if method not in SEARCHES:
        return [{"rate": rate} for rate in RATES]
    return [{"rate": rate, "factor": factor} for rate, factor in PAIRS]


def start(task, data, method, seed=0):
    """Return the network that a method begins with."""
    if method == "wide":
        return networks.wide(task.network(data), parameters_of_xd(task, data, seed))
    return task.network(data, method == "expert")


def parameters_of_xd(task, data, seed):
    """Return how many parameters a network has that XD found, whatever it has found."""
    recipe = keras_xd.recipes.recipe("xd", task.recipe, epochs=PERIODS)
    space = keras_xd.rewrite(
        task.network(data), to="xd", causal="windowed", **recipe.rewrite_options
    )
    keras_xd.randomize_architecture(space, seed)
    return keras_xd.finalize(space).count_params()


@dataclasses.dataclass
class Training:
    """One training of a method on a task."""

    task: object
    data: object
    seed: int
    updates: int
    xd_options: dict = dataclasses.field(default_factory=dict)  # beside those of the recipe
    together: bool = False  # whether the steps of a period are one execution

    def __post_init__(self):
        self.seconds = {}  # of the processor, by what they were for
        self.steps = {}

    def run(self, method, backbone, rate, factor=1):
        """Return the trained network of a method, a plain one."""
        if method in ("backbone", "wide", "expert"):
            return self.fit(backbone, self.updates, rate)
        if method == "random":
            space = keras_xd.rewrite(backbone, to="dash")
            keras_xd.randomize_architecture(space, self.seed)
            return self.retrained(keras_xd.finalize(space), self.updates, rate)
        if method in ("k_operation", "xd"):
            return self.search(backbone, method, self.updates, rate, factor)
        first = round(SEARCH_SHARE * self.updates)
        found = self.search(backbone, method.removesuffix("_xd"), first, rate, factor)
        if method == "dash_xd":
            return self.search(found, "xd", self.updates - first, rate, factor)
        return self.retrained(found, self.updates - first, rate)

    def search(self, model, space, updates, rate, factor):
        """Return the finalized result of a search by the recipe of its space."""
        kind = self.task.recipe if space == "xd" else None
        recipe = keras_xd.recipes.recipe(space, kind, epochs=PERIODS)
        recipe = dataclasses.replace(recipe, rate=factor * recipe.rate)
        options = dict(recipe.rewrite_options)
        if space == "xd":
            options |= {"causal": "windowed", **self.xd_options}  # only the last step counts
        model = keras_xd.rewrite(model, to=space, **options)
        moving = updates * (PERIODS - recipe.compile_options.get("warmup_epochs", 0)) // PERIODS
        optimizer = recipe.architecture_optimizer(steps=max(1, moving))
        search = keras_xd.SearchModel(model)
        options = {"architecture_optimizer": optimizer, **recipe.compile_options}
        return keras_xd.finalize(self.fit(search, updates, rate, "search", **options))

    def retrained(self, found, updates, rate):
        """Return a found network, trained from fresh weights."""
        return self.fit(keras_xd.reset_weights(found, self.seed), updates, rate)

    def fit(self, model, updates, rate, what="training", **options):
        """Train a network or a search for so many updates, with a rate that falls to 0."""
        steps = max(1, updates // PERIODS)
        schedule = keras.optimizers.schedules.CosineDecay(rate, steps * PERIODS)
        begin = time.process_time()
        fitting.compiled(
            model,
            keras.optimizers.Adam(schedule),
            loss=self.task.loss(),
            jit_compile=False,
            steps_per_execution=steps if self.together else 1,
            **options,
        )
        model.fit(
            self.batches(steps * PERIODS),
            epochs=PERIODS,
            steps_per_epoch=steps,
            shuffle=False,
            verbose=0,
        )
        spent = time.process_time() - begin
        self.seconds[what] = round(self.seconds.get(what, 0) + spent, 2)
        self.steps[what] = self.steps.get(what, 0) + steps * PERIODS
        return model

    def batches(self, number):
        """Return a data set of so many batches, in an order drawn by the seed."""
        inputs, targets = self.data.train
        rng, size = np.random.default_rng(self.seed), min(self.task.batch_size, len(inputs))
        passes = -(-number * size // len(inputs))
        order = np.concatenate([rng.permutation(len(inputs)) for _ in range(passes)])
        order = order[: number * size].reshape(number, size)
        inputs, targets = tf.constant(inputs), tf.constant(targets)
        batches = tf.data.Dataset.from_tensor_slices(order)
        batches = batches.map(
            lambda chosen: (tf.gather(inputs, chosen), tf.gather(targets, chosen))
        )
        # Its tuning ends with a pause as long as the training where clocks are coarse.
        options = tf.data.Options()
        options.autotune.enabled = False
        return batches.with_options(options)
