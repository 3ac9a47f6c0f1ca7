"""PathFinder: are the two dots ends of one dashed curve? Images, generated.

Two curves of 14 dashes and several short ones are drawn so that none touches another. One dot marks
an end of the first curve, the other one its other end (class 1) or an end of the second (class 0).
The recipe is that of the Long Range Arena: 32 × 32 pixels, and 128 × 128 for Path-X, read as
sequences of 1,024 and 16,384 pixels.

Between dashes is a gap of twice the margin. A dash is turned by `θ` against the one before with a
probability in proportion to `cos(c θ)²`, among the turns by which it comes near to no other dash.
"""

import dataclasses

import numpy as np

TARGET, DISTRACTOR, MARKER = 1.5, 2.0, 1.0  # brightness
TURNS = np.arange(-90, 91)
TRIES = 40  # for a short curve


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Sizes in pixels: of images, dashes, dots, and the number of dashes."""

    size: int
    margins: tuple
    seed_distance: int
    radius: float
    thickness: float
    continuity: float
    short_curves: int
    length: int = 2
    dashes: int = 14
    short_dashes: int = 4


RECIPES = {
    32: Recipe(32, (1,), 7, 1.5, 0.5, 1.0, 5),
    128: Recipe(128, (2, 3), 20, 3.0, 1.5, 1.8, 8),
}


SAMPLES = (160000, 20000, 20000)


def load(numbers=SAMPLES, size=32, seed=0):
    """Return `(train, validation, test)`: pairs of images `(number, size²)` and classes 0 and 1.

    Pixels are from -1 to 1, row by row. Classes alternate, and every image is drawn from a seed of
    its own, so that the first images are the same whatever the number.
    """
    if size not in RECIPES:
        raise ValueError(f"`size` must be one of {sorted(RECIPES)}. Received: size={size!r}")
    if any(number < 1 for number in numbers):
        raise ValueError(f"There must be samples in each part. Received: numbers={numbers!r}")
    parts = []
    for part, number in enumerate(numbers):
        images = np.empty((number, size * size), "float32")
        for index in range(number):
            rng = np.random.default_rng([seed, part, index])
            pixels, _ = draw(RECIPES[size], index % 2, rng)
            images[index] = np.round(255 * pixels).ravel() / 127.5 - 1
        parts.append((images, np.arange(number) % 2))
    return tuple(parts)


def draw(recipe, label, rng):
    """Return an image `(size, size)` from 0 to 1, and its curves: lists of dashes, ends of pixels.

    The first two curves are the long ones.
    """
    while True:
        canvas = _Canvas(recipe, recipe.margins[rng.integers(len(recipe.margins))], rng)
        pair = canvas.pair()
        if pair is None:
            continue
        short = [canvas.short() for _ in range(recipe.short_curves)]
        if None in short:
            continue
        ends = pair[0][0][0], pair[1 - label][-1][1]
        layers = [DISTRACTOR * canvas.picture(dash) for curve in short for dash in curve]
        layers += [TARGET * canvas.picture(dash) for curve in pair for dash in curve]
        layers += [MARKER * canvas.dot(end) for end in ends]
        image = np.max(layers, axis=0)
        return (image - image.min()) / (image.max() - image.min()), [*pair, *short]


class _Canvas:
    """What is drawn, and where nothing may be drawn any more.

    A dash is a triple of its two ends, arrays of row and column, and its angle in degrees.
    """

    def __init__(self, recipe, margin, rng):
        self.recipe, self.margin, self.rng = recipe, margin, rng
        self.pixels = np.stack(np.indices((recipe.size, recipe.size)), axis=-1)
        self.taken = np.ones((recipe.size, recipe.size), bool)
        self.taken[1:-1, 1:-1] = False
        turns = recipe.continuity * np.deg2rad(np.abs(TURNS))
        self.weights = np.where(turns < np.pi / 2, np.cos(turns) ** 2, 0)

    def pair(self):
        """Return two long curves that grow by turns, or `None`."""
        first = self._start(2 * self.recipe.seed_distance)
        if first is None:
            return None
        second = self._dash(_moved(first[0], self.rng.integers(360), self.recipe.seed_distance))
        return self._grown([[first], [second]], self.recipe.dashes)

    def short(self):
        """Return a short curve, or `None`."""
        for _ in range(TRIES):
            before, first = self.taken.copy(), self._start(1)
            found = first and self._grown([[first]], self.recipe.short_dashes)
            if found:
                return found[0]
            self.taken = before
        return None

    def picture(self, dash):
        """Return a dash alone, brightness from 0 to 1."""
        return np.clip(self.recipe.thickness / 2 + 0.5 - _distances(self.pixels, *dash[:2]), 0, 1)

    def dot(self, place):
        """Return a dot alone, brightness from 0 to 1."""
        return np.clip(self.recipe.radius + 0.5 - _distances(self.pixels, place, place), 0, 1)

    def _start(self, border):
        """Return a dash that begins on a free place so far from the border, or `None`."""
        places = np.argwhere(~self.taken[border:-border, border:-border]) + border
        if not len(places):
            return None
        dash = self._dash(places[self.rng.integers(len(places))])
        return dash if self._fit(dash[0][None], dash[1][None]).all() else None

    def _dash(self, tail):
        angle = self.rng.integers(360)
        return tail, _moved(tail, angle, self.recipe.length), angle

    def _grown(self, curves, dashes):
        """Return the curves with so many dashes each, or `None` where one finds no way on."""
        for _ in range(dashes - 1):
            for curve in curves:
                new = self._next(curve[-1])
                if new is None:
                    return None
                # A dash is nearer to the one before than to any other.
                self._take(curve[-1])
                curve.append(new)
        for curve in curves:
            self._take(curve[-1])
        return curves

    def _next(self, dash):
        """Return a dash behind another one, drawn by its turn from all that fit, or `None`."""
        _, end, angle = dash
        pivot, length = _moved(end, angle, self.margin), self.recipe.length
        heads = _moved(pivot, angle + TURNS, length + self.margin)
        tails = _moved(heads, angle + TURNS + 180, length)
        chances = self.weights * self._fit(tails, heads)
        if chances.sum() < 1e-9:
            return None
        chosen = self.rng.choice(len(TURNS), p=chances / chances.sum())
        return tails[chosen], heads[chosen], angle + TURNS[chosen]

    def _fit(self, tails, heads):
        """Return for each of several dashes whether it is free within its margin."""
        pixels = np.argwhere(self.taken)
        reach = 2 * (self.recipe.length + 2 * self.margin)
        pixels = pixels[np.abs(pixels - tails[0]).max(axis=1) <= reach]
        return np.all(_distances(pixels[:, None], tails, heads) > self._width, axis=0)

    def _take(self, dash):
        """Take the pixels within the margin of a dash."""
        self.taken |= _distances(self.pixels, *dash[:2]) <= self._width

    @property
    def _width(self):
        return self.margin + self.recipe.thickness / 2


def _distances(pixels, tail, head):
    """Return the distances of pixels to lines between two places, all `(…, 2)`."""
    along = head - tail
    place = np.sum((pixels - tail) * along, -1) / np.maximum(np.sum(along * along, -1), 1e-9)
    nearest = tail + np.clip(place, 0, 1)[..., None] * along
    return np.sqrt(np.sum((pixels - nearest) ** 2, -1))


def _moved(place, angle, distance):
    """Return the pixels at a distance in the direction of angles in degrees."""
    radians = np.deg2rad(angle)
    direction = np.stack([np.sin(radians), np.cos(radians)], axis=-1)
    return np.ceil(place + distance * direction - 1e-9)
