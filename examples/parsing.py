"""Arguments of the examples' command lines, and their types."""

import argparse
import math
import os


def add_data_folder(parser):
    """Add the argument that names the folder of the images."""
    parser.add_argument(
        "--data-dir",
        default=os.environ.get("TFDS_DATA_DIR"),
        help="folder of tensorflow-datasets; by default TFDS_DATA_DIR, or a download",
    )


def add(parser, kind, **defaults):
    """Add an argument of a type for each name; a default may be a pair of it and of its help."""
    for name, default in defaults.items():
        default, text = default if isinstance(default, tuple) else (default, None)
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=kind, default=default, help=text)


def add_runs(parser, seeds, methods, allowed=None):
    """Add the arguments that choose methods and seeds."""
    parser.add_argument("--methods", nargs="+", choices=allowed or methods, default=list(methods))
    parser.add_argument("--seeds", nargs="+", type=seed, default=list(seeds))


def with_paper(parser, arguments, paper, small=lambda options: {}):
    """Return the options; those not given are `paper(options)` with `--paper`, else `small(…)`."""
    parser.add_argument("--paper", action="store_true", help="what is not given is the paper's")
    options = parser.parse_args(arguments)
    parser.set_defaults(**(paper if options.paper else small)(options))
    return parser.parse_args(arguments)


def positive(text):
    """Return an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return int(text)


def whole(text):
    """Return an integer of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, not {text!r}")
    return int(text)


seed = whole


def rate(text):
    """Return a positive, finite number."""
    return _number(text, lambda value: 0 < value < math.inf, "a positive number")


def number(text):
    """Return a finite number of at least 0."""
    return _number(text, lambda value: 0 <= value < math.inf, "a number of at least 0")


def fraction(text):
    """Return a number from 0 to below 1."""
    return _number(text, lambda value: 0 <= value < 1, "a number from 0 to below 1")


def _number(text, fits, rule):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not fits(value):
        raise argparse.ArgumentTypeError(f"must be {rule}, not {text!r}")
    return value
