"""What is checked of a configuration."""

import contextlib
import functools
import json
import math
import re
import tempfile
import time
import traceback
import zlib

import keras
import numpy as np

from keras_xd import layers
from keras_xd import testing as layer_checks
from keras_xd.core.searchable import SearchableLayer
from keras_xd.layers.xd import low_rank
from keras_xd.layers.xd.base import XDLayer
from keras_xd_tests.sweep import convolutions, linear, searched, subjects
from keras_xd_tests.sweep.subjects import relative

FAMILIES = {**convolutions.FAMILIES, **linear.FAMILIES, **searched.FAMILIES}
NAMES = tuple(FAMILIES)
# Both are sums of a few rounded numbers; of 8 and of 11 bits.
HALF = {"mixed_bfloat16": layer_checks.BFLOAT16_TOLERANCE, "mixed_float16": 4e-3}
UNITS = {"float32": 2.0**-24, "mixed_float16": 2.0**-11, "mixed_bfloat16": 2.0**-8}
# As many times what rounding weights and inputs does may all roundings of an operation do.
ROUNDINGS = 10
# Central differences in float64, of a step that errs as much by rounding as by curvature.
STEP = 1e-5
DIFFERENCES = 1e-6


@functools.cache
def convolves_nothing():
    """Return whether Keras' convolution of an empty batch has the right shape.

    TensorFlow's has that of its inputs where it is computed by oneDNN.
    """
    nothing, kernel = keras.ops.ones((0, 4, 1)), keras.ops.ones((1, 1, 2))
    return keras.ops.conv(nothing, kernel).shape[-1] == 2


class Failure(Exception):
    """A check that failed.

    Args:
        check: its name.
        reason: what went wrong, in a line or more.
    """

    def __init__(self, check, reason):
        super().__init__(f"{check}: {reason}")
        self.check, self.reason = check, reason


class Checks:
    """Runs the checks of one configuration and keeps the errors that were measured.

    Args:
        family: its name.
        configuration: what `Family.draw` returned.
        seed: seeds weights and inputs.
    """

    def __init__(self, family, configuration, seed=0):
        self.configuration = subjects.of_json(configuration)
        self.subject = FAMILIES[family].subject(self.configuration)
        self.rng = np.random.default_rng(seed)
        self.seed, self.errors = seed, {}

    def run(self):
        """Run all checks; return the errors by their names.

        Raises:
            Failure: the first that failed.
        """
        subject = self.subject
        keras.utils.set_random_seed(self.seed)
        inputs = [self.rng.standard_normal(shape) for shape in subject.shapes]
        with self.named("config"):
            if subject.extra is None:
                layer_checks.check_config(subject.layer_class, subject.arguments)
            else:
                self.same_config(self.made("float32"))
        layer = self.built("float32")
        exact = self.built("float64")
        self.compare(layer, exact, inputs, "start")
        self.batches(layer, inputs)
        self.half(layer, exact, inputs)
        if isinstance(layer, SearchableLayer) and layer.architecture_variables:
            self.moved(layer, exact)
            self.compare(layer, exact, inputs, "moved")
        if subject.derivatives:
            self.derivatives(exact, inputs)
        self.finalized(layer, exact, inputs)
        self.file(layer, inputs)
        return self.errors

    @contextlib.contextmanager
    def named(self, check):
        """Make whatever goes wrong inside the failure of a check."""
        try:
            yield
        except Failure:
            raise
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename.rpartition('/')[2]}:{place.lineno}"
            reason = f"{type(error).__name__} at {where}: {error}"
            raise Failure(check, reason[:2000]) from error

    def note(self, check, actual, expected, tolerance):
        """Keep a relative error; fail where it is above the tolerance."""
        error = relative(actual, expected)
        self.errors[check] = max(error, self.errors.get(check, 0.0))
        if not error <= tolerance:
            shapes = tuple(np.shape(actual)), tuple(np.shape(expected))
            raise Failure(check, f"relative error {error:.3g} > {tolerance:g}, shapes {shapes}")

    def near(self, check, actual, expected, tolerance, exact, inputs, unit):
        """The same, where an operation that is sensitive to its numbers may err by more.

        Args:
            check, actual, expected, tolerance: as in `note`.
            exact: the layer in float64, with the same weights.
            inputs: its inputs.
            unit: the largest relative error of a number that is rounded to the type.
        """
        if not relative(actual, expected) <= tolerance:
            spread = self.spread(exact, inputs, unit)
            tolerance = max(tolerance, ROUNDINGS * spread)
        self.note(check, actual, expected, tolerance)

    def spread(self, exact, inputs, unit):
        """Return by how much outputs change if all weights and inputs change by rounding alone."""
        rng, weights = np.random.default_rng(self.seed), exact.get_weights()
        expected, changes = self.called(exact, inputs), []

        def rounded(value):
            return value * (1 + unit * rng.uniform(-1, 1, value.shape))

        for _ in range(5):
            exact.set_weights([rounded(weight) for weight in weights])
            changes.append(relative(self.called(exact, list(map(rounded, inputs))), expected))
        exact.set_weights(weights)
        return max(changes)

    def made(self, dtype):
        extra = {} if self.subject.extra is None else self.subject.extra(dtype)
        return self.subject.layer_class(**self.subject.arguments, **extra, dtype=dtype)

    def built(self, dtype, like=None):
        """Return a built layer of a type, with random weights or those of another one."""
        with self.named("build"):
            layer = self.made(dtype)
            shapes = [tuple(shape) for shape in self.subject.shapes]
            layer.build(shapes[0] if len(shapes) == 1 else shapes)
            self.settle(layer)
            if like is not None:
                layer.set_weights(like.get_weights())
        return layer

    def settle(self, layer):
        rng = np.random.default_rng(self.seed)
        if self.subject.settle is not None:
            self.subject.settle(layer, rng)
            return
        searched = {id(v) for v in getattr(layer, "architecture_variables", ())}
        for variable in layer.trainable_variables:
            if id(variable) not in searched:
                variable.assign(rng.standard_normal(variable.shape) / 2)

    def called(self, layer, inputs):
        inputs = [keras.ops.convert_to_tensor(x, layer.input_dtype) for x in inputs]
        return layer(inputs[0] if len(inputs) == 1 else inputs)

    def compare(self, layer, exact, inputs, state):
        """Compare the outputs of both types with the twin, at the start, and the oracle."""
        subject, given = self.subject, inputs[0] if len(inputs) == 1 else inputs
        tolerances = ((layer, subject.tolerance), (exact, subject.tolerance64))
        for each, tolerance in tolerances:
            with self.named(f"outputs at the {state}"):
                name = f"{each.dtype_policy.name} {state}"
                x = [value.astype(each.dtype_policy.name) for value in inputs]
                # Some twins give the layer their weights.
                twin = subject.twin(each) if subject.twin and state == "start" else None
                found = self.called(each, x)
                shape = [value.shape for value in x]
                shape = each.compute_output_shape(shape[0] if len(shape) == 1 else shape)
                if tuple(shape) != tuple(found.shape):
                    raise Failure("shape", f"said {tuple(shape)}, is {tuple(found.shape)}")
                if twin is not None:
                    expected = twin.function(keras.ops.convert_to_tensor(x[0]))
                    self.note(f"twin, {name}", found, expected, tolerance)
                if subject.oracle is not None:
                    expected = subject.oracle(each, given)
                    arguments = (f"oracle, {name}", found, expected, tolerance)
                    if each is exact:
                        self.note(*arguments)
                    else:
                        self.near(*arguments, exact, inputs, UNITS["float32"])
        if subject.twin is not None and state == "start":
            with self.named("gradients of the twin"):
                self.gradients(exact, inputs)

    def gradients(self, exact, inputs):
        """Compare the gradients of inputs and weights with those of the twin, in float64."""
        import tensorflow as tf

        twin = self.subject.twin(exact)
        if twin is None or not twin.variables:
            return
        found, weight = [], None
        own, other = zip(*twin.variables, strict=True)
        for function, variables in ((exact, own), (twin.function, other)):
            x = tf.constant(inputs[0])
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
                if weight is None:
                    weight = self.rng.standard_normal(y.shape)
                loss = tf.reduce_sum(y * weight)
            found.append(tape.gradient(loss, [x, *(v.value for v in variables)]))
        for name, actual, expected in zip(("inputs", *(v.name for v in own)), *found, strict=True):
            self.note(f"gradient of {name}", actual, expected, self.subject.tolerance64)

    def derivatives(self, exact, inputs):
        """Compare the derivative along a random direction with a difference, in float64."""
        import tensorflow as tf

        with self.named("derivatives"):
            variables = exact.trainable_variables
            count = sum(math.prod(v.shape) for v in (*inputs, *variables))
            norm = math.sqrt(count)  # the longer a step, the larger the terms of higher order
            directions = [self.rng.standard_normal(x.shape) / norm for x in inputs]
            weight = self.rng.standard_normal(self.called(exact, inputs).shape)

            def loss(step):
                moved = [x + step * d for x, d in zip(inputs, directions, strict=True)]
                return float(tf.reduce_sum(self.called(exact, moved) * weight))

            x = [tf.constant(value) for value in inputs]
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = tf.reduce_sum(exact(x[0] if len(x) == 1 else x) * weight)
            gradients = tape.gradient(value, [*x, *(v.value for v in variables)])
            # The second, shorter step is for functions of large curvature.
            for step in (STEP, STEP / 10):
                difference, moves = subjects.differences(self.rng, variables, loss, step, norm)
                terms = [
                    float(np.sum(keras.ops.convert_to_numpy(g) * d)) if g is not None else 0.0
                    for g, d in zip(gradients, [*directions, *moves], strict=True)
                ]
                scale = max(map(abs, terms)) + abs(difference) + 1.0
                error = abs(sum(terms) - difference) / scale
                if error <= DIFFERENCES:
                    break
            self.errors["derivative"] = error
            if not error <= DIFFERENCES:
                raise Failure("derivatives", f"{sum(terms)} of {terms}, difference {difference}")

    def batches(self, layer, inputs):
        """An empty batch gives empty outputs; a sample by itself what it gives among others."""
        with self.named("batches"):
            whole = self.called(layer, inputs)
            if convolves_nothing() or not self.subject.convolves:
                none = self.called(layer, [x[:0] for x in inputs])
                if tuple(none.shape) != (0, *whole.shape[1:]):
                    shapes = f"shape {tuple(none.shape)}, of {tuple(whole.shape)}"
                    raise Failure("empty batch", shapes)
            one = self.called(layer, [x[1:2] for x in inputs])
            scale = np.max(np.abs(keras.ops.convert_to_numpy(whole))) + 1e-3
            self.note("one sample", one / scale, whole[1:2] / scale, self.subject.tolerance * 10)

    def moved(self, layer, exact):
        """Move what is searched, in both layers alike."""
        with self.named("move"):
            if self.subject.move is not None:
                self.subject.move(layer, self.rng)
            else:
                for variable in layer.architecture_variables:
                    noise = self.rng.standard_normal(variable.shape)
                    variable.assign_add((0.2 * noise).astype(variable.dtype))
            exact.set_weights(layer.get_weights())

    def half(self, layer, exact, inputs):
        """A policy of short numbers keeps the weights long and the outputs nearly the same."""
        policy = tuple(HALF)[self.seed % len(HALF)]
        with self.named(policy):
            mixed = self.built(policy, like=layer)
            kinds = {variable.dtype for variable in mixed.trainable_variables}
            if not kinds <= {"float32"}:
                raise Failure(policy, f"weights of {kinds}")
            outputs = self.called(mixed, inputs)
            kind = keras.backend.standardize_dtype(outputs.dtype)
            if kind != mixed.compute_dtype:
                raise Failure(policy, f"outputs of {kind}")
            outputs = keras.ops.cast(outputs, "float32")
            expected = self.called(layer, inputs)
            self.near(policy, outputs, expected, HALF[policy], exact, inputs, UNITS[policy])

    def finalized(self, layer, exact, inputs):
        """What `finalize` returns has the same outputs."""
        if not isinstance(layer, SearchableLayer) or not layer.architecture_variables:
            return
        with self.named("finalize"):
            plain = layer.finalize()
            if isinstance(plain, SearchableLayer) or not plain.built:
                raise Failure("finalize", f"gave {type(plain).__name__}, built: {plain.built}")
            outputs, expected = self.called(plain, inputs), self.called(layer, inputs)
            if self.subject.finalizes:
                self.note("finalized", outputs, expected, 2 * self.subject.tolerance)
            elif tuple(outputs.shape) != tuple(expected.shape):
                raise Failure("finalize", f"shape {tuple(outputs.shape)}")
        if isinstance(layer, XDLayer):
            self.low_rank(exact, inputs)
        with self.named("protocol"):
            # A third of them, as it saves and loads once more.
            if self.subject.finalizes and len(inputs) == 1 and self.seed % 3 == 0:
                layer_checks.check_protocol(layer, inputs[0].astype("float32"))

    def low_rank(self, layer, inputs):
        """The Tucker decomposition of all ranks has the same outputs."""
        with self.named("decomposition"):
            kernel = layer._grouped_kernel()
            if low_rank.is_decomposable(layer, kernel):
                whole = low_rank.tucker(layer, kernel)
                plain = layers.StaticLowRankXD.from_decomposition(layer, whole, periodic=False)
                outputs, expected = self.called(plain, inputs), self.called(layer, inputs)
                self.note("decomposition", outputs, expected, self.subject.tolerance64)

    def file(self, layer, inputs):
        """A `.keras` file brings back configuration and outputs."""
        with self.named("file"):
            x = [value.astype("float32") for value in inputs]
            symbolic = [keras.Input(value.shape[1:]) for value in x]
            outputs = layer(symbolic[0] if len(symbolic) == 1 else symbolic)
            model = keras.Model(symbolic if len(x) > 1 else symbolic[0], outputs)
            if self.subject.extra is None:
                layer_checks.check_file(model, x[0])
                return
            with tempfile.TemporaryDirectory() as folder:
                model.save(f"{folder}/model.keras")
                restored = keras.saving.load_model(f"{folder}/model.keras")
            found, expected = (each(x if len(x) > 1 else x[0]) for each in (restored, model))
            self.note("file", found, expected, self.subject.tolerance)

    def same_config(self, layer):
        """The same configuration as JSON, from an object with others in it."""
        text = json.dumps(keras.saving.serialize_keras_object(layer))
        restored = keras.saving.deserialize_keras_object(json.loads(text))
        again = json.dumps(keras.saving.serialize_keras_object(restored))
        text, again = (re.sub(r'"shared_object_id": \d+', "", each) for each in (text, again))
        if again != text:
            raise Failure("config", "another one after a round trip")


def drawn(seed, number):
    """Return the family and the configuration of a number; they depend on nothing else."""
    family = NAMES[number % len(NAMES)]  # they take turns
    rng = np.random.default_rng([seed, number])
    return family, json.loads(json.dumps(FAMILIES[family].draw(rng)))


def seed_of(seed, number):
    """Return the seed of the weights and inputs of a number."""
    return zlib.crc32(f"{seed} {number}".encode())


def check(family, configuration, seed):
    """Run all checks of a configuration.

    Returns:
        A dictionary of `family`, `configuration`, `errors` and `seconds`, and, where one failed,
        `check` and `reason`.
    """
    start, found = time.process_time(), {"family": family, "configuration": configuration}
    keras.utils.clear_session(free_memory=False)
    checks = None
    try:
        checks = Checks(family, configuration, seed)
        checks.run()
    except Failure as failure:
        found |= {"check": failure.check, "reason": failure.reason}
    except Exception as error:
        found |= {"check": "draw", "reason": f"{type(error).__name__}: {error}"[:2000]}
    errors = {} if checks is None else checks.errors
    return {**found, "errors": errors, "seconds": time.process_time() - start}
