"""The music experiment: its data, its loss and its search spaces."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

SMALL = ("--synthetic", "--seeds", "3", "--epochs", "2", "--warmup", "1")
TINY = ("--channels", "4", "--levels", "1", "--batch-size", "6")
SHORT = (*TINY, "--size", "12", "--context", "8", "--window", "9")


data = example_scripts.load("datasets.music")
experiment = example_scripts.load("experiments.xd.music")


@pytest.fixture
def pieces(rng):
    """Random pieces, shorter and longer than a chunk of 12 steps."""
    return [rng.integers(2, size=(n, 88)).astype("uint8") for n in (5, 12, 13, 14, 30)]


@pytest.fixture
def options(tmp_path):
    return experiment.parse([*SMALL, *SHORT, "--output", str(tmp_path)])[0]


@pytest.mark.parametrize(("size", "context"), [(12, 8), (12, 1), (5, 4), (40, 3)])
def test_every_step_is_scored_once_with_its_context(pieces, size, context):
    inputs, targets, scored = data.chunks(pieces, size, context)
    assert inputs.shape == targets.shape == (*scored.shape, 88) and inputs.shape[1] == size
    found = []
    for x, y, mask in zip(inputs, targets, scored, strict=True):
        for place in np.flatnonzero(mask):
            found.append((x[: place + 1], y[place]))
    assert len(found) == sum(len(piece) - 1 for piece in pieces)
    expected = [(piece, step) for piece in pieces for step in range(len(piece) - 1)]
    for (history, target), (piece, step) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(target, piece[step + 1])
        np.testing.assert_array_equal(history, piece[: step + 1][-len(history) :])
        assert len(history) >= min(step, context) + 1


def test_the_loss_is_nats_per_scored_step(rng):
    logits = rng.normal(size=(2, 3, 88)).astype("float32")
    truth = rng.integers(2, size=(2, 3, 88)).astype("float32")
    scored = np.array([[1, 0, 1], [0, 0, 1]], "float32")
    probability = 1 / (1 + np.exp(-logits.astype("float64")))
    entropy = -np.log(np.where(truth == 1, probability, 1 - probability)).sum(axis=-1)
    expected = (entropy[0, 0] + entropy[0, 2] + entropy[1, 2]) / 3
    assert float(experiment.NatsPerStep()(truth, logits, scored)) == pytest.approx(expected, 1e-5)


@pytest.mark.parametrize("dilated", [False, True])
def test_chunks_score_convolutions_as_whole_pieces_do(pieces, dilated):
    """A context of 14 steps is what three dilated levels can see."""
    model = keras_xd.models.tcn((None, 88), 88, channels=6, dilated=dilated)
    total = 0.0
    for piece in pieces:
        logits = np.asarray(model(piece[None, :-1].astype("float32")), "float64")[0]
        total += np.sum(np.logaddexp(0, logits) - logits * piece[1:])
    whole = total / sum(len(piece) - 1 for piece in pieces)
    for batch_size in (2, 3):
        chunks = experiment.Samples(*data.chunks(pieces, 18, 14))
        assert chunks.nats(model, batch_size) == pytest.approx(whole, rel=1e-6)


def test_words_are_told_by_the_vectors_they_come_as(options, rng):
    options.data, options.symbols = "words", 7
    network = experiment.backbone(options, 12)
    network.set_weights([rng.normal(0, 0.3, size=w.shape) for w in network.get_weights()])
    (embedding,) = (x for x in network.layers if isinstance(x, keras.layers.ReversibleEmbedding))
    assert [tuple(w.shape) for w in embedding.weights] == [(7, options.channels)]
    words = rng.integers(7, size=(2, 12)).astype("int32")
    logits = np.asarray(network(words))
    assert logits.shape == (2, 12, 7)
    np.testing.assert_allclose(experiment.causal_space(network)(words), logits, atol=1e-5)
    windowed = experiment.windowed_space(network)
    np.testing.assert_allclose(windowed(words), logits[:, -1:], atol=1e-5)
    # The loss is the cross-entropy of the next word, of the steps that are scored.
    piece = rng.integers(7, size=30).astype("int32")
    inputs, targets, scored = data.chunks([piece], 12, 8)
    assert inputs.shape == targets.shape == scored.shape and scored.sum() == 29
    samples = experiment.Samples(inputs, targets, scored)
    probabilities = keras.ops.softmax(network.predict(inputs, verbose=0))
    chosen = np.take_along_axis(np.asarray(probabilities), targets[..., None], -1)[..., 0]
    expected = -np.log(chosen)[scored].mean()
    assert samples.nats(network, 2) == pytest.approx(expected, rel=1e-4)
    loss = experiment.NatsPerStep()(targets, network.predict(inputs, verbose=0), scored)
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    inputs, targets, _ = data.windows([piece], 7)
    np.testing.assert_array_equal(inputs[10], piece[4:11])
    np.testing.assert_array_equal(targets[:, 0], piece[1:])


@pytest.mark.parametrize(
    "name, expected, rates",
    [
        ("jsb", {"channels": 150, "levels": 3, "kernel_size": 2, "warmup": 25}, (1e-3, 2e-4)),
        ("nottingham", {"channels": 150, "levels": 4, "kernel_size": 6, "warmup": 0}, (1e-3, 2e-3)),
        ("words", {"channels": 600, "levels": 4, "kernel_size": 3, "batch_size": 16}, (4.0, 2e-6)),
    ],
)
def test_the_settings_of_the_paper(name, expected, rates, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "load", lambda _: (([], [], []), 7))
    arguments = ["--paper", "--data", name, "--output", str(tmp_path)]
    options, _, results = experiment.parse(arguments)
    expected = {"epochs": 100, "seeds": [0, 1, 2], "subset": None, **expected}
    assert {key: getattr(options, key) for key in expected} == expected
    assert results.paths["json"].stem == {"jsb": "music"}.get(name, f"music_{name}")
    weights = experiment.weights_optimizer(options)
    assert type(weights) is (keras.optimizers.SGD if name == "words" else keras.optimizers.Adam)
    assert weights.global_clipnorm == 0.4
    assert float(weights.learning_rate) == pytest.approx(rates[0])
    options.channels, options.levels, options.size = 2, 1, 12
    given = []
    monkeypatch.setattr(
        keras_xd.SearchModel, "compile", lambda *arguments, **_: given.extend(arguments)
    )
    experiment.make_search("xd_causal", experiment.backbone(options, 12), options)
    assert float(given[-1].learning_rate) == pytest.approx(rates[1])
