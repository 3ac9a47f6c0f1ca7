"""Time series from `.ts` files: what is read, what is wrong with a file, series of one length."""

import numpy as np
import pytest

from keras_xd_tests import example_scripts

series = example_scripts.load("datasets.series")

HEADER = """# of a made up problem, Müller 2020
@problemName Two
@timeStamps false
@missing true
@univariate false
@classLabel true up down
@data
"""
LINES = "1,2.5,?:-1,0,1e1:up\n\n3,4:5, 6:down\n"


def written(folder, text, name="Two_TRAIN.ts"):
    path = folder / name
    path.write_text(text, encoding="latin-1")
    return path


def test_a_file_is_read(tmp_path):
    values, targets, classes = series.read_ts(written(tmp_path, HEADER + LINES))
    assert classes == ("down", "up") and targets.tolist() == [1, 0]
    np.testing.assert_array_equal(values[0], [[1, -1], [2.5, 0], [np.nan, 10]])
    np.testing.assert_array_equal(values[1], [[3, 5], [4, 6]])


def test_times_and_values_to_predict(tmp_path):
    text = "@timestamps true\n@univariate true\n@targetlabel true\n@data\n"
    text += "(2007-01-01 00:00:00,2),(2007-01-01 00:01:00,-3.5):0.25\n(1,2),(4,3):7\n"
    values, targets, classes = series.read_ts(written(tmp_path, text))
    assert [x.ravel().tolist() for x in values] == [[2, -3.5], [2, 3]]
    assert targets.tolist() == [0.25, 7] and classes == ()
    unlabelled = series.read_ts(written(tmp_path, "@data\n1,2\n"))
    assert unlabelled.targets is None and unlabelled.values[0].shape == (2, 1)


STAMPED = HEADER.replace("@timeStamps false", "@timestamps true")
EQUAL = HEADER.replace("@missing", "@equalLength true\n@seriesLength 3\n@missing")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (HEADER + "1,a:1,2:up", 8, "'a' is no number"),
        (HEADER + "1,inf:1,2:up", 8, "'inf' is not finite"),
        (HEADER + LINES + "1,2:1:up", 11, "channels of 1 and 2 steps"),
        (HEADER + LINES + "1,2:up", 11, "1 channels after 2"),
        (HEADER + "1,2:1,2:left", 8, "'left' is none of the classes down up"),
        (HEADER + "1,2:1,2", 8, "'1,2' is none of the classes"),
        (HEADER.replace("true up down", "true"), 6, "followed by different classes"),
        (HEADER.replace("univariate false", "univariate no"), 5, "@univariate must be true or"),
        (HEADER.replace("univariate false", "univariate true") + "1:1:up", 8, "2 channels, not 1"),
        (HEADER.replace("@univariate false", "@dimensions 3") + "1:1:up", 8, "2 channels, not 3"),
        (HEADER.replace("@univariate false", "@dimensions x"), 5, "@dimensions must be a number"),
        (HEADER.replace("missing true", "missing false") + LINES, 8, "a value is missing"),
        (HEADER.replace("@data\n", "") + LINES, 7, "`@data` must come before '1,2.5"),
        (EQUAL + "1,2:1,2:up", 10, "2 steps, not 3"),
        (EQUAL.replace("@seriesLength 3\n", "") + LINES, 11, "2 steps after 3"),
        (STAMPED + "(1,2),(1,3):(1,2),(2,3):up", 8, "times do not increase"),
        (STAMPED + "(1,2),3:(1,2),(2,3):up", 8, "is not \\(time,value\\)"),
        (STAMPED + "(noon,2):(1,2):up", 8, "noon"),
        (HEADER.replace("@classLabel true up down", "@targetLabel true") + "1:1:?", 8, "predict"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(text, line, said, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=f"Received: .*Two_TRAIN.ts, line {line}: .*{said}"):
        series.read_ts(path)


def test_a_problem_has_two_files_that_fit(tmp_path):
    written(tmp_path, HEADER + LINES)
    with pytest.raises(ValueError, match="must hold Two_TEST.ts. Received: "):
        series.load(tmp_path, "Two")
    written(tmp_path, HEADER, "Two_TEST.ts")
    with pytest.raises(ValueError, match="lines of data after `@data`. Received: .*Two_TEST.ts"):
        series.load(tmp_path, "Two")
    written(tmp_path, HEADER.replace("up down", "up") + "1:1:up", "Two_TEST.ts")
    with pytest.raises(ValueError, match="same classes. Received: .* of Two"):
        series.load(tmp_path, "Two")
    written(tmp_path, HEADER + LINES, "Two_TEST.ts")
    with pytest.raises(ValueError, match="`length=`.*`padded`.*Received: 2 to 3 steps in Two"):
        series.load(tmp_path, "Two")
    (inputs, targets), test = series.load(tmp_path, "Two", length=3)
    np.testing.assert_array_equal(inputs[0], [[1, -1], [2.5, 0], [2.5, 10]])  # filled
    np.testing.assert_array_equal(inputs[1], [[3, 5], [3.5, 5.5], [4, 6]])  # resampled
    assert inputs.dtype == np.float32 and targets.tolist() == [1, 0] and len(test[0]) == 2


def test_series_of_one_length():
    values = [np.ones((2, 1), "float32"), np.full((4, 1), 2, "float32")]
    together, mask = series.padded(values)
    assert together[..., 0].tolist() == [[1, 1, 0, 0], [2, 2, 2, 2]]
    assert mask[..., 0].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert series.padded(values, 6)[1].sum() == 6
    with pytest.raises(ValueError, match="at least 4, the longest. Received: length=3"):
        series.padded(values, 3)
    gaps = np.array([[np.nan], [2], [np.nan], [4], [np.nan]], "float32")
    assert series.filled(gaps)[:, 0].tolist() == [2, 2, 3, 4, 4]
    with pytest.raises(ValueError, match="a value that is not missing"):
        series.filled(gaps[:1])
