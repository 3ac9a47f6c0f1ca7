"""A term grown in a grammar: an activation function, by evolution and at random.

    python examples/gallery/term_grown.py

Each term is scored without training a network: as the activation of 100 random features of
scikit-learn's digits, by the validation error of a ridge regression. Evolution changes the best of
five terms drawn from the last 30. Test images are seen by what is drawn at the end alone.
"""

import common
import keras
import numpy as np
from datasets import digits

from keras_xd import grammar, visualization
from keras_xd.grammar import primitives, spaces
from keras_xd.visualization import style

KNOWN = {
    "ReLU": "(L2 UnaryTopo (L1 UnaryTopo (UNARY relu)))",
    "tanh": "(L2 UnaryTopo (L1 UnaryTopo (UNARY tanh)))",
}
FEATURES, RIDGE = 100, 1e-2


def function(term, values):
    """Return the term's function of an array, its coefficients as they begin."""
    shape = values.shape[1:]
    model = grammar.build(term, keras.Input(shape), primitives.activation_functions())
    return np.asarray(model(values.astype("float32")), float)


def error(term, train, test, seed=0):
    """Return the share of wrong answers of a ridge regression on random features."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(64, FEATURES)) / 4
    images = np.concatenate([train[0], test[0]])
    made = function(term, images.reshape(len(images), -1) @ weights)
    made = made[: len(train[0])], made[len(train[0]) :]
    if not all(np.isfinite(x).all() and np.abs(x).max() < 1e6 for x in made):
        return 0.9  # as a guess
    mean, deviation = made[0].mean(axis=0), made[0].std(axis=0) + 1e-6
    first, second = ((x - mean) / deviation for x in made)
    targets = np.eye(10)[train[1]]
    gram = first.T @ first / len(first) + RIDGE * np.eye(FEATURES)
    solution = np.linalg.solve(gram, first.T @ (targets - targets.mean(axis=0)) / len(first))
    answers = second @ solution + targets.mean(axis=0)
    return float(np.mean(answers.argmax(axis=1) != test[1]))


def search(space, score, trials, rng, evolve):
    """Return the terms and their scores in the order of the trials."""
    terms, scores = [], []
    for trial in range(trials):
        if evolve and trial >= 10:
            last = np.arange(max(0, trial - 30), trial)
            chosen = rng.choice(last, size=min(5, len(last)), replace=False)
            parent = terms[min(chosen, key=lambda index: scores[index])]
            term = space.mutate(parent, rng)
        else:
            term = space.sample(rng)
        terms.append(term)
        scores.append(score(term))
    return terms, scores


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments)
    trials, seeds = (12, 1) if options.small else (60, 3)
    train, validation, test = digits.load()
    space, known = spaces.activation_functions(), {}

    def score(term):
        known.setdefault(term, error(term, train, validation))
        return known[term]

    runs = {"evolution": [], "at random": []}
    for seed in range(seeds):
        for name, found in runs.items():
            # The first ten terms are the same.
            rng = np.random.default_rng(seed)
            terms, scores = search(space, score, trials, rng, evolve=name == "evolution")
            found.append(scores)
            if name == "evolution" and seed == 0:
                best = terms[int(np.argmin(scores))]
    functions = {name: space.parse(text) for name, text in KNOWN.items()} | {"found": best}
    tests = {name: error(term, train, test) for name, term in functions.items()}
    with style.context():
        figure = common.figure(7.1, 4.6)
        upper, lower = figure.subfigures(2, 1, height_ratios=(1.0, 1.1))
        left, right = upper.subplots(1, 2)
        visualization.plot_optimization_history(runs, label="lowest validation error", axes=left)
        left.set_ylim(bottom=0.0)
        left.set_title(f"a  best so far, {common.count(seeds, 'seed')}", loc="left")
        x = np.linspace(-3, 3, 241)[:, None]
        for number, (name, term) in enumerate(functions.items()):
            y = function(term, x)[:, 0]
            label = f"{name}: test error {tests[name]:.3f}"
            right.plot(x[:, 0], y, label=label, **style.curve(number))
        right.set(xlabel="x", ylim=(-3, 3), title="")
        right.set_title("b  functions", loc="left")
        right.margins(x=0)
        style.label_lines(right)
        visualization.plot_tree(best, axes=lower.subplots())
        lower.suptitle("c  the term found", x=0.02, ha="left", fontsize=8)
    common.save(figure, options)
    return {"tests": tests, "term": str(best), "runs": runs}


if __name__ == "__main__":
    main()
