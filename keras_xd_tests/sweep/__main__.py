"""Check random configurations of all layers.

    python -m keras_xd_tests.sweep --count 10000 --seed 0 --page benchmarks/sweep.md
    python -m keras_xd_tests.sweep --seed 0 --only 4711

A configuration depends on the seed and its number alone; one that fails prints the command that
repeats it. Needs TensorFlow, and runs eagerly on one core.
"""

import json
import sys

from keras_xd_tests import commands
from keras_xd_tests.sweep import checks, report


def run_one(seed, number):
    """Check a configuration and print what failed; return the result."""
    family, configuration = checks.drawn(seed, number)
    result = checks.check(family, configuration, checks.seed_of(seed, number))
    if "check" in result:
        print(f"{report.command(seed, number)}  # {family}, {result['check']}")
        print(f"    {result['reason']}")
        print(f"    {json.dumps(configuration)}", flush=True)
    return result


def main(words=None):
    """Run the command; return the summary."""
    options = commands.parser(__doc__, count=10000).parse_args(words)
    summary = report.empty(options.seed)
    numbers = range(options.count) if options.only is None else [options.only]
    for number in numbers:
        result = run_one(options.seed, number)
        report.add(summary, number, result)
    if options.only is not None:
        print(json.dumps(result, indent=1))
    if options.page:
        options.page.write_text(report.page(summary), encoding="utf-8")
    print(f"{len(numbers)} configurations, {len(summary['failures'])} failed")
    return summary


if __name__ == "__main__":
    sys.exit(bool(main()["failures"]))
