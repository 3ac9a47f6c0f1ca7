"""Defaults of `SearchModel.compile`."""

import keras

from keras_xd import recipes
from keras_xd.core.compile_config import compilation_of, refuse_loss
from keras_xd.training import weight_groups
from keras_xd.training.optimizers import ArchitectureOptimizer


def completed(model, optimizer, architecture_optimizer, loss, metrics, options):
    """Return the arguments of `compile` with what is missing taken from the backbone."""
    refuse_loss(optimizer, "optimizer")
    refuse_loss(architecture_optimizer, "architecture_optimizer")
    known, options = compilation_of(model), dict(options)
    if loss is None and known is not None and known.loss is not None:
        loss = known.loss
        _take_over(known, "loss_weights", options)
    if loss is None:
        raise ValueError(
            "`compile` needs `loss`, unless the model was rewritten from one that is compiled. "
            "Received: loss=None"
        )
    if metrics is None and known is not None:
        metrics = known.restored("metrics")
        _take_over(known, "weighted_metrics", options)
    found = {} if known is None else _optimizers(known)
    if optimizer is None:
        optimizer = found.get("weights") or keras.optimizers.Adam()
    if architecture_optimizer is None:
        default = keras.optimizers.Adam(recipes.default_rate(model))
        architecture_optimizer = found.get("architecture") or default
        # Both groups share one loss, and so its scale.
        scale = getattr(optimizer, "loss_scale_factor", None)
        architecture_optimizer.loss_scale_factor = scale
    return optimizer, architecture_optimizer, loss, metrics, options


def _take_over(known, name, options):
    if options.get(name) is None:
        value = known.restored(name)
        if value is not None:
            options[name] = value


def _optimizers(known):
    """Return new optimizers of the configuration that a model was compiled with, by group."""
    optimizer = known.restored("optimizer")
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    if isinstance(optimizer, ArchitectureOptimizer):
        return {
            "weights": weight_groups.joined(optimizer),
            "architecture": optimizer.architecture_optimizer,
        }
    return {"weights": optimizer}
