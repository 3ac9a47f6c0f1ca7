"""A lock is held by one process, and free when that one is killed."""

import os
import signal
import time

import pytest

from keras_xd.core import locking
from keras_xd_tests import programs


def hold(path, ready):
    with locking.locked(path, "a search"):
        ready.touch()
        time.sleep(60)


def test_a_lock_is_held_until_its_process_is_killed(tmp_path):
    path, ready = tmp_path / "folder" / "lock", tmp_path / "ready"
    process = programs.fork(hold, path, ready)
    while not ready.exists():
        time.sleep(0.01)
    with pytest.raises(ValueError, match=r"run a search: wait.*lock', held by process \d+ on "):
        with locking.locked(path, "a search"):
            pass
    os.kill(process if isinstance(process, int) else process.pid, signal.SIGKILL)
    programs.wait(process)
    with locking.locked(path, "a search"):
        pass
