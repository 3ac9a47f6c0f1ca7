"""The quickstart runs in a small setting, and its data are what they are said to be."""

import contextlib
import io
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from keras_xd_tests.example_scripts import load

SMALL = ("--subset", "32", "--epochs", "1", "--batch-size", "32")


quickstart = load("quickstart")
digits = load("datasets.digits")
images = load("datasets.images")
permutation = load("datasets.permutation")


def refusal(capsys, *arguments):
    with pytest.raises(SystemExit):
        quickstart.main(arguments)
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """What a small run returned and printed, and its only folder in that of temporary files.

    Of permuted images alone, which take one step more.
    """
    folder, here = tmp_path_factory.mktemp("temporary"), tmp_path_factory.mktemp("here")
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(here)
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setattr(quickstart, "KINDS", ("permuted",))
        runs = quickstart.main([*SMALL, "--seeds", "1"])
    # TensorFlow keeps the functions that it has generated until the process ends.
    generated = set(folder.glob("__autograph_generated_file*.py"))
    (output,) = set(folder.iterdir()) - generated
    assert not any(here.iterdir())
    return runs, printed.getvalue(), output


def test_writes_a_table_pictures_and_models(result):
    runs, printed, output = result
    assert quickstart.table(runs) in printed
    # Of two seeds, as one has no deviation.
    lines = quickstart.table({kind: 2 * found for kind, found in runs.items()}).splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    assert [row[0].strip() for row in rows] == ["model", "---", *quickstart.NAMES]
    assert {len(row) for row in rows} == {5}
    for row in rows[2:]:
        mean, deviation = map(float, row[1].split("±"))
        assert 0 <= mean <= 1 and 0 <= deviation < 1
    assert {path.name for path in output.iterdir()} == {
        "quickstart.json",
        "operators_permuted.png",
        *(f"{name}_permuted_0" for name in quickstart.NAMES),
    }


def test_main_measures_the_exported_models(result):
    runs, _, output = result
    _, _, (inputs, labels) = [(x[:32], y[:32]) for x, y in digits.load()]
    (measured,) = runs["permuted"]
    for name, record in measured.items():
        model = tf.saved_model.load(output / f"{name}_permuted_0")
        answers = model.serve(permutation.permute(inputs, 0)).numpy()
        assert record["accuracy"] == pytest.approx(np.mean(answers.argmax(-1) == labels))
        assert record["seconds"] > 0
    backbone, dense, search = (measured[name] for name in quickstart.NAMES)
    # 3·3·1·8 + 8, twice 2·8, 3·3·8·8 + 8, 8·10 + 10; K, L and M of two layers and two axes:
    # pairs of real numbers for 9 = 3 · 3, hence 9 · (3 + 3); b for 9 · 9 points, C for channels.
    assert backbone["parameters"] == 80 + 32 + 584 + 90
    matrices, extras = 3 * 2 * 2 * 2 * 9 * (3 + 3), 2 * 2 * 9 * 9 + 8 + 64
    assert search["parameters"] == backbone["parameters"] + matrices + extras
    # 32 units with normalization, 10 classes; nearly as many as the search has.
    assert dense["parameters"] == 64 * 32 + 32 + 2 * 32 + 32 * 10 + 10
    assert abs(dense["parameters"] / search["parameters"] - 1) < 0.05
    assert (output / "operators_permuted.png").read_bytes().startswith(b"\x89PNG")


def test_an_export_that_is_not_the_model_is_noticed(tmp_path):
    backbone = quickstart.make_backbone((8, 8, 1), filters=2)
    backbone.export(tmp_path / "export", verbose=False)
    clock = quickstart.reporting.EpochClock()
    clock.seconds = [1.0, 3.0, 2.0]
    test = np.ones((4, 8, 8, 1), "float32"), np.zeros(4, int)
    assert quickstart.measure(backbone, tmp_path / "export", test, clock)["seconds"] == 2.0
    backbone.get_layer("logits").bias.assign(np.ones(10))
    with pytest.raises(RuntimeError, match="differs from the trained model"):
        quickstart.measure(backbone, tmp_path / "export", test, clock)


def test_nonsense_is_refused(tmp_path, capsys):
    assert "at least 1" in refusal(capsys, "--epochs", "0")
    assert "at least 1" in refusal(capsys, "--seeds", "-1")
    assert "at least 1" in refusal(capsys, "--batch-size", "2.5")
    (tmp_path / "kept").mkdir()
    assert "nothing is overwritten" in refusal(capsys, "--output", str(tmp_path / "kept"))
    assert not any((tmp_path / "kept").iterdir())


def test_images_refuse_nonsense(tmp_path):
    with pytest.raises(ValueError, match="Received: name='svhn'"):
        images.load("svhn")
    with pytest.raises(ValueError, match="Received: subset=0"):
        images.load("mnist", subset=0)
    with pytest.raises(ValueError, match="must hold cifar10.*Received: data_dir="):
        images.load("cifar10", tmp_path)


def test_digits_are_split_without_overlap():
    parts = digits.load()
    assert [len(inputs) for inputs, _ in parts] == [1149, 288, 360]
    assert sum(len(inputs) for inputs, _ in parts) == 1797
    for inputs, labels in parts:
        assert inputs.shape[1:] == (8, 8, 1) and inputs.min() == 0 and inputs.max() == 1
        assert set(labels) == set(range(10))
    train, validation, test = (
        {(image.tobytes(), label) for image, label in zip(*part, strict=True)} for part in parts
    )
    assert not train & validation and not train & test and not validation & test
    again = digits.load()
    np.testing.assert_array_equal(parts[2][0], again[2][0])


def test_permutation_is_one_for_all_images(rng):
    inputs = rng.normal(size=(3, 5, 7, 2))
    permuted = permutation.permute(inputs, seed=4)
    order = permutation.permute(np.arange(35).reshape(1, 5, 7, 1), seed=4).ravel()
    assert sorted(order) == list(range(35)) and list(order) != list(range(35))
    flat = inputs.reshape(3, 35, 2)
    np.testing.assert_array_equal(permuted.reshape(3, 35, 2), flat[:, order])
    rows, columns = order.reshape(5, 7) // 7, order.reshape(5, 7) % 7
    assert (rows == rows[:, :1]).all() and (columns == columns[:1]).all()
    np.testing.assert_array_equal(permuted, permutation.permute(inputs, seed=4))
    assert not np.array_equal(permuted, permutation.permute(inputs, seed=5))
