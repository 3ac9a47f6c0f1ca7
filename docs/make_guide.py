"""Run the blocks of the guides as programs, and write their notebooks.

    python docs/make_guide.py [NAMES] [--redraw]

What the blocks of `docs/NAME.md` print is recorded in `NAME.json` and written below them on the
page, their pictures go to `images`, and the page becomes `notebooks/NAME.ipynb`. `--redraw` writes
pages and notebooks from the records. Needs the extras `examples`, `deploy`, `plot` and `docs`, one
thread and some minutes.
"""

import argparse
import configparser
import contextlib
import io
import json
import os
import pathlib
import platform
import posixpath
import re
import sys
import tempfile
import time

import jupytext
import nbformat

THREADS = {f"TF_NUM_{name}_THREADS": "1" for name in ("INTRAOP", "INTEROP")}
FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent
PARTS = "slice(0, {0}), slice({0}, 1400), slice(1400, None)"
# Of two batches each: XLA compiles for each size of a batch.
SMALL_PARTS = "slice(0, 64), slice(64, 128), slice(128, 192)"
# Without state for each weight, a graph is small, and Keras makes it once.
ADAM, SGD = (f"return keras.optimizers.{name}(" for name in ("Adam", "SGD"))
# The guides, and what makes each of them short enough for a test: `{text: its replacement}`.
GUIDES = {
    "pde_data": {
        "(60, 64, 20)": "(6, 16, 12)",
        "epochs, batch_size = 20, 20": "epochs, batch_size = 1, 55",
        "width=16": "width=4, blocks=1",
        '"xd4"': '"xd1"',
        "keras.optimizers.Adam(": "keras.optimizers.SGD(",
    },
    "masked_models": {
        "epochs, batch_size = 20, 25": "epochs, batch_size = 1, 32",
        PARTS.format(1200): SMALL_PARTS,
        "network(8)": "network(2)",
        ADAM: SGD,
        "in range(2)": "in range(1)",
    },
    "unknown_order": {
        "num_samples = 5000": "num_samples = 232",
        "[3200, 4000]": "[100, 200]",
        "epochs, batch_size = 40": "epochs, batch_size = 1",
        "depth=3": 'depth=1, only="conv1"',
        "random_state=0": "random_state=0, max_iter=3",
        ADAM: SGD,
    },
    "own_cnn": {
        "epochs, batch_size = 40, 25": "epochs, batch_size = 2, 32",
        PARTS.format(1200): SMALL_PARTS,
        '"pooling"), depth=3': '"pooling"), depth=1, only="conv1|pool1"',
        "(128, 128)": "(8, 8)",
        ADAM: SGD,
    },
    "sequences": {
        "windows, steps = 2400": "windows, steps = 60",
        "epochs, batch_size = 20, 25": "epochs, batch_size = 1, 20",
        "channels=32": "channels=4",
        "levels=2": "levels=1",
        "GRU(64": "GRU(4",
        "rewrite(backbone": 'rewrite(backbone, only="level1_conv1"',
        ADAM: SGD,
    },
    "sensor_series": {
        "length=126": "length=42",
        '("TEST", 60)': '("TEST", 30)',
        "updates, batch_size = 300": "updates, batch_size = 3",
        "(16, 32, 16)": "(4, 4, 4)",
        "rewrite(backbone": 'rewrite(backbone, only="conv1"',
        "(4, 8, 4))": '(4, 8, 4)), only="conv1"',
        ADAM: SGD,
    },
    "tuner": {
        'searched("found", functions, trials=16)': 'searched("found", functions, trials=2)',
        "grammar.Grammar(text), trials=16": "grammar.Grammar(text), trials=1",
        "epochs=5": "epochs=1",
        "keras.optimizers.Adam(": "keras.optimizers.SGD(",
        PARTS.format(1100): SMALL_PARTS,
    },
}
BLOCK = re.compile(r"^```python\n(.*?)^```\n(\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
BADGE = re.compile(r"^\[Open in Colab\].*\n.*\[notebook\].*\n\n", re.MULTILINE)
MEASURED = re.compile(r"^Measured by `python docs/make_guide.py.*$", re.MULTILINE)
INSTALL = """\
# In Colab: the package with the data sets of its examples. Elsewhere, install it and start the
# notebook in the folder `examples` of a clone.
!git clone --depth 1 {url}
%pip install -q "./keras_xd[examples,plot,deploy]"
%cd keras_xd/examples"""


def repository():
    """Return the address of the repository."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    return settings["metadata"]["url"]


def code_of(notebook):
    """Return the code of the cells of a notebook, but of the one that installs the package."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [cell.source for cell in cells if "install" not in cell.metadata.get("tags", ())]


def run(blocks, replaced=()):
    """Run blocks of code as one program in the working folder; return what each of them prints."""
    names, outputs = {"__name__": "__guide__"}, []
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        for number, code in enumerate(blocks):
            for old, new in dict(replaced).items():
                code = code.replace(old, new)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, f"block {number}", "exec"), names)
            outputs.append(printed.getvalue())
    finally:
        sys.path.remove(str(ROOT / "examples"))
    return outputs


def measured(text):
    """Return the record of a run, whose pictures are in the folder of the site's."""
    import keras
    import tensorflow as tf

    before, here = time.process_time(), pathlib.Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            outputs = run([code for code, _ in BLOCK.findall(text)])
        finally:
            os.chdir(here)
        for path in pathlib.Path(folder).glob("*.png"):
            (FOLDER / "images" / path.name).write_bytes(path.read_bytes())
    return {
        "outputs": outputs,
        "seconds": round(time.process_time() - before),
        "versions": f"keras {keras.__version__}, tensorflow {tf.__version__}",
        "machine": f"one thread of {platform.machine()}",
    }


def written(name, text, record):
    """Return a page with what its blocks have printed, and what that took."""
    outputs = iter(record["outputs"])

    def block(match):
        printed = next(outputs)
        return f"```python\n{match[1]}```\n" + (f"\n```text\n{printed}```\n" if printed else "")

    line = (
        f"Measured by `python docs/make_guide.py {name}`, one seed: "
        f"{record['seconds']} s of {record['machine']}, {record['versions']}."
    )
    return BLOCK.sub(block, MEASURED.sub(line, text))


def notebook_of(text, record):
    """Return a page as a notebook: a cell for each block, with what it has printed."""
    url = repository()
    raw = url.replace("github.com", "raw.githubusercontent.com")

    def link(match):
        path = posixpath.normpath(f"docs/{match[2]}")
        start = f"{raw}/main" if path.endswith(("png", "svg")) else f"{url}/blob/main"
        return f"{match[1]}{start}/{path}{match[3]}"

    text = LINK.sub(link, BLOCK.sub(r"```python\n\1```\n", BADGE.sub("", text)))
    notebook = jupytext.reads(text, "md")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell, printed in zip(code, record["outputs"], strict=True):
        if printed:
            cell.outputs = [nbformat.v4.new_output("stream", text=printed)]
    install = nbformat.v4.new_code_cell(INSTALL.format(url=url), metadata={"tags": ["install"]})
    notebook.cells.insert(1, install)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # drawn at random otherwise
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    return notebook


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAMES", help="guides, by default all")
    parser.add_argument("--redraw", action="store_true", help="write pages from the records")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(GUIDES))
    if unknown:
        parser.error(f"no such guide: {unknown}; there are {sorted(GUIDES)}")
    for name in options.names or GUIDES:
        page, path = FOLDER / f"{name}.md", FOLDER / f"{name}.json"
        text = page.read_text("utf-8")
        if not options.redraw:
            record = json.dumps(measured(text), indent=1, ensure_ascii=False)
            path.write_text(record + "\n", encoding="utf-8")
        record = json.loads(path.read_text("utf-8"))
        text = written(name, text, record)
        page.write_text(text, encoding="utf-8")
        nbformat.write(notebook_of(text, record), ROOT / "notebooks" / f"{name}.ipynb")
        print(f"# {name}", *record["outputs"], sep="\n")


if __name__ == "__main__":
    os.environ.update({"MPLBACKEND": "Agg", **THREADS})
    main()
