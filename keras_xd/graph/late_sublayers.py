"""Layers in places that a layer of several layers fills only when it is built.

Keras' attention layers make their projections in `build`, and no layer takes new ones once that is
over. So a copy of the layer's class exchanges them at the end of its `build`.
"""

import functools

from keras_xd.graph import cloning, sublayer_paths


def with_layers(root, new_layers):
    """Return `root`, or a copy of it, with other layers in some of its places.

    Args:
        root: a layer or subclassed model, made from its configuration and not built. It is changed.
        new_layers: list of `(place, layer)`, see `keras_xd.graph.sublayer_paths`. Where there is no
            layer yet, one is looked for when `root` is built, which raises `ValueError` if there is
            none.
    """
    late = [pair for pair in new_layers if sublayer_paths.layer_at(root, pair[0]) is None]
    if late:
        root = _with_late_layers(root, late)
    late_places = {place for place, _ in late}
    sublayer_paths.put(root, [pair for pair in new_layers if pair[0] not in late_places])
    return root


def _with_late_layers(layer, new_layers):
    """Return `layer`, or a copy, that gets layers in places which are not there yet."""
    by_step, now, later = {}, [], []
    for (step, *rest), new in new_layers:
        by_step.setdefault(step, []).append((tuple(rest), new))
    for step, inside in by_step.items():
        child = sublayer_paths.layer_at(layer, (step,))
        if child is None:
            later.append((step, inside))
        else:
            new = _with_late_layers(child, inside)
            if new is not child:
                now.append(((step,), new))
    if later:
        layer = _late_class(type(layer), later).from_config(layer.get_config())
    sublayer_paths.put(layer, now)
    return layer


def _late_class(layer_class, later):
    """Return a subclass that exchanges layers at the end of `build`."""

    @functools.wraps(layer_class.build)  # Keras keeps the arguments by their names
    def build(self, *args, **kwargs):
        layer_class.build(self, *args, **kwargs)
        exchanged = []
        for step, inside in later:
            child = sublayer_paths.layer_at(self, (step,))
            if child is None:
                raise ValueError(
                    "A model made again from its configuration must have its layers in the same "
                    f"attributes. Received: {layer_class.__name__} '{self.name}' without a layer "
                    f"at {step}"
                )
            own = [new for rest, new in inside if not rest]
            new = own[0] if own else with_layers(cloning.copy_layer(child), inside)
            exchanged.append(((step,), new))
        sublayer_paths.put(self, exchanged)

    return type(layer_class)(layer_class.__name__, (layer_class,), {"build": build})
