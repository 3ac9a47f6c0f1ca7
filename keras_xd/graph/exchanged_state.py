"""Copy the state of a layer of several layers to a copy of it in which some are others."""

import keras

from keras_xd.graph import cloning, sublayer_paths


def copy_state_except(places, base, copy):
    """Copy the state of `base` to a built copy, but for the layers at some places."""
    containers, others, excluded = _layer_pairs(places, base, copy)
    for old, new in containers[1:]:
        new.trainable = old.trainable
    for old, new in others:
        cloning.copy_state(old, new)
    inside = {id(v) for pair in (*others, *excluded) for layer in pair for v in layer.variables}
    for old, new in containers:
        _copy_own_variables(old, new, inside)


def _layer_pairs(places, base, copy):
    """Return pairs of layers of `base` and of its copy, in three lists.

    Returns:
        `(containers, others, excluded)`: `base` and the layers around those at `places`, outermost
        first; the largest layers without such a layer inside; the layers at `places`.
    """
    excluded_places = set(places)
    container_places = {place[:depth] for place in places for depth in range(len(place))}
    containers, others, excluded = [(base, copy)], [], []
    for place, inner in sublayer_paths.walk(base, lambda layer: True):
        pair = inner, sublayer_paths.layer_at(copy, place)
        if place in excluded_places:
            excluded.append(pair)
        elif place in container_places:
            containers.append(pair)
        elif place[:-1] in container_places and pair[1] is not None:
            others.append(pair)
    return containers, others, excluded


def _copy_own_variables(old, new, inside):
    """Copy the variables of a container, except those of the layers inside, given by their ids."""
    before, after = ([v for v in layer.variables if id(v) not in inside] for layer in (old, new))
    if [v.shape for v in before] != [v.shape for v in after]:
        raise ValueError(
            "A layer made again by `from_config(get_config())` must have the same weights, in "
            f"the same attributes. Received: {type(old).__name__} '{old.name}' with "
            f"{[v.path for v in before]}, its copy with {[v.path for v in after]}"
        )
    for old_variable, new_variable in zip(before, after, strict=True):
        new_variable.assign(keras.ops.copy(old_variable))
        new_variable.trainable = old_variable.trainable
