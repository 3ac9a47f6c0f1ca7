"""The bilevel step: the architecture on one batch, the weights on another."""

import importlib

import keras
from keras import ops

from keras_xd.core import fixed_architecture
from keras_xd.core.validation import one_of

MODES = ("alternating", "first_order", "second_order")
BACKENDS = ("tensorflow", "jax", "torch")


def check_backend(mode):
    """Raise `ValueError` if `mode` does not run on the present backend of Keras."""
    one_of(mode, MODES, "mode")
    if keras.backend.backend() not in BACKENDS:
        raise ValueError(
            f"The bilevel modes need one of the backends {', '.join(BACKENDS)}; only 'joint' runs "
            f"on all of them. Received: mode={mode!r}, backend={keras.backend.backend()!r}"
        )


def fit_arguments(search, x, y, held_out, held_out_split, arguments):
    """Return what to give to `keras.Model.fit` for a bilevel search."""
    # TensorFlow, whose pipelines serve every backend, is not needed before.
    from keras_xd.training import bilevel_dataset

    if (held_out is None) == (held_out_split is None):
        raise ValueError(
            f"Mode '{search.mode}' needs either `architecture_validation_data` or "
            "`architecture_validation_split`. "
            f"Received: {'neither' if held_out is None else 'both'}"
        )
    strategy = search.distribute_strategy
    replicas = 1 if strategy is None else strategy.num_replicas_in_sync
    if replicas > 1 and search.optimizer is not search.search_optimizer:
        raise ValueError(
            "On several devices the bilevel modes run without dynamic loss scaling; use "
            f"'mixed_bfloat16' or one device. Received: mode={search.mode!r}, {replicas} devices, "
            f"optimizer={type(search.optimizer).__name__}"
        )
    arguments = dict(arguments)
    training, sample_weight = x, arguments.pop("sample_weight", None)
    if not bilevel_dataset.is_batched(x):
        training = (x, y, sample_weight)
    elif y is not None or sample_weight is not None:
        raise ValueError(
            "A dataset must hold its targets and sample weights itself. Received: "
            f"x of type {type(x).__name__} beside y or sample_weight"
        )
    share = arguments.pop("validation_split", 0.0)
    if share and arguments.get("validation_data") is None:
        training, arguments["validation_data"] = bilevel_dataset.split(
            training, share, "validation_split"
        )
    if held_out is None:
        training, held_out = bilevel_dataset.split(
            training, held_out_split, "architecture_validation_split"
        )
    elif isinstance(held_out, list):
        held_out = tuple(held_out)
    stream, steps, search.generators = bilevel_dataset.with_steps(
        training,
        held_out,
        arguments.pop("steps_per_epoch", None),
        batch_size=arguments.pop("batch_size", None),
        shuffle=arguments.pop("shuffle", True),
        replicas=replicas,
        ahead=search.steps_per_execution,
    )
    return stream, None, {**arguments, "steps_per_epoch": steps, "shuffle": False}


def train_step(search, arguments, weights_step):
    """Move the architecture by a batch's second half, then the weights by its first half."""
    *state, data = arguments
    training, held_out = halves(data)
    logs, *state = _backend().with_state(
        search, lambda: _architecture_step(search, training, held_out), *state
    )
    ordered = _backend().after([*_groups(search)[0], *search.architecture_loss.variables])
    with ordered, search.search_optimizer.only("weights"), fixed_architecture.fixed():
        result = weights_step(*state, training)
    if state:
        return {**result[0], **logs}, result[1]
    return {**result, **logs}


def halves(data):
    """Return the training and the architecture samples of an interleaved batch."""

    def every_other(places):
        return keras.tree.map_structure(
            lambda leaf: None if leaf is None else leaf[places], data, none_is_leaf=True
        )

    return every_other(slice(0, None, 2)), every_other(slice(1, None, 2))


def architecture_gradients(search, training, held_out):
    """Return the gradients by which a search moves its architecture.

    - `"alternating"` and `"first_order"`: `∇_α V(w, α)`.
    - `"second_order"`: `∇_α V(w', α) - η (∇_α L(w + εu, α) - ∇_α L(w - εu, α)) / 2ε`, where
      `w' = w + μm - η (∇_w L(w, α) + λw)` is the next step of SGD with its velocity `m`,
      `u = ∇_w' V(w', α)` and `ε = perturbation / ‖u‖₂`. The product with the matrix of second
      derivatives is a central difference; nothing is differentiated twice. Of optimizers other
      than SGD the learning rate `η` and the weight decay `λ` are used. Where weights have several
      groups, each has its own `η`, `λ` and `μ`; then the differences are along `ηu / max η`.
    """
    architecture, weights = _groups(search)
    if search.mode != "second_order" or not weights:
        loss, state, gradients = _gradients(search, held_out, architecture, architecture)
        return loss, gradients, state if search.mode == "alternating" else []

    sum_of_replicas = _backend().sum_of_replicas
    _, _, slopes = _gradients(search, training, weights, weights)
    slopes, spoiled = _without_overflow(sum_of_replicas(slopes))
    ahead = _ahead(search.search_optimizer, weights, slopes)
    loss, _, both = _gradients(search, held_out, architecture + weights, architecture + ahead)
    gradients, direction = both[: len(architecture)], both[len(architecture) :]
    direction, rate = _by_rates(search.search_optimizer, weights, sum_of_replicas(direction))
    corrections = _second_derivatives(search, training, architecture, weights, direction, rate)
    return loss, _corrected(gradients, corrections, spoiled), []


def loss_scale(search):
    """Return the factor by which the optimizer scales the loss, a tensor."""
    return search.optimizer.scale_loss(ops.ones((), "float32"))


def scaled_loss(search, data, values=()):
    """Return the scaled loss of a batch, and the state that the pass would leave behind."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    # Keras regularizes in such a scope only what has a value in it, and JAX knows no other value.
    present = [(v, v) for v in [*search.variables, *search.metrics_variables]]
    state = search.model.non_trainable_variables
    with keras.StatelessScope([*present, *values], collect_losses=True) as scope:
        before = [scope.get_current_value(v) for v in state]
        outputs = search(x, training=True)
        loss = search.compute_loss(x, y, outputs, sample_weight, training=True)
        after = [scope.get_current_value(v) for v in state]
    moved = [None if old is new else new for old, new in zip(before, after, strict=True)]
    return search.optimizer.scale_loss(loss), moved


def _backend():
    """Return the module of Keras' present backend."""
    return importlib.import_module(f"keras_xd.training.backends.{keras.backend.backend()}")


def _architecture_step(search, training, held_out):
    """Move the architecture, if it moves, and return its loss before as logs."""
    optimizer = search.search_optimizer
    architecture, _ = _groups(search)
    if optimizer.architecture_fixed or not architecture:
        loss = scaled_loss(search, held_out)[0] / loss_scale(search)
    else:
        loss, gradients, state = architecture_gradients(search, training, held_out)
        for variable, value in state:
            variable.assign(value)
        scale = loss_scale(search)
        # The optimizer is given a gradient, or none, for every variable it was built on.
        scaled = {
            id(v): None if g is None else g * ops.cast(scale, g.dtype)
            for v, g in zip(architecture, gradients, strict=True)
        }
        variables = search.trainable_variables
        with optimizer.only("architecture"):
            _backend().apply(search.optimizer, [scaled.get(id(v)) for v in variables], variables)
    first = next(leaf for leaf in keras.tree.flatten(held_out) if leaf is not None)
    # A Keras loss divides by the number of replicas where the model is distributed.
    loss = loss * _backend().replicas()
    search.architecture_loss.update_state(loss, sample_weight=ops.shape(first)[0])
    return {"architecture_loss": search.architecture_loss.result()}


def _groups(search):
    """Return the trainable variables of the architecture and those of the weights."""
    variables = search.trainable_variables
    in_architecture = [search.search_optimizer.is_architecture(v) for v in variables]
    return tuple(
        [v for v, found in zip(variables, in_architecture, strict=True) if found == group]
        for group in (True, False)
    )


def _gradients(search, data, variables, values, fixed=()):
    """Return loss, state and gradients of a batch at `values` of `variables`, unscaled."""

    def function(tensors):
        return scaled_loss(search, data, [*zip(variables, tensors, strict=True), *fixed])

    loss, moved, gradients = _backend().loss_and_gradients(function, values)
    changes = zip(search.model.non_trainable_variables, moved, strict=True)
    state = [(variable, value) for variable, value in changes if value is not None]
    scale = loss_scale(search)
    gradients = [None if g is None else g / ops.cast(scale, g.dtype) for g in gradients]
    return loss / ops.cast(scale, loss.dtype), state, gradients


def _second_derivatives(search, data, architecture, weights, direction, factor):
    """Return `factor · ∇²_αw L · u` of a batch for a direction `u` of the weights."""
    dtype = keras.config.floatx()
    direction = [
        ops.zeros_like(w) if u is None else u for u, w in zip(direction, weights, strict=True)
    ]
    length = ops.sqrt(sum(ops.sum(ops.square(ops.cast(u, dtype))) for u in direction))
    # Where there is no direction both sides are the same.
    epsilon = search.perturbation / ops.maximum(length, 1e-30)

    def gradients_at(step):
        moved = [
            (w, w + ops.cast(step, w.dtype) * u) for w, u in zip(weights, direction, strict=True)
        ]
        return _gradients(search, data, architecture, architecture, moved)[2]

    sides = zip(gradients_at(epsilon), gradients_at(-epsilon), strict=True)
    scale = ops.cast(factor, dtype) / (2.0 * epsilon)
    return [
        None if plus is None else ops.cast(scale, plus.dtype) * (plus - minus)
        for plus, minus in sides
    ]


def _by_rates(groups, weights, direction):
    """Return a direction in the proportions of the weights' learning rates, and the largest."""
    dtype = keras.config.floatx()
    rates = [ops.cast(optimizer.learning_rate, dtype) for optimizer in groups.weights_optimizers]
    largest = ops.max(ops.stack(rates))
    names = [optimizer.name for optimizer in groups.weights_optimizers]
    shares = {n: r / ops.maximum(largest, 1e-30) for n, r in zip(names, rates, strict=True)}
    return [
        None if u is None else ops.cast(shares[groups.optimizer_map(w).name], u.dtype) * u
        for w, u in zip(weights, direction, strict=True)
    ], largest


def _corrected(gradients, corrections, spoiled):
    """Return the gradients less their corrections, and all NaN if `spoiled` is."""
    result = []
    for gradient, correction in zip(gradients, corrections, strict=True):
        if correction is not None:
            gradient = -correction if gradient is None else gradient - correction
        if gradient is not None:
            # An optimizer that scales the loss skips what is not finite, and lowers its scale.
            gradient = gradient + ops.cast(spoiled, gradient.dtype)
        result.append(gradient)
    return result


def _without_overflow(slopes):
    """Return the slopes, or zeros if one is not finite, and a scalar: 0, or NaN in that case."""
    known = [ops.all(ops.isfinite(slope)) for slope in slopes if slope is not None]
    finite = ops.all(ops.stack([ops.convert_to_tensor(True), *known]))
    slopes = [None if s is None else ops.where(finite, s, ops.zeros_like(s)) for s in slopes]
    return slopes, ops.where(finite, 0.0, float("nan"))


def _ahead(groups, weights, slopes):
    """Return the weights after one step of SGD with their group's rate, velocity and decay."""
    velocities = {
        id(optimizer): iter(optimizer.momentums)
        for optimizer in groups.weights_optimizers
        if isinstance(optimizer, keras.optimizers.SGD) and optimizer.momentum and optimizer.built
    }
    ahead = []
    for weight, slope in zip(weights, slopes, strict=True):
        optimizer = groups.optimizer_map(weight)
        velocity = next(velocities[id(optimizer)]) if id(optimizer) in velocities else None
        rate = ops.cast(optimizer.learning_rate, weight.dtype)
        step = weight * (optimizer.weight_decay or 0.0)
        if slope is not None:
            step = step + slope
        weight = weight - rate * step
        if velocity is not None:
            # Keras' velocity is that of the formula times the negative learning rate.
            weight = weight + optimizer.momentum * ops.convert_to_tensor(velocity)
        ahead.append(weight)
    return ahead
