"""What benchmarks share: calls that take turns, processes of their own, arguments and pages."""

import argparse
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROUNDS = 20  # that are timed
PACKAGES = ("tensorflow", "keras")


def medians(calls, rounds=ROUNDS, warm_up=2, repetitions=1, pause=None, clock=None):
    """Return the median milliseconds of each call; they take turns.

    So what else the machine does hits all alike.
    """
    clock = clock or time.perf_counter
    times = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(warm_up):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            if pause is not None:
                time.sleep(pause)
                call()
            for _ in range(repetitions):
                start = clock()
                call()
                times[name].append(clock() - start)
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def milliseconds(models, shape, batches):
    """Return the median milliseconds of a call of each network, by the batch size as a text."""
    import numpy as np
    import tensorflow as tf

    inputs = [tf.TensorSpec((None, *shape))]
    functions = [tf.function(lambda x, m=m: m(x, training=False), inputs) for m in models]
    found = {}
    for batch in batches:
        x = tf.constant(np.zeros((batch, *shape), "float32"))
        calls = {i: lambda f=f, x=x: f(x).numpy() for i, f in enumerate(functions)}
        found[str(batch)] = [round(value, 3) for value in medians(calls, ROUNDS).values()]
    return found


# Processes


def apart(script, task, threads=None, **environment):
    """Return what a script measures of a task, in a process of its own."""
    if threads is not None:
        environment["TF_NUM_INTRAOP_THREADS"] = environment["TF_NUM_INTEROP_THREADS"] = str(threads)
    command = [sys.executable, script, "--measure", json.dumps(task)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def process_memory(field):
    """Return a field of this process's status (Linux) in MiB."""
    status = pathlib.Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in status if line.startswith(field)]
    return int(line.split()[1]) / 1024


def memory_growth(step):
    """Return by how many MiB peak resident memory grows in a step (Linux)."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    before = process_memory("VmRSS")
    step()
    return process_memory("VmHWM") - before


# Arguments and pages


def parser(script, description):
    """Return the parser of a benchmark, with what all have: the page, and `--measure`."""
    found = argparse.ArgumentParser(description=description.splitlines()[0])
    found.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path(script).with_suffix(".md")
    )
    found.add_argument("--dry-run", action="store_true", help="print, but write no file")
    found.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    return found


def versions(packages=PACKAGES):
    """Return the versions of packages as text."""
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)


def row(*cells):
    """Print a row of a Markdown table at once, as soon as it is measured, and return it."""
    text = f"| {' | '.join(map(str, cells))} |"
    print(text, flush=True)
    return text


def head(*cells):
    """Return the lines of the head of a Markdown table."""
    return [f"| {' | '.join(map(str, cells))} |", "|" + "---|" * len(cells)]


def table(cells, rows):
    """Return the lines of a Markdown table, and an empty one."""
    return [*head(*cells), *(f"| {' | '.join(map(str, values))} |" for values in rows), ""]


def page(title, *parts):
    """Return the lines of a page of paragraphs and lists of lines; empty ones are left out."""
    parts = (part if isinstance(part, str) else "\n".join(part) for part in parts)
    parts = [part.strip("\n") for part in (f"# {title}", *parts)]
    return "\n\n".join(filter(None, parts)).split("\n")


def write(options, lines):
    """Write the lines of a page, unless `--dry-run` is given; return them."""
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines
