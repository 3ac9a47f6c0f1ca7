"""How long layers take in a runtime, by their numbers of channels."""

import contextlib
import dataclasses
import math
import os
import tempfile
import time
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_xd.compressing.allocation import Term
from keras_xd.core.configured import config_with_functions
from keras_xd.graph import channelwise, cost
from keras_xd.graph.channel_units import HEADS, SIZES, ChannelUnits
from keras_xd.graph.runtimes import caller

RUNTIMES = ("tensorflow", "onnx", "litert")
# Shares of the input and output channels at which a layer is measured.
SHARES = ((1, 1), (1, 0.5), (0.5, 1), (0.5, 0.5), (0.25, 0.25))
MEASURED = (*SIZES, *cost.DEPTHWISE, *HEADS)
MOST, SECONDS = 200, 0.1  # calls and seconds of a measurement


class LatencyTable:
    """Milliseconds of layers, each measured once.

    Args:
        runtime: one of `RUNTIMES`.
        x: an example input, a batch.
    """

    def __init__(self, runtime: str, x: Any):
        self.runtime, self.x = runtime, x
        self.batch = len(keras.tree.flatten(x)[0])
        self.known: dict[str, float] = {}
        self.first: keras.Model | None = None
        self.models: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        inputs = keras.Input(batch_shape=(self.batch, 1))
        nothing = keras.Model(inputs, keras.layers.Rescaling(2.0)(inputs))
        self.overhead = self._milliseconds(np.zeros((self.batch, 1), "float32"), nothing)[0]

    def whole(self, model: keras.Model) -> float:
        """Return the milliseconds of a call of a model, measured once.

        Calls of a later model alternate with those of the first one, so that both have the same
        load of the machine.
        """
        if self.first is None:
            self.first, self.models[model] = model, self._milliseconds(self.x, model)[0]
        elif model not in self.models:
            before, after = self._milliseconds(self.x, self.first, model)
            self.models[model] = self.models[self.first] * after / before
        return self.models[model]

    def terms(self, model: keras.Model, units: ChannelUnits) -> tuple[list[Term], dict]:
        """Return the parts of the latency of a model, and the milliseconds of layers by their ids.

        A layer takes `a + b·inputs + c·outputs + d·inputs·outputs`, fitted to the table. What
        other layers take is in proportion to the channels that these give out. The outputs of
        attention are its heads.
        """
        slots = units.slots.values()
        read = {id(s.layer): s for s in slots if s.reads and not s.heads}
        made = {id(s.layer): s for s in slots if _makes(s)}
        made |= {id(s.layer): s for s in slots if s.heads and _makes(s)}
        terms: list[Term] = []
        found: dict[int, float] = {}
        places = []
        for _, layer, shape, times in cost.model_calls(model):
            if type(layer) not in MEASURED or id(layer) not in made:
                continue
            after = made[id(layer)]
            before = read.get(id(layer), after)
            values = [self.of_layer(layer, shape, *share) for share in SHARES]
            factors = np.linalg.lstsq(_features(SHARES), np.array(values), rcond=None)[0]
            factors = np.maximum(factors, 0.0)  # fewer channels take no longer
            factors *= values[0] / factors.sum()  # of the whole layer what was measured
            if before is after:
                factors = np.array([factors[0], 0.0, factors[1:].sum(), 0.0])
            count, size = len(before.units), len(after.units)
            parts: tuple[tuple, ...] = ((), (before,), (after,), (before, after))
            for part, factor, divisor in zip(
                parts, factors, (1, count, size, count * size), strict=True
            ):
                terms.append(Term(layer, times * float(factor) / divisor, part))
            found[id(layer)] = found.get(id(layer), 0.0) + times * values[0]
            if type(layer) not in HEADS:
                outputs = layer.compute_output_shape(shape)
                places.append((layer, after, times * math.prod(outputs[1:]) / size))
        sum_of_layers, whole = sum(found.values()), self.whole(model)
        scale, rest = min(1.0, whole / sum_of_layers), max(0.0, whole - sum_of_layers)
        terms = [dataclasses.replace(term, factor=scale * term.factor) for term in terms]
        everything = sum(count * len(slot.units) for _, slot, count in places)
        terms += [Term(one, rest * count / everything, (slot,)) for one, slot, count in places]
        return terms, found

    def of_layer(self, layer: keras.layers.Layer, shape: Any, inputs=1.0, outputs=1.0) -> float:
        """Return the milliseconds of a layer with shares of its input and output channels."""
        config = config_with_functions(layer)
        kind = type(layer)
        shapes = [[self.batch, *one[1:]] for one in (shape if kind in HEADS else [shape])]
        sizes = HEADS.get(kind) or ((SIZES[kind],) if kind in SIZES else ())
        least = min((config[name] for name in sizes), default=0)  # heads of keys are shared
        for name in sizes:
            config[name] = config[name] // least * max(1, round(outputs * least))
        if kind is not keras.layers.Embedding:
            for one in shapes:
                axis = channelwise.channel_axis(layer, len(one))
                one[axis] = max(1, round(inputs * one[axis]))
        config["name"] = None
        key = repr((kind, config, shapes))
        if key not in self.known:
            tensors = [keras.Input(batch_shape=one) for one in shapes]
            model = keras.Model(tensors, kind.from_config(config)(*tensors))
            x = [np.zeros(tensor.shape, tensor.dtype) for tensor in tensors]
            taken = self._milliseconds(x, model)[0]
            self.known[key] = max(taken - self.overhead, 0.05 * taken)
        return self.known[key]

    def _milliseconds(self, x, *models):
        with contextlib.ExitStack() as stack:
            folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in models]
            calls = [
                caller(model, x, self.runtime, os.fspath(folder))
                for model, folder in zip(models, folders, strict=True)
            ]
            return least_milliseconds(*calls)


def least_milliseconds(*calls: Callable) -> list[float]:
    """Return the least times of calls, made in turn: those that other work does not slow."""
    for call in 3 * calls:
        call()
    rounds: list[list[float]] = []
    while len(rounds) < 5 or (np.sum(rounds) < SECONDS * len(calls) and len(rounds) < MOST):
        rounds.append([])
        for call in calls:
            begin = time.perf_counter()
            call()
            rounds[-1].append(time.perf_counter() - begin)
    return (1e3 * np.min(rounds, axis=0)).tolist()


def _makes(slot):
    """Return whether a slot is of the channels that a layer gives out."""
    return not slot.reads and len(slot.weight.shape) > 1


def _features(shares):
    return np.array([[1, i, o, i * o] for i, o in shares], float)
