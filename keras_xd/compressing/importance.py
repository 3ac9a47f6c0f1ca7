"""How much the loss of a model depends on its channels and residual blocks."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core.searchable import flatten_layers
from keras_xd.graph.channel_units import ChannelUnits
from keras_xd.training.inner_model import InnerModel

METHODS = ("taylor", "magnitude")
BATCH = 64  # samples of one step towards a mean


def taylor(
    model: keras.Model, units: ChannelUnits, x: Any, y: Any, loss: Any, loss_weights: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the importance of each unit of channels and of each residual block.

    Of channels it is the mean over samples of `(∂loss/∂gate)²`, of a gate of 1 that multiplies them
    where layers read them: the first-order change of the loss of a sample if they become 0,
    squared. Near a minimum that is about twice the change of the mean loss to second order. A block
    is too large a part for that: its importance is twice the change of the mean loss without it, 0
    if that falls. What is normalized, dropped or regularized is as in inference.
    """
    reads = [(s.weight, s.axis, s.units) for s in units.slots.values() if s.reads]
    layers = flatten_layers(model)
    flags = [(one, one.trainable) for one in (*layers, *model.variables)]
    for layer in layers:
        layer.trainable = True
    try:
        probe = _Probe(model)
        optimizer = _GateGradients(reads, units.count)
        optimizer.build(probe.trainable_variables)
        probe.compile(
            optimizer,
            loss,
            loss_weights=loss_weights,
            auto_scale_loss=False,
            jit_compile=keras.backend.backend() == "jax",
        )
        probe.fit(x, y, batch_size=1, verbose=0, shuffle=False)
        losses = [
            _loss_without(probe, x, y, ends) for ends in [(), *(b.ends for b in units.blocks)]
        ]
    finally:
        for one, trainable in flags:
            one.trainable = trainable
    found = ops.convert_to_numpy(optimizer.squares) / len(keras.tree.flatten(y)[0])
    return found, 2 * np.maximum(np.array(losses[1:]) - losses[0], 0.0)


def _loss_without(probe, x, y, weights):
    """Return the mean loss if some weights are 0."""
    values = [ops.convert_to_numpy(weight) for weight in weights]
    for weight in weights:
        weight.assign(ops.zeros_like(weight))
    try:
        return probe.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True)["loss"]
    finally:
        for weight, value in zip(weights, values, strict=True):
            weight.assign(value)


def magnitude(units: ChannelUnits) -> np.ndarray:
    """Return the squared norm of each unit's filters, relative to the mean of its group."""
    norms = np.zeros(units.count)
    for slot in units.slots.values():
        if not slot.reads and len(slot.weight.shape) > 1:
            others = tuple(axis for axis in range(len(slot.weight.shape)) if axis != slot.axis)
            squares = ops.convert_to_numpy(slot.weight).astype("float64") ** 2
            np.add.at(norms, slot.units, squares.sum(others))
    for group in units.groups:
        norms[group.units] /= max(norms[group.units].mean(), 1e-30)
    return norms


class _Probe(InnerModel):
    """A model in inference mode, whose loss is that of its outputs alone."""

    def __init__(self, model):
        super().__init__(name=model.name, autocast=False, dtype=model.dtype_policy)
        self.model = model
        self.built = True

    @property
    def losses(self):
        """Nothing: regularizers say nothing of channels."""
        return []

    def call(self, inputs, training=None):
        return self.model(inputs, training=False)


class _GateGradients(keras.optimizers.Optimizer):
    """Sums the squares of `Σ weight · gradient` over parts of weights, and changes none."""

    def __init__(self, reads, count):
        super().__init__(learning_rate=0.0)
        self.reads = lambda: reads  # so that these are no variables of the optimizer
        self.count = count

    def build(self, variables):
        super().build(variables)
        self.places = {id(variable): place for place, variable in enumerate(variables)}
        self.squares = self.add_variable(
            (self.count,), dtype="float32", initializer="zeros", name="squares"
        )

    def apply(self, grads, trainable_variables=None):
        total = ops.zeros((self.count,), "float32")
        for weight, axis, units in self.reads():
            gradient = grads[self.places[id(weight)]]
            if gradient is None:
                continue
            product = ops.cast(ops.convert_to_tensor(weight) * gradient, "float32")
            others = tuple(other for other in range(len(product.shape)) if other != axis)
            sums = ops.sum(product, others)
            total = total + ops.segment_sum(sums, np.asarray(units, "int32"), self.count)
        self.squares.assign_add(ops.square(total))
