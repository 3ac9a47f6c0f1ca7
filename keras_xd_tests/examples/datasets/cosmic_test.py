"""Images of cosmic rays: values, splits, missing files, and the errors by scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as oracle

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets import cosmic_files

cosmic = example_scripts.load("datasets.cosmic")


def test_cosmic_rays(tmp_path):
    cosmic_files.write(tmp_path)
    train, validation, test = cosmic.load(tmp_path, sky=(2.0, 2.0))
    # Three images each of two visits in the order of their paths; the visit without galaxies is
    # left out, the last image is for validation.
    for part, index, path, background in (
        (train, 0, "npy_train/f435w/10760/2/1_crop.npy", 10),
        (train, 4, "npy_train/f435w/12058/16/2_crop.npy", 11),
        (validation, 0, "npy_train/f435w/12058/16/3_crop.npy", 12),
        (test, 1, "npy_test/f435w/12058/16/1_crop.npy", 10),
    ):
        layers = np.load(tmp_path / path)[:, 64:192, 64:192]
        np.testing.assert_allclose(
            part.inputs[index, ..., 0], layers[0] + 2 * background, rtol=1e-6
        )
        np.testing.assert_array_equal(part.outputs[index, ..., 0], layers[1])
        np.testing.assert_array_equal(part.weights[index], 1 - layers[2])
    spread = cosmic.load(tmp_path)[0].inputs.mean(axis=(1, 2, 3)) / [10, 11, 12, 10, 11]
    assert spread.min() > -1 and spread.max() < 3.1 and spread.std() > 0.1
    again, other = (cosmic.load(tmp_path, subset=2, seed=seed)[0] for seed in (0, 1))
    assert len(again.inputs) == len(other.outputs) == 2
    np.testing.assert_array_equal(again.inputs, cosmic.load(tmp_path)[0].inputs[:2])
    assert not np.array_equal(again.inputs, other.inputs)


@pytest.mark.parametrize("folder", [None, "."])
def test_a_folder_without_images_is_refused(folder, tmp_path):
    folder = folder and tmp_path
    with pytest.raises(ValueError, match="must hold npy_train/f435w.* Received: data_dir="):
        cosmic.load(folder)
    cosmic_files.write(tmp_path, (2, 2))
    with pytest.raises(ValueError, match="tenth .* validation. Received: 2 images"):
        cosmic.load(tmp_path)


def test_masks_are_scored_by_decisions(rng):
    masks = rng.integers(2, size=(3, 4, 4, 1))
    logits = rng.normal(size=masks.shape) + masks
    area = oracle.roc_auc_score(masks.ravel(), (logits > 0.5).ravel())
    assert cosmic.decided_auroc_error(masks, logits) == pytest.approx(1 - area)
    assert cosmic.decided_auroc_error(masks, masks) == 0
    recall = oracle.recall_score(masks.ravel(), (logits > 0.5).ravel())
    assert cosmic.false_negative_rate(masks, logits) == pytest.approx(1 - recall)
    for kinds, values in ((masks, logits[..., 0]), (np.zeros_like(masks), logits)):
        with pytest.raises(ValueError, match="with and without cosmic rays. Received: logits"):
            cosmic.decided_auroc_error(kinds, values)
