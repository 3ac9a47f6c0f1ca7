"""A guided search of cells in a small setting, and what its logger notes of it."""

import json

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.layers.cells.genotypes import BlockGenotype, CellGenotype, Genotype
from keras_xd.training.callbacks import GenotypeLogger
from keras_xd.training.callbacks.genotype_logger import changes
from keras_xd_tests.training.gated_dense import classification_data, gated_model

OPERATIONS = ("identity", "max_pooling_3")
STAGES = ("stage1", "stage2")


def guided_search(**options):
    """Return a search of small cells guided by two convolutions, and data for it."""
    keras.utils.set_random_seed(3)
    kinds = [ArchitectureLogits(number, OPERATIONS, 1) for number in (False, True)]
    inputs = keras.Input((4, 4, 3))
    normal = layers.HeterogeneousCell(1, kinds[0], name="stage1")([inputs, inputs])
    reduction = layers.HeterogeneousCell(2, kinds[1], True, name="stage2")([inputs, normal])
    pooled = keras.layers.GlobalAveragePooling2D()(reduction)
    student = keras.Model(inputs, keras.layers.Dense(2)(pooled))
    teacher = keras.Sequential(
        [
            keras.Input((4, 4, 3)),
            *(
                keras.layers.Conv2D(4, 3, stride, padding="same", name=f"stage{stride}")
                for stride in (1, 2)
            ),
        ]
    )
    search = keras_xd.SearchModel(student)
    search.compile(
        keras.optimizers.SGD(0.01),
        keras.optimizers.Adam(0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        guidance=keras_xd.training.AttentionTransfer(teacher, STAGES, STAGES),
        **{"jit_compile": False, **options},
    )
    generator = np.random.default_rng(4)
    x = generator.normal(size=(2, 4, 4, 3)).astype("float32")
    return search, x, generator.integers(2, size=2)


def entropy(logits):
    """Return the mean entropy of the rows' softmax, of that of equal shares."""
    shares = np.exp(np.asarray(logits, "float64"))
    shares /= shares.sum(axis=1, keepdims=True)
    return np.mean(-np.sum(shares * np.log(shares), axis=1)) / np.log(shares.shape[1])


def test_every_epoch_is_noted(tmp_path, capsys):
    search, x, y = guided_search(run_eagerly=True)
    logger = GenotypeLogger(tmp_path / "new" / "log.jsonl", verbose=1)
    seen = []

    def note(epoch, logs):
        seen.append(keras_xd.layers.derived_genotype(search))

    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=note), logger]
    options = {"batch_size": 2, "verbose": 0, "callbacks": callbacks}
    history = search.fit(x, y, epochs=2, **options).history
    assert logger.genotypes == seen and len(seen) == 2
    assert len(history["genotype_changes"]) == 1
    assert history["genotype_changes"] == [
        changes(*pair) for pair in zip(seen[:-1], seen[1:], strict=True)
    ]
    assert all(value > 0 for value in history["attention_transfer"])
    normal, reduction = keras_xd.architecture_variables(search)
    for variable in (normal, reduction):
        assert variable.shape == (18, 2)
    assert history["normal_entropy"][-1] == pytest.approx(entropy(normal), abs=1e-6)
    assert history["reduction_entropy"][-1] == pytest.approx(entropy(reduction), abs=1e-6)
    assert history["normal_entropy"][-1] < history["normal_entropy"][0] < 1
    printed = capsys.readouterr().out
    assert printed.count("Epoch") == 1 + sum(change > 0 for change in history["genotype_changes"])
    assert str(seen[0]) in printed

    search.fit(x, y, epochs=3, initial_epoch=2, **options)
    lines = [json.loads(line) for line in logger.path.read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert [Genotype.from_dict(line["genotype"]) for line in lines] == seen
    assert lines[1]["normal_entropy"] == history["normal_entropy"][1]


def test_changes_by_hand():
    def genotype(*blocks):
        rest = BlockGenotype((("identity", 0), ("dilated_3", 1)), "dynamic_3")
        cell = CellGenotype((rest,) * 3 + (blocks[-1],))
        return Genotype(CellGenotype((blocks[0], rest, rest, rest)), cell)

    one = BlockGenotype((("identity", 0), ("max_pooling_3", 1)), "identity")
    operation = BlockGenotype((("identity", 0), ("dilated_3", 1)), "identity")
    source = BlockGenotype((("identity", 0), ("max_pooling_3", 3)), "identity")
    second = BlockGenotype((("max_pooling_3", 0), ("identity", 1)), "dynamic_3")
    assert changes(genotype(one, one), genotype(one, one)) == 0
    assert changes(genotype(one, one), genotype(operation, one)) == 1
    assert changes(genotype(one, one), genotype(one, source)) == 1
    assert changes(genotype(one, one), genotype(second, source)) == 4


def test_other_models_are_refused():
    x, y = classification_data(4)
    search = keras_xd.SearchModel(gated_model())
    search.compile("sgd", "sgd", "sparse_categorical_crossentropy")
    with pytest.raises(ValueError, match="A genotype is that of one normal"):
        search.fit(x, y, verbose=0, callbacks=[GenotypeLogger()])
    with pytest.raises(ValueError, match="`verbose`"):
        GenotypeLogger(verbose=2)
