"""Searches on Python generators: which batches, how many, what needs a length."""

import itertools

import numpy as np
import pytest

from keras_xd.training.bilevel_dataset import with_steps
from keras_xd_tests.training.gated_dense import classification_data, small_search


def batches(start, size=2, drawn=None):
    """Yield batches of consecutive numbers and their negatives, without end."""
    for number in itertools.count():
        if drawn is not None:
            drawn.append(number)
        values = start + np.arange(size * number, size * (number + 1), dtype="float32")
        yield values, -values


def samples(count=None, size=4):
    """Yield batches of the classification data, again and again or `count` of them."""
    x, y = classification_data(8 * size)
    for number in itertools.count() if count is None else range(count):
        part = slice(number % 8 * size, (number % 8 + 1) * size)
        yield x[part], y[part]


def test_batches_alternate_and_none_is_drawn_ahead():
    drawn = []
    stream, steps, _ = with_steps(batches(0, drawn=drawn), batches(100), 2)
    assert steps == 2
    found = [x.numpy().tolist() for x, _ in stream.take(2)]
    assert found == [[0, 100, 1, 101], [2, 102, 3, 103]]
    assert drawn == [0, 1]


def test_generators_train_as_the_same_arrays_do():
    x, y = (values[:8] for values in classification_data(32))
    options = {"epochs": 2, "verbose": 0}

    def of_two():
        """Yield the two batches again and again."""
        while True:
            yield from ((x[i : i + 4], y[i : i + 4]) for i in (0, 4))

    expected = small_search(mode="first_order").fit(
        x, y, batch_size=4, shuffle=False, architecture_validation_data=(x, y), **options
    )
    found = small_search(mode="first_order").fit(
        of_two(), architecture_validation_data=of_two(), steps_per_epoch=2, **options
    )
    for name, values in expected.history.items():
        np.testing.assert_allclose(found.history[name], values, rtol=1e-5)


@pytest.mark.parametrize(("count", "epochs"), [(6, 2), (8, 2)])
@pytest.mark.parametrize("ending", ["training", "architecture"])
@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")
def test_training_ends_with_a_generator(count, epochs, ending):
    """Also where it has just the batches of whole epochs: no epoch is without batches."""
    search = small_search(mode="first_order")
    training = samples(count if ending == "training" else None)
    held_out = samples(count if ending == "architecture" else None)
    with pytest.warns(UserWarning, match="after epoch 2 of 5, as a generator has no more"):
        history = search.fit(
            training, architecture_validation_data=held_out, steps_per_epoch=4, epochs=5, verbose=0
        ).history
    assert len(history["loss"]) == epochs and min(history["loss"]) > 0
    assert int(search.search_optimizer.weights_optimizer.iterations) == count
    assert search.generators == ()


@pytest.mark.parametrize(
    ("training", "held_out", "message"),
    [
        (samples, lambda: classification_data(8), "needs `steps_per_epoch`.*as training data"),
        (samples, samples, "needs `steps_per_epoch`.*as architecture and training data"),
        (lambda: samples(0), samples, "at least one batch.*yields nothing"),
        (lambda: samples(size=0), samples, "at least one batch.*is empty"),
        (lambda: ("x" for _ in range(2)), samples, "batches of a generator have to be"),
        (samples, lambda: samples(size=2), "same batch size.*Received: 4 and 2"),
        (samples, lambda: batches(0, size=4), "same structure, types and shapes"),
    ],
)
def test_refused_before_training(training, held_out, message):
    search = small_search(mode="first_order")
    steps = None if "steps_per_epoch" in message else 2
    before = [v.numpy() for v in search.variables]
    with pytest.raises(ValueError, match=message):
        search.fit(
            training(), architecture_validation_data=held_out(), steps_per_epoch=steps, verbose=0
        )
    for old, variable in zip(before, search.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)
