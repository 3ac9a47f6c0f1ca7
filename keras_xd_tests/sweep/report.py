"""Summaries of a sweep, and the page."""

# Columns of the page, by the beginnings of the checks' names.
COLUMNS = {
    "Keras' layer": ("twin, float32",),
    "NumPy": ("oracle, float32",),
    "float64": ("twin, float64", "oracle, float64"),
    "gradients": ("gradient of",),
    "differences": ("derivative",),
    "finalized": ("finalized",),
    "decomposed": ("decomposition",),
    "float16": ("mixed_float16",),
    "bfloat16": ("mixed_bfloat16",),
}


def empty(seed):
    """Return the summary of no configurations."""
    return {"seed": seed, "families": {}, "failures": []}


def add(summary, number, result):
    """Add the result of a configuration to a summary."""
    row = {"count": 0, "seconds": 0.0, "worst": {}}
    row = summary["families"].setdefault(result["family"], row)
    row["count"] += 1
    row["seconds"] += result["seconds"]
    for check, error in result["errors"].items():
        row["worst"][check] = max(error, row["worst"].get(check, 0.0))
    if "check" in result:
        kept = ("family", "configuration", "check", "reason")
        summary["failures"].append({"number": number, **{k: result[k] for k in kept}})


def command(seed, number):
    """Return the command that repeats one configuration."""
    return f"python -m keras_xd_tests.sweep --seed {seed} --only {number}"


def page(summary):
    """Return the text of the page."""
    count = sum(row["count"] for row in summary["families"].values())
    seconds = sum(row["seconds"] for row in summary["families"].values())
    rows = [
        "# Random configurations of all layers",
        "",
        f"Written by `python -m keras_xd_tests.sweep --count {count} --seed {summary['seed']} "
        f"--page benchmarks/sweep.md`: {count} configurations, "
        f"{seconds / max(count, 1):.2f} s of one core each, "
        f"{len(summary['failures'])} of them with a failure.",
        "",
        "Every configuration was built, called with whole, single and empty batches (but where "
        "TensorFlow's convolution of an empty batch is wrong, which it is with oneDNN, and the "
        "layer is computed by it), compared as the columns say (but in float32 alone with Keras' "
        "convolutions of three axes with a stride above the kernel's size, some of which "
        "TensorFlow computes wrongly in float64, and in float64 alone with those of two or three "
        "axes, one channel, outputs of width 1 and a stride along the last axis but not along the "
        "one before, which it leaves unset in float32), saved, loaded and, where it is "
        "searched, finalized after its search had moved. The figures are the largest relative "
        "errors: of the outputs in float32 against Keras' layer and against NumPy; of the outputs "
        "in float64; of gradients against those of Keras' layer, and against central differences, "
        "both in float64; of the finalized layer; of the Tucker decomposition of all ranks; and "
        "of `mixed_float16` and `mixed_bfloat16` against float32.",
        "",
        "| family | configurations | " + " | ".join(COLUMNS) + " | failures |",
        "|---" * (len(COLUMNS) + 3) + "|",
    ]
    for family, row in summary["families"].items():
        cells = [_worst(row["worst"], starts) for starts in COLUMNS.values()]
        failed = sum(failure["family"] == family for failure in summary["failures"])
        rows.append(f"| {family} | {row['count']} | {' | '.join(cells)} | {failed} |")
    if summary["failures"]:
        rows += ["", "## Failures", ""]
        for failure in summary["failures"]:
            reason = failure["reason"].splitlines()[0][:200]
            rows.append(
                f"- `{command(summary['seed'], failure['number'])}` ({failure['family']}), "
                f"{failure['check']}: {reason}"
            )
    return "\n".join(rows) + "\n"


def _worst(worst, starts):
    errors = [error for check, error in worst.items() if check.startswith(starts)]
    return f"{max(errors):.1e}" if errors else ""
