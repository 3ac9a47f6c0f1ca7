import numpy as np
import pytest

from keras_xd_tests import example_scripts

characters = example_scripts.load("datasets.characters")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ptb_vocab.txt").write_text("ab\nc\nxyz\n", encoding="utf-8")
    numbers = {"train": [0, 1, 0, 1, 1, 0], "valid": [1, 1, 2, 0], "test": [0, 0, 0]}
    np.savez(tmp_path / "ptb_words.npz", **{k: np.uint16(v) for k, v in numbers.items()})
    return tmp_path


def test_pieces_and_what_follows(folder, monkeypatch):
    # "ab c ab c c ab", of the letters " ", "a", "b" and "c".
    parts, count = characters.load(folder, length=4)
    assert count == 5
    (x, y), (others, _), _ = parts
    np.testing.assert_array_equal(x, [[2, 3, 1, 4], [1, 2, 3, 1], [4, 1, 4, 1]])
    np.testing.assert_array_equal(y, [[3, 1, 4, 1], [2, 3, 1, 4], [1, 4, 1, 2]])
    np.testing.assert_array_equal(others, [[4, 1, 4, 1], [0, 0, 0, 1]])  # "c c xyz ab"
    monkeypatch.setenv("KERAS_XD_DATA_DIR", str(folder))
    ((few, _), *_), _ = characters.load(length=4, subset=2)
    np.testing.assert_array_equal(few, x[:2])


def test_words_and_what_follows(folder):
    parts, count = characters.load_words(folder, length=2)
    assert count == 3
    np.testing.assert_array_equal(parts[0][0], [[0, 1], [0, 1]])
    np.testing.assert_array_equal(parts[0][1], [[1, 0], [1, 1]])
    np.testing.assert_array_equal(parts[2], [[[0, 0]], [[0, 0]]])
    assert len(characters.load_words(folder, length=2, subset=1)[0][0][0]) == 1
    with pytest.raises(ValueError, match="more words than a piece. Received: 3 words, length=3"):
        characters.load_words(folder, length=3)


def test_the_published_texts_are_read(tmp_path):
    texts = {"train": " a b <unk> \n b a c \n", "valid": " a c \n b \n", "test": " c c a \n"}
    for part, text in texts.items():
        (tmp_path / f"ptb.{part}.txt").write_text(text)
    ((train, following), (valid, _), _), count = characters.load_words(tmp_path, length=2)
    assert count == 5  # a, b, <unk>, <eos>, c
    np.testing.assert_array_equal(train, [[0, 1], [2, 3], [1, 0]])
    np.testing.assert_array_equal(following, [[1, 2], [3, 1], [0, 4]])
    np.testing.assert_array_equal(valid, [[0, 4], [3, 1]])
    (tmp_path / "ptb.test.txt").write_text(" a d \n")
    with pytest.raises(ValueError, match="ptb.test.txt must have the words .* only. Received: d"):
        characters.load_words(tmp_path, length=2)
