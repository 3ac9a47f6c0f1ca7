"""Architectures in files: into models of other data, or refused with nothing changed."""

import io
import json
import zipfile

import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.core.searchable import architecture_variables, model_variables
from keras_xd.layers import XDConv2D
from keras_xd.training.architecture_files import load_architecture, save_architecture
from keras_xd.training.architecture_signature import signature
from keras_xd.training.random_architecture import randomize_architecture
from keras_xd.training.search_model import SearchModel

CIRCULAR = {"padding": "circular", "channel_gates": False}  # gates are those of channels


def values_of(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def convolutional(*searched, size=6, channels=1, classes=3):
    """Return a classifier; what is searched sees `size` points of `channels` channels."""
    return keras.Sequential(
        [
            keras.Input((size, channels)),
            *searched,
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(classes, name=f"head_{classes}"),
        ]
    )


def xd(name="conv", filters=2, kernel_size=3, **options):
    return layers.XDConv1D(filters, kernel_size, **{**CIRCULAR, **options}, name=name)


def shared_pair(operation=None):
    arguments = {"padding": "circular", "operation": operation}
    return [layers.KOpConv1D(2, 3, name=name, **arguments) for name in ("one", "two")]


def mixture(name="mix", **options):
    return layers.MixedOperation1D(2, 3, padding="same", name=name, **options)


def unchanged(model, message, path, **arguments):
    """Check that a file is refused and that the model is as it was."""
    before = values_of(model.variables)
    with pytest.raises(ValueError, match=message):
        load_architecture(model, path, **arguments)
    for old, new in zip(before, values_of(model.variables), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_file_with_nan_is_refused(tmp_path):
    save_architecture(convolutional(xd()), tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as archive:
        arrays = dict(archive)
    arrays["array_1"].flat[2] = np.nan
    np.savez(tmp_path / "bad.npz", **arrays)
    unchanged(convolutional(xd()), r"bad.npz with .*layers 'conv' \(L0\)", tmp_path / "bad.npz")


SPACES = {
    "xd": lambda filters: [xd(filters=filters, depth=2)],
    "shared K-operation": lambda filters: shared_pair(layers.KOperation()),
    "mixture": lambda filters: [mixture()],
    "separable": lambda filters: [
        layers.XDSeparableConv1D(filters, 3, search_pointwise=True, **CIRCULAR, name="separable")
    ],
    "resampled": lambda filters: [layers.SearchableResampled(xd(filters=filters), 3, name="small")],
    "nested": lambda filters: [
        keras.Sequential([keras.Input((6, filters)), xd("in", filters)], name="block")
    ],
    "several": lambda filters: [xd(filters=filters, frequency_bias=True), mixture()],
}


@pytest.mark.parametrize("space", SPACES)
def test_an_architecture_moves_to_other_channels_and_classes(space, tmp_path):
    path = tmp_path / "found.npz"
    channels, others = (2, 2) if space in ("nested", "mixture") else (1, 3)
    found = convolutional(*SPACES[space](channels), channels=channels, classes=3)
    randomize_architecture(found, 1)
    save_architecture(SearchModel(found), path)
    model = convolutional(*SPACES[space](others), channels=others, classes=7)
    weights = values_of(model_variables(model))
    assert load_architecture(model, path) is model
    expected = values_of(architecture_variables(found))
    loaded = values_of(architecture_variables(model))
    for old, new in zip(expected, loaded, strict=True):
        np.testing.assert_array_equal(old, new)
    for old, new in zip(weights, values_of(model_variables(model)), strict=True):
        np.testing.assert_array_equal(old, new)


def test_nothing_is_overwritten_unasked(tmp_path):
    path = tmp_path / "found.npz"
    save_architecture(convolutional(xd()), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="only with `overwrite=True`"):
        save_architecture(convolutional(mixture()), path)
    assert path.read_bytes() == before
    save_architecture(convolutional(mixture()), path, overwrite=True)
    load_architecture(convolutional(mixture()), path)


def test_names_can_be_mapped(tmp_path):
    found = convolutional(xd("a"), xd("b"), xd("c"))
    randomize_architecture(found, 3)
    save_architecture(found, tmp_path / "found.npz")
    model = convolutional(xd("b"), xd("d"), xd("c"))
    load_architecture(model, tmp_path / "found.npz", names={"a": "d"})
    for old, new in (("a", "d"), ("b", "b"), ("c", "c")):
        before, after = (
            values_of(m.get_layer(name).architecture_variables)
            for m, name in ((found, old), (model, new))
        )
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(one, other)
    for names in ({"x": "d"}, {"a": "x"}, {"a": "d", "b": "d"}):
        unchanged(
            model,
            "`names` must map.*'a', 'b', 'c'.*'b', 'c', 'd'",
            tmp_path / "found.npz",
            names=names,
        )


@pytest.mark.parametrize(
    ("saved", "target", "message"),
    [
        ([xd()], [xd(), mixture()], r"missing in the file \['mix'\]$"),
        ([xd(), mixture()], [mixture()], r"unexpected in the file \['conv'\]$"),
        ([xd("conv", depth=2)], [xd()], r"'conv' has variables K0 \(2, 2, 30\).*K0 \(1, 2, 30\)"),
        (
            [xd(), mixture()],
            [xd(radix=(3, 2)), mixture(candidates=("skip", "zero"))],
            r"'conv' has radices \[\[6, 2, 3\]\] in the file and \[\[6, 3, 2\]\] in the model "
            r".*; layer 'mix' has operations .*logits \(8,\) in the file and logits \(3,\)",
        ),
        (
            [mixture(candidates=("zero", "skip"))],
            [mixture(candidates=("skip", "zero"))],
            r"operations \['convolution', 'zero', 'skip'\] in the file and",
        ),
        (
            [xd(channel_gates=True)],
            [xd(channel_gates=True, filters=4)],
            r"channel_gates \(1, 2\) in the file and channel_gates \(1, 4\)",
        ),
        (
            [xd()],
            [layers.KOpConv1D(2, 3, padding="circular", name="conv")],
            "'XDConv1D' in the file and",
        ),
        ([xd()], [xd(warm_start="fourier_operator")], "kernel_placement 'Convolution' in the file"),
    ],
)
def test_what_does_not_fit_is_refused(saved, target, message, tmp_path):
    found = randomize_architecture(convolutional(*saved), 1)
    save_architecture(found, tmp_path / "found.npz")
    unchanged(randomize_architecture(convolutional(*target), 2), message, tmp_path / "found.npz")


def test_what_is_shared_takes_one_architecture(tmp_path):
    apart = randomize_architecture(convolutional(*shared_pair()), 1)
    save_architecture(apart, tmp_path / "apart.npz")
    together = convolutional(*shared_pair(layers.KOperation()))
    unchanged(
        together,
        "'one' and 'two' share K0 in the model and have different ones in the file",
        tmp_path / "apart.npz",
    )
    randomize_architecture(together, 2)
    save_architecture(together, tmp_path / "together.npz")
    load_architecture(apart, tmp_path / "together.npz")
    one, two = (values_of(layer.architecture_variables) for layer in apart.layers[:2])
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, values_of(architecture_variables(together)))
    load_architecture(together, tmp_path / "together.npz")


def archive(header=None, **arrays):
    content = io.BytesIO()
    if header is not None:
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), "uint8")
    np.savez(content, **arrays)
    return content.getvalue()


def repacked(content, change):
    """Return the content of a file with its header changed in place by `change`."""
    with np.load(io.BytesIO(content)) as file:
        arrays = {key: file[key] for key in file.files}
    header = json.loads(arrays.pop("header").tobytes())
    change(header)
    return archive(header, **arrays)


def first(header):
    return header["layers"][0]


DAMAGE = {
    "empty": lambda content: b"",
    "text": lambda content: b"architecture",
    "half": lambda content: content[: len(content) // 2],
    "last byte": lambda content: content[:-1],
    "start": lambda content: content[20:],
    "no header": lambda content: archive(kernel=np.ones(3)),
    "array": lambda content: np.lib.format.magic(1, 0) + b"\x00" * 40,
    "objects": lambda content: archive({"format": "x"}, a=np.array([{}], dtype=object)),
    "format": lambda content: repacked(content, lambda h: h.update(format="other")),
    "version": lambda content: repacked(content, lambda h: h.update(version=2)),
    "no layers": lambda content: repacked(content, lambda h: h.pop("layers")),
    "list": lambda content: archive([1]),
    "twice": lambda content: repacked(content, lambda h: h["layers"].append(first(h))),
    "array name": lambda content: repacked(
        content, lambda h: first(h)["variables"][0].update(array="array_9")
    ),
    "shape": lambda content: repacked(
        content, lambda h: first(h)["variables"][0].update(shape=[1, 2, 31])
    ),
    "path": lambda content: repacked(content, lambda h: first(h).update(path=3)),
    "signature": lambda content: repacked(content, lambda h: first(h).pop("signature")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_and_foreign_files_are_refused(damage, tmp_path):
    path = tmp_path / "found.npz"
    save_architecture(randomize_architecture(convolutional(xd()), 1), path)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    unchanged(convolutional(xd()), "found.npz", path)


def test_flipped_bits_of_values_are_noticed(tmp_path):
    path = tmp_path / "found.npz"
    save_architecture(randomize_architecture(convolutional(xd()), 1), path)
    content = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        member = file.getinfo("array_1.npy")
    model = convolutional(xd())
    for place in range(member.header_offset + 200, member.header_offset + 400, 40):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        unchanged(model, "cannot be read as one", path)


def test_files_of_weights_and_missing_files(tmp_path):
    model = convolutional(xd())
    model.save_weights(tmp_path / "model.weights.h5")
    unchanged(model, "cannot be read as one", tmp_path / "model.weights.h5")
    model.save(tmp_path / "model.keras")
    unchanged(model, "cannot be read as one", tmp_path / "model.keras")
    with pytest.raises(ValueError, match="is read from a file.*nothing.npz.*FileNotFoundError"):
        load_architecture(model, tmp_path / "nothing.npz")
    with pytest.raises(ValueError, match="a folder that exists.*no_folder' does not exist"):
        save_architecture(model, tmp_path / "no_folder" / "found.npz")
    with pytest.raises(ValueError, match="Only a model with searchable layers"):
        save_architecture(convolutional(), tmp_path / "plain.npz")
    assert not (tmp_path / "plain.npz").exists()


@pytest.mark.parametrize("radix", [6, (3, 2)])
def test_a_radix_of_all_axes_is_that_of_each_axis(radix):
    def describe(radix):
        layer = XDConv2D(2, 3, radix=radix, padding="circular")
        return signature(keras.Sequential([keras.Input((6, 6, 1)), layer]))[0]

    assert f"radix={(radix, radix)}" in describe(radix)
    assert not any(text.startswith("radix") for text in describe(None))
    assert describe(((3, 2), (3, 2))) == describe((3, 2)) != describe(((2, 3), (3, 2)))
