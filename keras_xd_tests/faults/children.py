"""Copies of this process that work, report, and are killed at a moment."""

import dataclasses
import json
import os
import select
import signal
import sys
import time
import traceback

# A job that does not end by then hangs.
LONGEST = 180.0
_STEP = 0.002


@dataclasses.dataclass
class Outcome:
    """What became of a copy of this process.

    Attributes:
        lines: what it printed, without its result and its error.
        status: 0, the number of its error, or minus the number of the signal that ended it.
        seconds: from its line `start` to its end, 0 without that line.
        result: what its function returned, `None` if it did not.
        error: `None`, or the dictionary of `described` of the error it ended with.
        hangs: whether it was ended because it took too long.
    """

    lines: list
    status: int
    seconds: float
    result: object = None
    error: dict | None = None
    hangs: bool = False

    @property
    def killed(self):
        """Whether it was killed at the moment that was asked for."""
        return self.status == -signal.SIGKILL and not self.hangs


def described(error):
    """Return the type, number and text of an error as JSON knows them."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    return {"kinds": kinds, "errno": getattr(error, "errno", None), "text": str(error)[:2000]}


def run(function, *arguments, kill_after=None, poll=None, longest=LONGEST):
    """Run a function in a copy of this process and return its `Outcome`.

    Only before TensorFlow has computed anything here: its threads are not copied. The function
    prints `start` when its work begins. What it starts itself is killed with it.

    Args:
        function: returns what JSON knows.
        *arguments: of the function.
        kill_after: seconds from `start` to SIGKILL, `None` for never.
        poll: `None`, or a function that is called again and again meanwhile.
        longest: seconds after which the copy is ended.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _be_child(function, arguments, writing)
    os.close(writing)
    try:
        return _watch(child, reading, kill_after, poll, longest)
    finally:
        os.close(reading)


def _be_child(function, arguments, writing):
    status = 1
    try:
        os.setpgid(0, 0)
        os.dup2(writing, 1)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
        result = function(*arguments)
        print("RESULT " + json.dumps(result))
        status = 0
    except BaseException as error:
        print("ERROR " + json.dumps({**described(error), "trace": traceback.format_exc()[-3000:]}))
    finally:
        os._exit(status)


def _watch(child, reading, kill_after, poll, longest):
    begin, start, content = time.monotonic(), None, b""
    hangs, moment = False, begin + longest
    while True:
        # Without a poll it sleeps until something is printed or the moment has come.
        rest = max(0.0, moment - time.monotonic())
        ready, _, _ = select.select([reading], [], [], min(rest, _STEP) if poll else rest)
        if ready:
            piece = os.read(reading, 1 << 16)
            if not piece:
                break
            content += piece
            if start is None and content.startswith(b"start\n"):
                start = time.monotonic()
                if kill_after is not None:
                    moment = start + kill_after
        if poll:
            poll()
        if time.monotonic() >= moment:
            hangs = start is None or kill_after is None
            _kill(child)
            moment = time.monotonic() + longest
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seconds = time.monotonic() - start if start else 0.0
    lines = content.decode(errors="replace").split("\n")
    outcome = Outcome([], status, seconds, hangs=hangs)
    for line in lines[:-1]:  # the last one may be cut off
        kind, _, rest = line.partition(" ")
        if kind == "RESULT":
            outcome.result = json.loads(rest)
        elif kind == "ERROR":
            outcome.error = json.loads(rest)
        else:
            outcome.lines.append(line)
    return outcome


def _kill(child):
    """Kill a copy with all that it started."""
    for kill in (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
