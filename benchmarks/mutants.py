"""Which tests fail where the package is changed: mutations of its maths and logic.

    python benchmarks/mutants.py [--only NAME …] [--survivors] [--again] [--list] [--dry-run]

The mutations are those of benchmarks/mutants.json: a file, a text that stands in it once, the text
to put in its place, what that means, the nearest test files, `select` where pytest's `-k` takes
some of their tests only, and `explained` where no test can fail, with the reason.

One mutation at a time is made in a copy of the tree and its tests are run by `pytest -x` in a copy
of this process, which has imported TensorFlow and Keras but not the package. It is *killed* if one
of them fails, or if they take more than `--limit` seconds, and *survives* if all pass. At the end
the tests that have failed are run without a mutation; what was killed by one that fails then, too,
*was not judged*.

What is found is kept in benchmarks/mutants_found.json after each mutation, so a run that was
stopped goes on where it was. Mutations that have changed since are judged again; `--only` judges
those named again, `--survivors` those that were not killed and `--again` all.
"""

import argparse
import collections
import compileall
import hashlib
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOUND = "mutants_found.json"
KILLED, SURVIVED = "killed", "survived"
NOT_APPLIED, NOT_JUDGED = "could not be applied", "was not judged"
IMPORTED = ("pytest", "scipy.stats", "tensorflow", "keras", "keras_tuner")
SETTINGS = {
    "CUDA_VISIBLE_DEVICES": "",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_ENABLE_ONEDNN_OPTS": "1",  # without it some processors have no channels first
    "MPLBACKEND": "Agg",
}
LEFT_OUT = (".*", "__pycache__", "build", "dist", "site", "*.egg-info", "searches")
OPTIONS = ("-q", "-n0", "-p", "no:cacheprovider", "--tb=line")
TESTS_FAILED, INTERRUPTED = 1, 2  # exit statuses of pytest; the second one of a failing import
CRASHED = 70


def mutated(text, mutation):
    """Return the text of a file with a mutation, `None` if that does not fit."""
    if text.count(mutation["old"]) != 1:
        return None
    return text.replace(mutation["old"], mutation["new"])


def copy_of(tree, folder):
    """Copy a tree, with the bytecode of its modules, and return the path of the copy."""
    copy = pathlib.Path(folder) / "tree"
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
    # The tests write none: two versions of a file within one second would look alike.
    compileall.compile_dir(copy, quiet=2)
    return copy


def run_tests(tree, words, limit):
    """Run pytest in a copy of this process."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        child = os.fork()
        if not child:
            _run_here(tree, [*OPTIONS, *words], output.fileno())
        done, end = 0, time.monotonic() + limit
        while not done:
            late = time.monotonic() > end
            time.sleep(0.05)
            done, code = os.waitpid(child, os.WNOHANG)
            if late and not done:
                os.killpg(child, signal.SIGKILL)  # with the programs that tests have started
                os.waitpid(child, 0)
                break
        status = os.waitstatus_to_exitcode(code) if done else None
        output.seek(0)
        return status, output.read()


def _run_here(tree, words, output):
    """Run pytest in this process, a copy, and end it."""
    status = CRASHED
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(tree)
        sys.dont_write_bytecode = True
        os.environ |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.path.insert(0, str(tree))
        status = int(importlib.import_module("pytest").main(words))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def failures(output):
    """Return the tests, or files, that pytest says have failed."""
    found = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return [name for name in found if name.split("::")[0].endswith(".py")]


def judged(tree, mutation, limit):
    """Return what is found of a mutation in a copy of the tree, `{"result": …, "by": …, …}`."""
    path = tree / mutation["file"]
    text, times = path.read_text(encoding="utf-8"), path.stat()
    changed = mutated(text, mutation)
    if changed is None:
        return record(mutation, NOT_APPLIED)
    started = time.monotonic()
    path.write_text(changed, encoding="utf-8")
    # Python goes by whole seconds and the size to tell whether bytecode is that of a file.
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 10**10))
    try:
        status, output = run_tests(tree, ["-x", *words_of(mutation)], limit)
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    seconds = time.monotonic() - started
    if status == 0:
        return record(mutation, SURVIVED, "", seconds)
    if status is None:
        return record(mutation, KILLED, f"more than {limit:g} s", seconds)
    first = next(iter(failures(output)), "")
    if status < 0 or (status in (TESTS_FAILED, INTERRUPTED) and first):
        return record(mutation, KILLED, first or "the process dies", seconds)
    return record(mutation, NOT_JUDGED, " ".join(output.split())[-200:], seconds)


def words_of(mutation):
    """Return pytest's arguments for the tests of a mutation."""
    select = mutation.get("select")
    return [*(["-k", select] if select else []), *mutation["tests"]]


def record(mutation, result, by="", seconds=0.0):
    """Return what is kept of a mutation."""
    return {"result": result, "by": by, "seconds": round(seconds, 1), "of": digest(mutation)}


def digest(mutation):
    """Return a text that is another one for a mutation that was changed."""
    parts = [mutation.get(name) for name in ("file", "old", "new", "tests", "select")]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=6).hexdigest()


def control(tree, mutations, known, limit):
    """Run the tests that have failed without a mutation; take back what fails then too."""
    found, passed = known["found"], known["passed"]
    for mutation in mutations:
        by = found.get(mutation["name"], {}).get("by", "")
        if by and not by.split("::")[0].endswith(".py") and mutation["name"] not in passed:
            status, _ = run_tests(tree, words_of(mutation), limit)
            passed[mutation["name"]] = status == 0
    killed = [r["by"] for r in found.values() if r["result"] == KILLED]
    new = sorted({by for by in killed if by not in passed and by.split("::")[0].endswith(".py")})
    for start in range(0, len(new), 40):
        tests = new[start : start + 40]
        status, output = run_tests(tree, tests, 10 * limit)
        failed = set(failures(output))
        if status not in (0, TESTS_FAILED):  # nothing is known of these
            failed = set(tests)
            print(output[-2000:], file=sys.stderr)
        passed |= {test: test not in failed for test in tests}
    for name, one in found.items():
        if one["result"] == KILLED and not passed.get(one["by"], passed.get(name, True)):
            one["result"] = NOT_JUDGED


def read_known(path, mutations):
    """Return what is known, `{"passed": …, "found": …}`, of mutations that are as they were."""
    known = {"passed": {}, "found": {}}
    if path.exists():
        known |= json.loads(path.read_text(encoding="utf-8"))
    of = {mutation["name"]: digest(mutation) for mutation in mutations}
    known["found"] = {k: v for k, v in known["found"].items() if of.get(k) == v["of"]}
    return known


def write(path, text):
    """Write a file in one go, so that a run that is stopped leaves a whole one."""
    other = path.with_suffix(".part")
    other.write_text(text, encoding="utf-8")
    other.replace(path)


def summary(mutations, found):
    """Return the lines of how many mutations were killed, and of each that was not."""
    known = [(m, found[m["name"]]) for m in mutations if m["name"] in found]
    counts = collections.Counter(one["result"] for _, one in known)
    lines = [f"{len(known)} mutations: {', '.join(f'{n} {name}' for name, n in counts.items())}"]
    for mutation, one in known:
        if one["result"] != KILLED:
            why = mutation.get("explained", one["by"])
            lines.append(f"{mutation['file']}: {mutation['meaning']}: {one['result']}, {why}")
    return lines


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="judge these, again")
    parser.add_argument("--survivors", action="store_true", help="again what was not killed")
    parser.add_argument("--again", action="store_true", help="judge all again")
    parser.add_argument("--list", action="store_true", help="print the mutations")
    parser.add_argument("--dry-run", action="store_true", help="write no files")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each mutation")
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT, help="what is mutated")
    parser.add_argument(
        "--mutations", type=pathlib.Path, default=pathlib.Path(__file__).with_suffix(".json")
    )
    parser.add_argument(
        "--imported", nargs="*", default=IMPORTED, help="modules to import once for all tests"
    )
    return parser.parse_args(words)


def chosen(options, mutations, found):
    """Return the mutations to judge."""
    names = [mutation["name"] for mutation in mutations]
    if set(options.only or ()) - set(names):
        raise ValueError(f"`--only` takes names of mutations. Received: {options.only}")
    if options.only:
        return [mutation for mutation in mutations if mutation["name"] in options.only]

    def wanted(name):
        alive = name not in found or found[name]["result"] != KILLED
        return options.again or name not in found or (options.survivors and alive)

    return [mutation for mutation in mutations if wanted(mutation["name"])]


def main(words=None):
    options = arguments(words)
    mutations = json.loads(options.mutations.read_text(encoding="utf-8"))
    results = options.mutations.with_name(FOUND)
    known = read_known(results, mutations)
    found = known["found"]
    if options.list:
        for mutation in mutations:
            result = found.get(mutation["name"], {"result": "not judged yet"})["result"]
            print(f"{mutation['name']}: {mutation['meaning']} ({result})")
        return known
    todo = chosen(options, mutations, found)
    os.environ.update({name: os.environ.get(name, value) for name, value in SETTINGS.items()})
    for name in options.imported:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_of(options.tree, folder)
        for number, mutation in enumerate(todo, start=1):
            one = found[mutation["name"]] = judged(tree, mutation, options.limit)
            told = f"{one['result']} {one['by']} ({one['seconds']} s)"
            print(f"{number}/{len(todo)} {mutation['name']}: {told}", flush=True)
            if not options.dry_run:
                write(results, json.dumps(known, indent=1, ensure_ascii=False) + "\n")
        control(tree, mutations, known, options.limit)
    if not options.dry_run:
        write(results, json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    print("\n".join(summary(mutations, found)))
    return known


if __name__ == "__main__":
    main()
