"""Bayesian optimisation over terms beside random search and evolution, and what its kernel knows.

    python benchmarks/grammar_search.py [--trials 40] [--seeds 5] [--dry-run]
    python benchmarks/grammar_search.py --train [--trials 25] [--images 2000] [--searches folder]

Without `--train` trials cost nothing: terms of hierarchical NAS-Bench-201 have an "error" between
0.05 and 1 by how much of their tree is that of a fixed random term, whose error of 0.05 is the
lowest. With `--train` each trial trains a network of
examples/experiments/grammar/grammar_cifar10.py on a part of CIFAR-10 and its error is that on
validation images.

Every strategy gets equal trials, with several seeds; the curves show the mean of the best so far
and its deviation. `plain` is Bayesian optimisation with the plain Weisfeiler-Lehman kernel in place
of the hierarchical one. Then both kernels' Gaussian processes are fitted to 25, 50 and 100 random
terms, as far as there are that many, and Kendall's τ of their predictions of others is given.
Table, errors and curves go to benchmarks/grammar_search.md, .json and .svg, with `--train` to
benchmarks/grammar_search_cifar10.md, .json and .svg; nowhere with `--dry-run`. `--redraw` draws the
curves from the errors, without a search.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_tuner as kt
import numpy as np
import scipy.stats

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import reporting
import timing

from keras_xd import visualization
from keras_xd.grammar import spaces
from keras_xd.visualization.progress import optimization_history
from tuner_integration import GrammarOracle, GrammarTuner, Surrogate
from tuner_integration.kernels import HierarchicalKernel
from tuner_integration.objectives import normal_scores
from tuner_integration.points import PointSpace

FOLDER = pathlib.Path(__file__).parent
LEVELS = (0, 1, 2, 3, 4)
STRATEGIES = {
    "bayesian": {"strategy": "bayesian", "levels": LEVELS},
    "plain": {"strategy": "bayesian", "levels": ()},
    "evolution": {"strategy": "evolution", "population": 10, "sample": 5},
    "random": {"strategy": "random"},
}
KERNELS = {"hierarchical": LEVELS, "plain": ()}
OBSERVATIONS = (25, 50, 100)
LOWEST, HIGHEST = 0.05, 1.0
LEAST_PREDICTED, MOST_PREDICTED = 20, 150
STUDIED = 250
SPACES = {
    "hierarchical": spaces.hierarchical_nas_bench_201,
    "shared_cell": spaces.hierarchical_nas_bench_201_shared_cell,
    "cell": spaces.nas_bench_201_cell,
}


class Likeness:
    """An error that says how much of a term's tree differs from a target's.

    The likeness of two nodes is 0 if their operators or numbers of arguments differ, otherwise the
    mean of 1 and of the likenesses of their arguments.
    """

    def __init__(self, target):
        self.target = target

    def __call__(self, term):
        return LOWEST + (HIGHEST - LOWEST) * (1 - self.likeness(term, self.target))

    def likeness(self, a, b):
        if a.operator != b.operator or len(a.arguments) != len(b.arguments):
            return 0.0
        below = map(self.likeness, a.arguments, b.arguments)
        return (1.0 + sum(below)) / (1 + len(a.arguments))


class Tuner(GrammarTuner):
    """Takes the errors of terms from a function."""

    error = None

    def run_trial(self, trial, **options):
        (name, grammar), *_ = self.grammars.items()
        started = time.perf_counter()
        error = self.error(grammar.parse(trial.hyperparameters.get(name)))
        return {"error": error, "seconds": time.perf_counter() - started}


def search(space, error, strategy, seed, trials, initial, folder):
    """Run one search, or go on with it; return its terms, errors and seconds, in their order."""
    oracle = GrammarOracle(
        {"network": space},
        kt.Objective("error", "min"),
        trials,
        initial_trials=initial,
        seed=seed,
        **STRATEGIES[strategy],
    )
    tuner = Tuner(oracle, directory=folder, project_name=f"{strategy}{seed}")
    tuner.error = error
    tuner.search(verbose=0)
    ran = list(oracle.trials.values())
    terms = [space.parse(trial.hyperparameters.get("network")) for trial in ran]
    errors = [np.nan if trial.score is None else trial.score for trial in ran]
    known = [trial.metrics for trial in ran if trial.metrics.exists("seconds")]
    return terms, errors, [metrics.get_best_value("seconds") for metrics in known]


def kendall(space, terms, errors, counts, seeds):
    """Return `{kernel: {number of observations: [τ for each seed]}}`.

    Args:
        space: the grammar.
        terms: list of different random terms.
        errors: array of their errors, which are predicted by their normal scores.
        counts: numbers of observations; what is left, at most 150, is predicted.
        seeds: number of random choices of the observations.
    """
    points = PointSpace({"network": space}, kt.HyperParameters())
    errors = np.asarray(errors)
    found = {kernel: {count: [] for count in counts} for kernel in KERNELS}
    for kernel, levels in KERNELS.items():
        surrogate = Surrogate({"network": HierarchicalKernel(levels)}, points)
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(terms))
            predicted = order[max(counts, default=0) :][:MOST_PREDICTED]
            for count in counts:
                chosen = order[:count]
                targets = normal_scores(errors[chosen].tolist())
                surrogate.fit([(("network", terms[i]),) for i in chosen], targets)
                mean, _ = surrogate.predict([(("network", terms[i]),) for i in predicted])
                found[kernel][count].append(scipy.stats.kendalltau(mean, errors[predicted])[0])
    return found


def trained(options):
    """Return the grammar and the error of a network after a short training on CIFAR-10."""
    import keras
    from datasets import images
    from experiments.grammar import grammar_cifar10

    data = images.load("cifar10", options.data_dir, options.images)

    def error(term):
        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        model = grammar_cifar10.network(term, options.filters)
        history = model.fit(
            *data[0],
            validation_data=data[1],
            batch_size=options.batch_size,
            epochs=options.epochs,
            verbose=0,
        ).history
        return 1 - max(history["val_accuracy"])

    return grammar_cifar10.space(), error


def synthetic(options):
    """Return the grammar and the error without training."""
    space = SPACES[options.space]()
    return space, Likeness(space.sample(np.random.default_rng(12345)))


def measure(options):
    """Run all searches and the study of the kernels; return what was found."""
    space, error = (trained if options.train else synthetic)(options)
    runs, processor, random, longest = {}, {}, [], 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.searches or temporary
        for strategy in options.strategies:
            started = time.process_time()
            resumed = any(pathlib.Path(folder).glob(f"{strategy}*/trial_*"))
            runs[strategy] = []
            for seed in range(1, options.seeds + 1):
                terms, errors, seconds = search(
                    space, error, strategy, seed, options.trials, options.initial_trials, folder
                )
                longest = max([longest, *seconds])
                runs[strategy].append(errors)
                if strategy == "random":
                    random += zip(terms, errors, strict=True)
                print(f"{strategy}, seed {seed}: {np.nanmin(errors):.4f}", flush=True)
            processor[strategy] = None if resumed else time.process_time() - started
    if not options.train:
        # Terms cost nothing here, so the study gets as many as it can use.
        rng = np.random.default_rng(0)
        random = [(term, error(term)) for term in (space.sample(rng) for _ in range(STUDIED))]
    known = dict((term, value) for term, value in random if np.isfinite(value))
    counts = [count for count in options.observations if count + LEAST_PREDICTED <= len(known)]
    study = kendall(space, list(known), list(known.values()), counts, options.seeds)
    return {"runs": runs, "study": study, "longest": longest, "processor": processor}


def page(found, options, words):
    """Return the lines of the page."""
    versions = timing.versions(("keras-tuner", "numpy", "scipy"))
    what = (
        f"networks of examples/experiments/grammar/grammar_cifar10.py, {options.images} images, "
        f"{options.epochs} epochs, {options.filters} filters; a training took "
        f"{found['longest']:.1f} s at most"
        if options.train
        else f"terms of the space `{options.space}` of NAS-Bench-201, error of the "
        "tree without training"
    )
    lines = [
        "# Search strategies over terms",
        "",
        f"Written by `python benchmarks/grammar_search.py{' ' if words else ''}{' '.join(words)}`; "
        f"{versions}, {os.cpu_count()} cores. {what[0].upper()}{what[1:]}. {options.seeds} seeds, "
        f"{options.initial_trials} random trials first, mean ± standard deviation.",
        "",
    ]
    trials = sorted({max(1, options.trials * part // 4) for part in (1, 2, 3, 4)})
    words = ["best error after", *(f"{trial} trials" for trial in trials)]
    lines += timing.head(*words, "mean error after the first ones", "s a seed")
    for strategy, runs in found["runs"].items():
        best = optimization_history(runs)
        cells = [reporting.spread(best[:, trial - 1], 3) for trial in trials]
        later = [errors[options.initial_trials :] for errors in runs]
        # A seed whose later trials all failed, or that has none, is left out.
        known = [np.nanmean(errors) for errors in later if np.isfinite(errors).any()]
        cells.append(reporting.spread(known, 3) if known else "–")
        seconds = found["processor"][strategy]
        cells.append("–" if seconds is None else f"{seconds / len(runs):.1f}")
        lines.append(f"| {strategy} | {' | '.join(cells)} |")
    lines += ["", "Seconds are those of the processor, trials included; – if some were kept.", ""]
    counts = list(next(iter(found["study"].values())))
    if counts:
        lines += timing.head("Kendall's τ, kernel", *(f"{c} observations" for c in counts))
        for kernel, values in found["study"].items():
            lines.append(
                f"| {kernel} | {' | '.join(reporting.spread(values[c], 3) for c in counts)} |"
            )
        lines.append("")
    return lines


def draw(runs, path):
    """Draw the best error so far; `runs` has `None` or NaN where a trial failed."""
    runs = {name: np.array(errors, float) for name, errors in runs.items()}
    figure = visualization.plot_optimization_history(runs, label="lowest error so far")
    figure.axes[0].set_ylim(bottom=0.0)
    visualization.style.save(figure, path)


def main(arguments=None):
    """Measure, and write the page; return what was found."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", help="short trainings on CIFAR-10")
    parser.add_argument("--space", choices=SPACES, default="hierarchical")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    parser.add_argument("--trials", type=int, help="40; 25 with --train")
    parser.add_argument("--initial-trials", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--observations", type=int, nargs="+", default=list(OBSERVATIONS))
    parser.add_argument("--images", type=int, default=2000, help="of each split")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--filters", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--data-dir", default=os.environ.get("TFDS_DATA_DIR"))
    parser.add_argument("--searches", help="keep trials in this folder, and go on with them")
    parser.add_argument("--output", type=pathlib.Path, default=FOLDER)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--dry-run", action="store_true", help="print, but write no file")
    group.add_argument("--redraw", action="store_true", help="only draw, from the file of errors")
    options = parser.parse_args(arguments)
    name = "grammar_search"
    if options.train:
        name = f"{name}_cifar10"
    paths = {ending: options.output / f"{name}.{ending}" for ending in ("json", "md", "svg")}
    if options.redraw:
        found = json.loads(paths["json"].read_text(encoding="utf-8"))
        draw(found["runs"], paths["svg"])
        return found
    options.trials = options.trials or (25 if options.train else 40)
    left_out = {str(options.data_dir), str(options.output), str(options.searches)}
    words = ["…" if word in left_out else word for word in arguments]
    found = measure(options)
    lines = page(found, options, words)
    print("\n".join(lines))
    if not options.dry_run:
        lines.append(f"![best so far]({name}.svg)")
        draw(found["runs"], paths["svg"])
        paths["md"].write_text("\n".join(lines) + "\n", encoding="utf-8")
        runs = {
            strategy: [[None if np.isnan(x) else x for x in errors] for errors in own]
            for strategy, own in found["runs"].items()
        }
        text = json.dumps({**found, "runs": runs}, indent=1)
        paths["json"].write_text(text + "\n", encoding="utf-8")
    return found


if __name__ == "__main__":
    main()
