"""Layers in places that a layer of several layers fills only when it is built.

Keras' attention layers make their projections in `build`, and no layer takes new ones once that is
over. So a copy of the layer's class exchanges them at the end of its `build`.
"""

import functools

import keras

from keras_xd.graph import layer_copies, sublayer_paths


def with_layers(root, new_layers):
    """Return `root`, or a copy of it, with other layers in some of its places.

    Args:
        root: a layer or subclassed model, made from its configuration and not built. It is changed.
        new_layers: list of `(place, layer)`, see `keras_xd.graph.sublayer_paths`. Where there is no
            layer yet, one is looked for when `root` is built, which raises `ValueError` if there is
            none.
    """
    late = [pair for pair in new_layers if is_late(root, pair[0])]
    late_places = {place for place, _ in late}
    if late:
        root = _with_late_layers(root, late)
    sublayer_paths.put(root, [pair for pair in new_layers if pair[0] not in late_places])
    return root


def is_late(root, place):
    """Return whether a layer can be put at a place of `root` only while something is built.

    Args:
        root: a layer or subclassed model, made from its configuration.
        place: see `keras_xd.graph.sublayer_paths`.
    """
    around = [sublayer_paths.layer_at(root, place[:depth]) for depth in range(1, len(place) + 1)]
    return None in around or any(map(_is_closed, [root, *around[:-1]]))


def _is_closed(layer):
    """Return whether a layer has been built by its constructor, after which nothing can be put."""
    return layer.built and type(layer).build is not keras.layers.Layer.build


def _with_late_layers(layer, new_layers):
    """Return `layer`, or a copy, that gets layers in places which are not there yet."""
    by_step, now, later = {}, [], []
    for (step, *rest), new in new_layers:
        by_step.setdefault(step, []).append((tuple(rest), new))
    for step, inside in by_step.items():
        child = sublayer_paths.layer_at(layer, (step,))
        if child is None or _is_closed(layer):
            later.append((step, inside))
        else:
            new = _with_late_layers(child, inside)
            if new is not child:
                now.append(((step,), new))
    if later:
        layer = layer_copies.from_config(
            _late_class(type(layer), later), layer_copies.configuration(layer)
        )
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
            new = own[0] if own else with_layers(layer_copies.copy_layer(child), inside)
            exchanged.append(((step,), new))
        sublayer_paths.put(self, exchanged)

    return type(layer_class)(layer_class.__name__, (layer_class,), {"build": build})
