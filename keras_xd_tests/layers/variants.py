"""The check of a class that is another one with fixed arguments."""

from keras_xd.core.searchable import SearchableLayer
from keras_xd.testing import check_calls, check_config, check_file, check_protocol, check_unbuilt


def check_variant(layer_class, init_kwargs, input_shape, rng):
    """Check configuration, calls and files of a class that is another one with fixed arguments."""
    inputs = rng.normal(size=input_shape).astype("float32")
    check_config(layer_class, init_kwargs)
    restored = check_unbuilt(layer_class, init_kwargs, inputs.shape)
    assert len(restored(inputs)) == len(inputs)
    layer = layer_class(**init_kwargs)
    model, outputs = check_calls(layer, inputs)
    check_file(model, inputs, outputs)
    if isinstance(layer, SearchableLayer):
        check_protocol(layer, inputs)
    return layer
