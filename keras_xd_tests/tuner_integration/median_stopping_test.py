import pytest

from tuner_integration.median_stopping import MedianStopping


def kept(folder, curves, direction="min"):
    stopping = MedianStopping(folder, direction, trials=3)
    for number, curve in enumerate(curves):
        for epoch, value in enumerate(curve):
            assert not stopping.stops(str(number), epoch, value)
        stopping.end(str(number))
    return stopping


@pytest.mark.parametrize("direction", ["min", "max"])
def test_the_best_value_is_compared_with_the_median_of_means(tmp_path, direction):
    sign = 1 if direction == "min" else -1
    curves = [[0.9, 0.7], [0.8, 0.2], [0.3, 0.1]]
    kept(tmp_path, [[sign * v for v in curve] for curve in curves], direction)
    # A new process reads the curves. The means up to epoch 1 are 0.8, 0.5 and 0.2.
    stopping = MedianStopping(tmp_path, direction, trials=3)
    assert not stopping.stops("a", 0, sign * 0.8)
    assert stopping.stops("a", 1, sign * 0.51)
    assert stopping.stops("b", 0, sign * 0.81)
    assert not stopping.stops("c", 0, sign * 0.45)
    assert not stopping.stops("c", 1, sign * 5.0)  # the best so far counts


def test_few_trials_stop_none_and_a_trial_that_runs_again_begins_anew(tmp_path):
    stopping = kept(tmp_path, [[0.1], [0.1]])
    assert not stopping.stops("2", 0, 9.0)
    stopping.end("2")
    assert not stopping.stops("3", 0, 0.05)
    assert stopping.stops("3", 0, 0.2)  # the better value was of another execution
    stopping.end("4")  # one without a curve
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.json", "1.json", "2.json"]


def test_a_trial_that_goes_on_later_is_compared_with_what_was_before(tmp_path):
    stopping = kept(tmp_path, [[0.9, 0.7], [0.8, 0.2], [0.3, 0.1]])
    assert not stopping.stops("a", 1, 0.5) and stopping.stops("b", 1, 0.6)


def test_nan_is_stopped(tmp_path):
    stopping = kept(tmp_path, [[0.9], [0.8], [0.3]])
    assert stopping.stops("a", 0, float("nan"))


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="trials"):
        MedianStopping(tmp_path, "min", 0)
    with pytest.raises(ValueError, match="direction"):
        MedianStopping(tmp_path, "up")


@pytest.mark.parametrize("direction", ["min", "max"])
def test_a_value_that_is_the_median_goes_on(tmp_path, direction):
    stopping = kept(tmp_path, [[0.25], [0.5], [0.75]], direction)
    assert not stopping.stops("a", 0, 0.5)
