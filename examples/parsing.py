"""Types of the examples' command-line arguments."""

import argparse


def positive(text):
    """Return an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return int(text)
