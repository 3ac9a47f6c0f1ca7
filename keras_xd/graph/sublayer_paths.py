"""Paths of sublayers: attributes, and lists, tuples and dictionaries in them."""

import functools

import keras

from keras_xd.core.searchable import is_graph


def layers_inside(layer):
    """Return `(steps, layer)` for each layer that `layer` keeps itself, each once."""
    if is_graph(layer):
        return []
    found = {}

    def visit(value, steps, containers):
        if isinstance(value, keras.layers.Layer):
            found.setdefault(id(value), (steps, value))
        elif isinstance(value, (dict, list, tuple)) and id(value) not in containers:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                visit(item, (*steps, key), containers | {id(value)})

    for name, value in attributes(layer).items():
        visit(value, (name,), frozenset())
    found.pop(id(layer), None)
    # Torch keeps layers apart from lists, so attributes alone do not have the order of a model.
    order = [id(inner) for inner in layer.layers] if isinstance(layer, keras.Model) else []
    places = {inner: place for place, inner in enumerate(order)}
    return sorted(found.values(), key=lambda entry: places.get(id(entry[1]), len(order)))


def attributes(layer):
    """Return the attributes of a layer that are not Keras' own, by name."""
    own = _names_of_keras()
    return {name: value for name, value in _kept(layer).items() if name not in own}


def _kept(layer):
    """All attributes; layers of torch keep those that are layers apart."""
    return {**vars(layer).get("_modules", {}), **vars(layer)}


def layer_at(root, place):
    """Return the layer at a place of `root`, or `None`."""
    value = root
    try:
        for name, *keys in place:
            value = getattr(value, name)
            for key in keys:
                value = value[key]
    except (AttributeError, LookupError, TypeError):
        return None
    return value if isinstance(value, keras.layers.Layer) else None


def walk(root, descend):
    """Return `(place, layer)` of the layers in `root`, each once, containers before their
    content.
    """
    found, result = {id(root)}, []

    def visit(layer, place):
        for steps, inner in layers_inside(layer):
            if id(inner) not in found:
                found.add(id(inner))
                result.append(((*place, steps), inner))
                if descend(inner):
                    visit(inner, (*place, steps))

    visit(root, ())
    return result


def require(root, places):
    """Raise `ValueError` for a place without a layer."""
    for place in places:
        if layer_at(root, place) is None:
            raise ValueError(
                "A model made again from its configuration must have its layers in the same "
                f"attributes. Received: {type(root).__name__} '{root.name}' without a layer at "
                f"{place}"
            )


def put(root, new_layers):
    """Put layers in the places of others, wherever `root` keeps these, as the same object too."""
    require(root, [place for place, _ in new_layers])
    exchange = {id(layer_at(root, place)): new for place, new in new_layers}
    holders = [root, *(layer for _, layer in walk(root, lambda layer: id(layer) not in exchange))]
    for holder in holders:
        if id(holder) not in exchange:
            _put_into(holder, exchange)


def _put_into(holder, exchange):
    order = [layer for _, layer in layers_inside(holder)]
    if not any(id(layer) in exchange for layer in order):
        return
    for name, value in attributes(holder).items():
        new = _exchanged(value, exchange)
        if new is not value:
            setattr(holder, name, new)
    # Keras tracks what an attribute held until it is taken out of a list of the layer. All are
    # taken out and put in again, so that their order stays.
    new_order = [exchange.get(id(layer), layer) for layer in order]
    holder.exchanged_layers = [*order, *new_order]
    while holder.exchanged_layers:
        holder.exchanged_layers.pop()
    holder.exchanged_layers = new_order
    holder.exchanged_layers = None


def _exchanged(value, exchange):
    """Return `value` with layers exchanged; the same object where there is nothing to exchange."""
    if isinstance(value, keras.layers.Layer):
        return exchange.get(id(value), value)
    if isinstance(value, dict):
        new = {key: _exchanged(item, exchange) for key, item in value.items()}
        return new if any(new[key] is not item for key, item in value.items()) else value
    if isinstance(value, (list, tuple)):
        new = [_exchanged(item, exchange) for item in value]
        if all(a is b for a, b in zip(new, value, strict=True)):
            return value
        if isinstance(value, list):
            return new
        # The class, because TensorFlow wraps tuples.
        return value.__class__(*new) if hasattr(value, "_fields") else tuple(new)
    return value


@functools.cache
def _names_of_keras():
    """Return the names of the attributes that Keras itself gives layers and models."""
    names = set()
    for sample in (keras.Model(), keras.layers.Layer(), keras.Sequential()):
        sample.list, sample.layer = [keras.layers.Identity()], keras.layers.Identity()
        names |= set(_kept(sample)) - {"list", "layer"}
    return names
