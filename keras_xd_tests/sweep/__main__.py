"""Check random configurations of all layers.

    python -m keras_xd_tests.sweep --count 10000 --seed 0 --page benchmarks/sweep.md
    python -m keras_xd_tests.sweep --seed 0 --only 4711

A configuration depends on the seed and its number alone; one that fails prints the command that
repeats it. Needs TensorFlow, and runs eagerly on one core.
"""

import argparse
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from keras_xd_tests.sweep import checks, report


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", type=int, help="number of one configuration")
    parser.add_argument("--families", nargs="*", choices=checks.NAMES, metavar="FAMILY")
    parser.add_argument("--output", type=pathlib.Path, help="JSON file of the summary")
    parser.add_argument("--page", type=pathlib.Path, help="page to write")
    return parser.parse_args(words)


def run_one(seed, number):
    """Check a configuration and print what failed; return the result."""
    family, configuration = checks.drawn(seed, number)
    result = checks.check(family, configuration, checks.seed_of(seed, number))
    if "check" in result:
        print(f"{report.command(seed, number)}  # {family}, {result['check']}")
        print(f"    {result['reason']}")
        print(f"    {json.dumps(configuration)}")
        sys.stdout.flush()
    return result


def main(words=None):
    """Run the command; return the summary."""
    options = arguments(words)
    summary = report.empty(options.seed)
    start, count = options.start, options.count
    if options.only is not None:
        start, count = options.only, 1
    summary["ranges"].append([start, count])
    for number in range(start, start + count):
        if options.families and checks.drawn_family(number) not in options.families:
            continue
        result = run_one(options.seed, number)
        report.add(summary, number, result)
    if options.output:
        options.output.write_text(json.dumps(summary, indent=1))
    if options.only is not None:
        print(json.dumps(result, indent=1))
    if options.page:
        options.page.write_text(report.page(summary), encoding="utf-8")
    total = sum(row["count"] for row in summary["families"].values())
    print(f"{total} configurations, {len(summary['failures'])} failed")
    return summary


if __name__ == "__main__":
    sys.exit(bool(main()["failures"]))
