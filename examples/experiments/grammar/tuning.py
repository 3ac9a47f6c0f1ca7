"""What the examples with KerasTuner share: their arguments, and the results that they write."""

import json
import math
import pathlib
import statistics

import keras
import numpy as np
import parsing
import reporting
from parsing import positive

from keras_xd import visualization
from tuner_integration import GrammarOracle, GrammarTuner

PACKAGES = ("keras", "tensorflow", "keras-tuner")


def add_arguments(parser):
    """Add the arguments that say where trials and results are kept."""
    reporting.add_arguments(parser, resume=True)
    parser.add_argument("--finalists", type=positive, default=3, help="trials trained again")
    parser.add_argument("--searches", default="searches", help="folder of the trials")


def check(parser, options, name):
    """End with an error if something would be overwritten, or there is nothing to resume."""
    trials = pathlib.Path(options.searches, name)
    paths = [options.output / f"{name}.md", trials]
    reporting.check_output(parser, options, paths, trials, "trials")


def settings(name, arguments, options, **more):
    """Return the settings for the page: the command, without paths, and what `more` says."""
    left_out = (options.output, options.searches, getattr(options, "data_dir", None))
    left_out = [str(path) for path in left_out if path]
    words = ["…" if word in left_out else word for word in arguments if word != "--resume"]
    return {
        "command": " ".join(["python", f"examples/experiments/grammar/{name}.py", *words]),
        **more,
        "versions": reporting.versions(PACKAGES),
        "cores": reporting.threads(),
    }


def add_search_arguments(parser, **defaults):
    """Add the arguments of a search of terms by short trainings."""
    strategies = ["bayesian", "evolution", "random"]
    parsing.add(parser, positive, initial_trials=10, **defaults)
    parser.add_argument("--strategy", choices=strategies, default=strategies[0])
    parser.add_argument("--seed", type=int, default=0)
    add_arguments(parser)


class Tuner(GrammarTuner):
    """Seeds each trial, so that a search that is resumed finds the same."""

    seed_of_trial = None

    def run_trial(self, trial, *arguments, **options):
        keras.utils.set_random_seed(self.seed_of_trial(int(trial.trial_id)))
        return super().run_trial(trial, *arguments, **options)


def searched(name, grammars, objective, network, rates, data, options, seed_of_trial, **settings):
    """Run a search of a term and a learning rate; return the tuner."""
    oracle = GrammarOracle(
        grammars,
        objective,
        options.trials,
        options.strategy,
        initial_trials=options.initial_trials,
        seed=options.seed,
        **settings,
    )

    def build(hp, term):
        rate = hp.Float("rate", *rates, sampling="log", default=3e-3)
        return network(term, options.filters, rate=rate)

    tuner = Tuner(
        oracle,
        build,
        max_checkpoints=1,
        directory=options.searches,
        project_name=name,
        overwrite=options.overwrite,
    )
    tuner.seed_of_trial = seed_of_trial
    tuner.search(
        *data[0],
        validation_data=data[1],
        batch_size=options.batch_size,
        epochs=options.epochs,
        verbose=0,
    )
    return tuner


def best_again(tuner, count, seeds, train):
    """Train the best trials of a search again; return the values and the runs of the best one.

    A score is that of one training, and the best of many is luck in part: the best trials are
    compared again by their means over seeds, on the samples that scored them.
    """
    sign = 1 if tuner.oracle.objective.direction == "min" else -1
    candidates = []
    for trial in tuner.oracle.get_best_trials(count):
        values = trial.hyperparameters.values
        runs = [train(values, seed) for seed in range(seeds)]
        mean = sign * statistics.mean(run["score"] for run in runs)
        candidates.append((math.inf if math.isnan(mean) else mean, len(candidates), values, runs))
    return min(candidates)[2:]


def columns(runs):
    """Return the figures of trainings, `{name: {figure: [one of each seed]}}`."""
    return {
        name: {figure: [run[figure] for run in of_seeds] for figure in of_seeds[0]}
        for name, of_seeds in runs.items()
    }


def differences(network, figures, images):
    """Say by how many test images a network is better than all others, seed by seed."""
    accuracies, texts = figures[network]["test_accuracy"], []
    for name, column in figures.items():
        if name != network:
            pairs = zip(accuracies, column["test_accuracy"], strict=True)
            gains = [images * (a - b) for a, b in pairs]
            texts.append(f"{reporting.spread(gains, 1)} (than {name})")
    return f"more right of {images} test images, seed by seed: {', '.join(texts)}"


def scores(oracle):
    """Return the score of every trial in the order of their numbers, NaN of those that failed."""
    trials = list(oracle.trials.values())
    return [math.nan if t.score is None or t.status != "COMPLETED" else t.score for t in trials]


def table(head, rows):
    """Return a Markdown table."""
    return "\n".join(reporting.table(head, rows)[:-1])


def write(name, title, parts, settings, tuner, output, chosen, runs):
    """Write the trials, the page and its picture; return the tuner."""
    oracle = tuner.oracle
    output.mkdir(parents=True, exist_ok=True)
    trials = [
        {"values": oracle.trials[trial].hyperparameters.values, "score": None if s != s else s}
        for trial, s in zip(oracle.trials, scores(oracle), strict=True)
    ]
    objective = {"name": oracle.objective.name, "direction": oracle.objective.direction}
    found = {"title": title, "parts": parts, "settings": settings, "objective": objective}
    found |= {"trials": trials, "chosen": chosen, "runs": runs}
    (output / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (output / f"{name}.md").write_text(page(name, found), encoding="utf-8")
    draw(name, found, output)
    print(parts[0])
    return tuner


def page(name, found):
    """Return the page of stored trials."""
    failed = sum(trial["score"] is None for trial in found["trials"])
    return reporting.markdown(
        found["title"],
        f"`{found['settings']['command']}` wrote this page.",
        *found["parts"],
        f"{len(found['trials'])} trials, of which {failed} failed.",
        f"![{name}]({name}.svg)",
        reporting.points(f"{k.replace('_', ' ')}: {v}" for k, v in found["settings"].items()),
    )


def draw(name, found, output):
    """Draw the best score so far."""
    objective = found["objective"]
    values = np.array([trial["score"] for trial in found["trials"]], float)
    label = f"best {objective['name'].replace('_', ' ')} so far"
    curve = visualization.plot_optimization_history(
        {"search": values}, objective["direction"], label
    )
    if np.nanmin(values, initial=0.0) >= 0.0:
        curve.axes[0].set_ylim(bottom=0.0)
    visualization.style.save(curve, output / f"{name}.svg")
