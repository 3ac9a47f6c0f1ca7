"""What the examples with KerasTuner share: their arguments, and the results that they write."""

import json
import math
import pathlib

import numpy as np
import reporting

from keras_xd import visualization

PACKAGES = ("keras", "tensorflow", "keras-tuner")


def add_arguments(parser):
    """Add the arguments that say where trials and results are kept."""
    reporting.add_arguments(parser, resume=True)
    parser.add_argument("--searches", default="searches", help="folder of the trials")
    parser.add_argument("--note", help="sentence for the results page")


def check(parser, options, name):
    """End with an error if something would be overwritten, or there is nothing to resume."""
    trials = pathlib.Path(options.searches, name)
    paths = [options.output / f"{name}.md", trials]
    reporting.check_output(parser, options, paths, trials, "trials")


def settings(name, arguments, options, **more):
    """Return the settings for the page: the command, without paths, and what `more` says."""
    left_out = (options.output, options.searches, getattr(options, "data_dir", None), options.note)
    left_out = [str(path) for path in left_out if path]
    words = ["…" if word in left_out else word for word in arguments if word != "--resume"]
    return {
        "command": " ".join(["python", f"examples/experiments/grammar/{name}.py", *words]),
        **more,
        "versions": reporting.versions(PACKAGES),
        "cores": reporting.threads(),
        "note": options.note or "none",
    }


def searched(tuner_class, oracle, build, data, options, name):
    """Run a search with the settings of the options; return the tuner.

    Args:
        tuner_class: a `GrammarTuner`.
        oracle: its oracle.
        build: function `(hp, term)` that returns a compiled network.
        data: the pairs to train on and to score by, then any others.
        options: the arguments of the example.
        name: of the example.
    """
    tuner = tuner_class(
        oracle,
        build,
        max_checkpoints=1,
        directory=options.searches,
        project_name=name,
        overwrite=options.overwrite,
    )
    tuner.search(
        *data[0],
        validation_data=data[1],
        batch_size=options.batch_size,
        epochs=options.epochs,
        verbose=0,
    )
    return tuner


def scores(oracle):
    """Return the score of every trial in the order of their numbers, NaN of those that failed."""
    trials = [oracle.trials[name] for name in sorted(oracle.trials)]
    return [math.nan if t.score is None or t.status != "COMPLETED" else t.score for t in trials]


def table(head, rows):
    """Return a Markdown table."""
    return "\n".join(reporting.table(head, rows)[:-1])


def write(name, title, parts, settings, oracle, output, pictures=()):
    """Write the page, the trials and the curve of the best so far.

    Args:
        name: of the example, and of the files.
        title: of the page.
        parts: paragraphs and tables.
        settings: what `settings` returned.
        oracle: the oracle whose trials are reported.
        output: folder of the results.
        pictures: pairs `(ending of the file name, figure)`.
    """
    output.mkdir(parents=True, exist_ok=True)
    found = scores(oracle)
    direction = oracle.objective.direction
    label = f"best {oracle.objective.name.replace('_', ' ')} so far"
    curve = visualization.plot_best_so_far({"search": found}, direction, label)
    if direction == "min" and np.nanmin(found, initial=0.0) >= 0.0:
        curve.axes[0].set_ylim(bottom=0.0)
    names = []
    for ending, figure in [("", curve), *pictures]:
        names.append(f"{name}{ending}.png")
        visualization.style.save(figure, output / names[-1])
    failed = int(np.isnan(found).sum())
    lines = [
        f"# {title}",
        f"`{settings['command']}` wrote this page.",
        *parts,
        f"{len(found)} trials, of which {failed} failed.",
        "\n".join(f"![{picture.removesuffix('.png')}]({picture})" for picture in names),
        "\n".join(f"- {key.replace('_', ' ')}: {value}" for key, value in settings.items()),
    ]
    trials = [
        {"values": oracle.trials[trial].hyperparameters.values, "score": None if s != s else s}
        for trial, s in zip(sorted(oracle.trials), found, strict=True)
    ]
    text = json.dumps({"settings": settings, "trials": trials}, indent=1)
    (output / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    (output / f"{name}.md").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
