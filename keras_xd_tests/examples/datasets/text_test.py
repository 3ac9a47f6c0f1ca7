"""Sentences for the examples: parts, vocabulary, filling up, errors."""

import numpy as np
import pytest

from keras_xd_tests import example_scripts

data = example_scripts.load("datasets.text")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "text_mr.txt").write_text(
        "".join(f"{index % 2} word{index} is no{index} here\n" for index in range(40))
    )
    (tmp_path / "text_trec_train.txt").write_text(
        "".join(f"{index % 6} What is number {index} ?\n" for index in range(30))
    )
    (tmp_path / "text_trec_test.txt").write_text("5 what Was number 77 of all of these ?\n")
    (tmp_path / "text_sst2_train.txt").write_text("1 a rather good film it is \n0 not\u2028this\n")
    (tmp_path / "text_sst2_dev.txt").write_text("0 a bad film\n")
    (tmp_path / "text_sst2_test.txt").write_text("1 good\n0 bad\n")
    return tmp_path


def sentences(found, part):
    inputs, labels = part
    return [
        (int(label), [found.words[number] for number in row if number])
        for row, label in zip(inputs, labels, strict=True)
    ]


def test_given_parts_and_vocabulary_of_the_training_part(folder):
    found = data.load("sst2", folder)
    assert found.words == [
        *("<fill>", "<unknown>", "a", "rather", "good", "film", "it", "is", "not\u2028this")
    ]
    np.testing.assert_array_equal(found.train[0], [[2, 3, 4, 5, 6, 7], [8, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(found.train[1], [1, 0])
    assert sentences(found, found.validation) == [(0, ["a", "<unknown>", "film"])]
    assert sentences(found, found.test) == [(1, ["good"]), (0, ["<unknown>"])]
    assert (found.classes, found.length, found.train[0].dtype) == (2, 6, np.int32)


def test_drawn_parts_are_all_sentences_once(folder):
    found = data.load("mr", folder, seed=1)
    parts = [found.train, found.validation, found.test]
    assert [len(inputs) for inputs, _ in parts] == [32, 4, 4]
    # The words of other parts are unknown but for those that all sentences have.
    others = [words for part in parts[1:] for _, words in sentences(found, part)]
    assert others == [["<unknown>", "is", "<unknown>", "here"]] * 8
    training = {words[0]: label for label, words in sentences(found, found.train)}
    assert len(training) == 32
    assert all(int(word.removeprefix("word")) % 2 == label for word, label in training.items())
    again, other = data.load("mr", folder, seed=1), data.load("mr", folder, seed=2)
    assert again.words == found.words != other.words
    labels = np.concatenate([labels for _, labels in parts])
    assert sorted(labels) == [0] * 20 + [1] * 20


@pytest.mark.real_data("KERAS_XD_DATA_DIR", "text_mr.txt")
def test_real_sentences(data_path):
    numbers = {"mr": (8530, 1066, 1066), "trec": (4907, 545, 500), "sst2": (6920, 872, 1821)}
    for name, expected in numbers.items():
        found = data.load(name, data_path.parent)
        parts = (found.train, found.validation, found.test)
        assert tuple(len(inputs) for inputs, _ in parts) == expected
        assert found.classes == (6 if name == "trec" else 2)
        assert data.load(name).words == found.words  # from the environment variable


def test_vectors_of_words(folder, tmp_path):
    found = data.load("sst2", folder)
    path = tmp_path / "vectors.txt"
    path.write_text("4 3\ngood 1 2 3\nother 4 5 6\nfilm 0.5 0 -1\n")
    matrix = data.vectors(path, found.words, size=3)
    np.testing.assert_array_equal(matrix[found.words.index("good")], [1, 2, 3])
    np.testing.assert_array_equal(matrix[found.words.index("film")], [0.5, 0, -1])
    np.testing.assert_array_equal(matrix[0], 0)
    drawn = matrix[found.words.index("rather")]
    assert np.all(np.abs(drawn) <= 0.25) and np.any(drawn)
    with pytest.raises(ValueError, match="a word and 4 numbers.*line 2 of vectors.txt"):
        data.vectors(path, found.words, size=4)
    with pytest.raises(ValueError, match="vectors.txt with none of 1 words"):
        data.vectors(path, ["unseen"], size=3)
    with pytest.raises(ValueError, match="such as glove.6B.300d.txt"):
        data.vectors(tmp_path / "none.txt", found.words)
