"""Points: what is drawn and varied stays in the space; distances by their definition."""

import keras_tuner as kt
import numpy as np

from keras_xd.grammar import Grammar
from tuner_integration.points import PointSpace

GRAMMAR = Grammar("S -> Linear2 A A | Linear1 A\nA -> conv | pool | relu")


def hyperparameters():
    result = kt.HyperParameters()
    result.Fixed("s", "(S Linear1 (A conv))")
    result.Choice("kind", ["plain", "momentum"])
    with result.conditional_scope("kind", ["momentum"]):
        result.Float("momentum", 0.0, 1.0)
    result.Int("width", 8, 64, step=8)
    result.Boolean("bias")
    result.Choice("depth", [1, 2, 4], ordered=True)
    result.Fixed("classes", 10)
    return result


SPACE = PointSpace({"s": GRAMMAR}, hyperparameters())


def test_every_part_mutates_and_few_at_once():
    rng = np.random.default_rng(1)
    changed, numbers = set(), []
    for _ in range(200):
        point = SPACE.sample(rng)
        old, new = dict(point), dict(SPACE.mutate(point, rng))
        names = {name for name in old if name in new and old[name] != new[name]}
        changed |= names
        numbers.append(len(names))
    assert changed == {"s", "kind", "momentum", "width", "bias", "depth"}
    assert 0.5 < np.mean(numbers) < 2


def test_distances_are_mean_squares():
    term = "(S Linear1 (A conv))"
    plain = {"s": term, "kind": "plain", "width": 8, "bias": False, "depth": 1}
    points = [
        SPACE.point(plain),
        SPACE.point({**plain, "width": 64, "bias": True}),
        SPACE.point({**plain, "kind": "momentum", "momentum": 0.2, "depth": 4}),
        SPACE.point({**plain, "kind": "momentum", "momentum": 0.7}),
    ]
    # Kind, momentum, width, bias, depth; probabilities lie in the middles of n equal parts.
    width, depth = np.square(7 / 8), np.square(2 / 3)
    expected = np.array(
        [
            [0, width + 1, 2 + depth, 2],
            [width + 1, 0, 2 + depth + width + 1, 3 + width],
            [2 + depth, 3 + depth + width, 0, 0.25 + depth],
            [2, 3 + width, 0.25 + depth, 0],
        ]
    )
    for left, right in ((slice(None), slice(None)), (slice(1), slice(1, None))):
        squares = SPACE.squared_distances(points[left], points[right])
        assert list(squares) == ["kind", "momentum", "width", "bias", "depth"]
        np.testing.assert_allclose(sum(squares.values()), expected[left, right], rtol=1e-9)


def test_a_mutation_changes_a_part_whatever_is_drawn():
    space = PointSpace({name: GRAMMAR for name in "abc"}, kt.HyperParameters())
    rng = np.random.default_rng(0)
    point = space.sample(rng)
    assert all(space.mutate(point, rng) != point for _ in range(60))
