"""What the commands of docs/reliability.md have in common: one core, seeds and pages."""

import argparse
import os
import pathlib


def use_one_core():
    """Let TensorFlow, which is not imported yet, take one core of the CPU and be silent."""
    settings = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    threads = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OPENBLAS_NUM_THREADS")
    for name, value in {**settings, **dict.fromkeys(threads, "1")}.items():
        os.environ.setdefault(name, value)


def parser(text, count):
    """Return a parser of `--seed`, `--count`, `--only` and `--page`, described by a docstring."""
    made = argparse.ArgumentParser(description=text.splitlines()[0])
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--count", type=int, default=count, help="how many numbers, from 0")
    made.add_argument("--only", type=int, help="one number")
    made.add_argument("--page", type=pathlib.Path, help="page to write")
    return made
