"""Sizes in files and texts that would take unbounded work are refused before anything is built."""

import functools
import json
import time
import zipfile

import keras
import pytest

import keras_xd
from keras_xd import genotypes, kmatrix, layers
from keras_xd.core import validation
from keras_xd.grammar import parse
from keras_xd.grammar.graphs import network_graph
from keras_xd.grammar.topologies import linear
from keras_xd.kmatrix.radix import factorise
from keras_xd.layers.k.k_dense import KDense, KLayer

SIDES = (10**6, 10**12 + 39, 10**18)
LAYERS = {
    "XDConv1D": lambda side: (layers.XDConv1D(2, 3), (None, side, 2)),
    "circular": lambda side: (layers.XDConv1D(2, 3, padding="circular"), (None, side, 2)),
    "XDConv2D": lambda side: (layers.XDConv2D(2, 3), (None, 8, side, 2)),
    "radix": lambda side: (layers.XDConv1D(2, 3, radix=99991), (None, side, 2)),
    "transposed": lambda side: (layers.XDConv1DTranspose(2, 3, strides=side), (None, 8, 2)),
    "continuous": lambda side: (
        layers.CKConv1D(layers.KernelNetwork("magnet", 2)),
        (None, 1000 * side, 2),
    ),
    "causal": lambda side: (layers.XDCausalConv1D(2, 3), (None, side, 2)),
    "KOpConv1D": lambda side: (layers.KOpConv1D(2, 3), (None, side, 2)),
    "kernel": lambda side: (layers.XDConv1D(2, side, padding="same"), (None, 8, 2)),
    "filters": lambda side: (layers.XDConv1D(1000 * side, 3), (None, 8, 2)),
    "KDense": lambda side: (KDense(side), (None, 8)),
    "KLayer": lambda side: (KLayer(1000 * side), (None, 8, 2)),
    "sizes of a KLayer": lambda side: (KLayer(2), (None, side, 2)),
    "normalized": lambda side: (
        layers.WeightNormalizedConv1D(8, 1000 * side, padding="same"),
        (None, 8, 2),
    ),
    "LSTM": lambda side: (layers.StructuredLSTM(side), (None, 4, 8)),
    "embedding": lambda side: (layers.StructuredEmbedding(1000 * side, 8), (None, 4)),
    "mixture": lambda side: (layers.MixedDense(1000 * side), (None, 8)),
    **{
        family: lambda side, family=family: (
            layers.StructuredDense(1000 * side, family=family),
            (None, 8),
        )
        for family in ("kaleidoscope", "monarch", "block_tensor_train", "blast", "low_rank")
    },
}
CELL = {"blocks": [{"first": [["identity", 0], ["identity", 1]], "second": "identity"}] * 10**6}


def build(name, side):
    layer, shape = LAYERS[name](side)
    layer.build(shape)


def finalized_layers():
    """Return a built layer of each class that layers are finalized to."""
    operation = layers.XDConv2D(2, 3)
    searched = (layers.CKConv1D(layers.KernelNetwork("magnet", 4)), layers.DifferentiableMask())
    mixture = layers.MixedOperation1D(4, 3, padding="same", other_weight=None, partial_channels=2)
    for layer, shape in ((operation, (None, 4, 4, 2)), (mixture, (None, 8, 4))):
        layer.build(shape)
    for layer in searched:
        layer.build((None, 8, 4))
    finalized = [layer.finalize() for layer in (*searched, mixture)]
    return [*(operation.finalize(form) for form in ("spectrum", "kernel", "low_rank")), *finalized]


def with_large_numbers(value, large):
    """Yield copies of nested lists and dictionaries in which one integer is a large one."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield large
    elif isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            for changed in with_large_numbers(item, large):
                entries = dict(value) if isinstance(value, dict) else list(value)
                entries[key] = changed
                yield entries


def nested(depth):
    """Return empty lists in lists."""
    return functools.reduce(lambda inner, _: [inner], range(depth), [])


def network(text, topologies=None):
    network_graph(parse(text), topologies)


CASES = {
    **{
        f"{name} {side}": lambda name=name, side=side: build(name, side)
        for name in LAYERS
        for side in SIDES
    },
    "prime factors": lambda: factorise(10**18 + 9),
    "blocks": lambda: layers.XDConv1D(2, 3, radix=99991).build((None, 100_000, 2)),
    "blocks of a layer": lambda: layers.XDConv1D(2, 3, radix=1000).build((None, 100_000, 2)),
    "taps": lambda: layers.DashConv1D(2, 10**12).build((None, 8, 2)),
    "candidate": lambda: layers.DashConv1D(2, 3, kernel_sizes=(10**12,)).build((None, 8, 2)),
    "operation": lambda: layers.DiscreteOperation(1, 2, "convolution", 10**12).build((None, 8, 2)),
    "nested genotype": lambda: genotypes.CellGenotype.from_dict({"blocks": nested(100_000)}),
    "padded size": lambda: kmatrix.padded_size(10**8),
    "blocks of a cell": lambda: genotypes.CellGenotype.from_dict(CELL),
    "operations of a block": lambda: genotypes.BlockGenotype(
        (("identity", 0),) * 10**6, "identity"
    ),
    "arguments": lambda: network("(S Linear2" + " id" * 100_000 + ")"),
    "edges": lambda: network("(S Long" + " (OP conv)" * 100_000 + ")", {"Long": linear(100_000)}),
    "clones": lambda: network("(S clone8_add " * 30 + "(S conv)" + ")" * 30),
}


@pytest.mark.parametrize("name", CASES)
def test_what_would_take_unbounded_work_is_refused(name):
    start = time.process_time()
    with pytest.raises(ValueError, match="Received: "):
        CASES[name]()
    assert time.process_time() - start < 5


@pytest.mark.parametrize("radix", [None, "fastest", 2, 64, 1000, 99991])
def test_padded_sizes_up_to_the_largest_are_found(radix):
    start = time.process_time()
    for need in (262_145, 300_007, validation.LARGEST_SIDE):
        size = kmatrix.padded_size(need, radix)
        assert need <= size <= validation.LARGEST_SIDE
    assert time.process_time() - start < 15


@pytest.mark.parametrize("layer", finalized_layers(), ids=lambda layer: type(layer).__name__)
def test_sizes_of_finalized_layers_in_files_are_bounded(layer):
    """One large integer in a configuration: the layer is refused, or is no larger by that."""
    start, count = time.process_time(), 0
    config = {"config": layer.get_config(), "build": layer.get_build_config()}
    for changed in with_large_numbers(json.loads(json.dumps(config)), 10**12):
        count += 1
        try:
            copy = type(layer).from_config(changed["config"])
            copy.build_from_config(changed["build"])
        except (TypeError, ValueError):
            continue
        assert copy.count_params() < 10**6
    assert count > 1
    assert time.process_time() - start < 5


@pytest.mark.parametrize("name", ["keras.utils.plot_model", "keras.config.set_floatx"])
def test_a_file_may_not_name_any_function_of_keras_as_its_measure(name, tmp_path):
    mixture = layers.MixedDense(4, ("low_rank", "dense"))
    search = keras_xd.SearchModel(keras.Sequential([keras.Input((4,)), mixture]))
    search.compile("sgd", "sgd", "mse", complexity_target=2.0, complexity_measure="parameters")
    search.save(tmp_path / "search.keras")
    keras.models.load_model(tmp_path / "search.keras")
    module, _, function = name.rpartition(".")
    reference = {"class_name": "function", "registered_name": "function"}
    reference |= {"module": module, "config": function}
    with (
        zipfile.ZipFile(tmp_path / "search.keras") as old,
        zipfile.ZipFile(tmp_path / "changed.keras", "w") as new,
    ):
        for entry in old.namelist():
            content = old.read(entry)
            if entry == "config.json":
                config = json.loads(content)
                config["compile_config"]["complexity_measure"] = reference
                content = json.dumps(config)
            new.writestr(entry, content)
    with pytest.raises(ValueError, match="`complexity_measure` in a file must be one of"):
        keras.models.load_model(tmp_path / "changed.keras")
