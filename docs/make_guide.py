"""Run the blocks of `pde_data.md` as one program: `python docs/make_guide.py [--redraw]`.

What they print is recorded in `pde_data.json` and written below them on the page, their pictures go
to `images`. `--redraw` writes the page from the record. Needs the extras `examples`, `deploy` and
`plot`, one thread and some minutes.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import platform
import re
import sys
import tempfile
import time

THREADS = {f"TF_NUM_{name}_THREADS": "1" for name in ("INTRAOP", "INTEROP")}
FOLDER = pathlib.Path(__file__).resolve().parent
PAGE, RECORD = FOLDER / "pde_data.md", FOLDER / "pde_data.json"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
SMALL = {
    "(60, 64, 20)": "(6, 16, 12)",
    "epochs, batch_size = 20, 20": "epochs, batch_size = 1, 20",
    "width=16": "width=4, blocks=1",
    '"xd4"': '"xd1"',
}


def run(text, replaced=()):
    """Run the blocks of a page in the working folder; return what each of them prints."""
    names, outputs = {"__name__": "__guide__"}, []
    sys.path.insert(0, str(FOLDER.parent / "examples"))
    try:
        for number, (code, _) in enumerate(BLOCK.findall(text)):
            for old, new in dict(replaced).items():
                code = code.replace(old, new)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, f"{PAGE.name}, block {number}", "exec"), names)
            outputs.append(printed.getvalue())
    finally:
        sys.path.remove(str(FOLDER.parent / "examples"))
    return outputs


def measured(text):
    """Return the record of a run, whose pictures are in the folder of the site's."""
    import keras
    import tensorflow as tf

    before, here = time.process_time(), pathlib.Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            outputs = run(text)
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


def written(text, record):
    """Return a page with what its blocks have printed, and what that took."""
    outputs = iter(record["outputs"])

    def block(match):
        printed = next(outputs)
        return f"```python\n{match[1]}```\n" + (f"\n```text\n{printed}```\n" if printed else "")

    line = (
        "Measured by `python docs/make_guide.py`, one seed: "
        f"{record['seconds']} s of {record['machine']}, {record['versions']}."
    )
    text = re.sub(r"^Measured by `python docs/make_guide.py`.*$", line, text, flags=re.MULTILINE)
    return BLOCK.sub(block, text)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--redraw", action="store_true", help="write the page from the record")
    if not parser.parse_args(arguments).redraw:
        record = json.dumps(measured(PAGE.read_text("utf-8")), indent=1, ensure_ascii=False)
        RECORD.write_text(record + "\n", encoding="utf-8")
    record = json.loads(RECORD.read_text("utf-8"))
    PAGE.write_text(written(PAGE.read_text("utf-8"), record), encoding="utf-8")
    print(*record["outputs"], sep="")


if __name__ == "__main__":
    os.environ.update({"MPLBACKEND": "Agg", **THREADS})
    main()
