"""The forest against scikit-learn's own predictions, and its features."""

import keras_tuner as kt
import numpy as np
from sklearn.ensemble import RandomForestRegressor

from keras_xd.grammar import parse, spaces
from tuner_integration.forest import Forest, path_features
from tuner_integration.points import PointSpace

CELLS = spaces.nas_bench_201_cell()


def sample(count):
    hyperparameters = kt.HyperParameters()
    hyperparameters.Float("rate", 1e-4, 1e-1, sampling="log")
    hyperparameters.Choice("norm", ["batch", "layer"])
    space, rng = PointSpace({"cell": CELLS}, hyperparameters), np.random.default_rng(0)
    return space, [space.sample(rng) for _ in range(count)]


def written_out(points):
    """Features of points in one table."""
    rows = []
    for point in points:
        values = dict(point)
        row = {f"cell:{k}": v for k, v in path_features(values["cell"]).items()}
        row["rate="] = np.log(values["rate"] / 1e-4) / np.log(1e3)
        row[f"norm={values['norm']!r}"] = 1
        rows.append(row)
    return rows


def test_predictions_are_those_of_scikit_learn():
    space, points = sample(50)
    targets = np.random.default_rng(1).normal(size=40)
    forest = Forest(points[:40], targets, space.numbers())
    rows = written_out(points)
    names, known = [], set()
    for name in sorted({name for row in rows[:40] for name in row}):
        column = tuple(row.get(name, 0) for row in rows[:40])
        if column not in known:
            known.add(column)
            names.append(name)
    matrix = np.array([[row.get(name, 0) for name in names] for row in rows], np.float32)
    model = RandomForestRegressor(50, max_features=0.33, random_state=0, oob_score=True)
    model.fit(matrix[:40], targets)
    mean, deviation = forest.predict(points[40:])
    np.testing.assert_allclose(mean, model.predict(matrix[40:]), rtol=1e-5, atol=1e-6)
    trees = [tree.predict(matrix[40:]) for tree in model.estimators_]
    np.testing.assert_allclose(deviation, np.std(trees, axis=0), rtol=1e-5)
    np.testing.assert_allclose(forest.out_of_bag, model.oob_prediction_, rtol=1e-5, atol=1e-6)


def test_paths_tell_places_apart_and_motifs_are_expanded():
    first = path_features(parse("(S Linear2 conv id)"))
    second = path_features(parse("(S Linear2 id conv)"))
    assert first != second
    same = {name for name in first if "/" not in name}
    assert {name: first[name] for name in same} == {name: second[name] for name in same}
    assert first["/Linear2/0/conv"] == second["/Linear2/1/conv"] == 1
