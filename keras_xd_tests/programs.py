"""Programs of the tests that need a process of their own, and what they print."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).parent.parent
BACKENDS = ("tensorflow", "jax", "torch")


def start(module, *arguments, backend="tensorflow", **environment):
    """Start `python -m keras_xd_tests.<module>` on the CPU with a backend."""
    command = [sys.executable, "-m", f"keras_xd_tests.{module}", *map(str, arguments)]
    settings = {"KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **settings, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def stop(process):
    """Kill a program that runs, with the copies that it made of itself."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def result(process):
    """Return what a program printed as JSON; fail with its errors if it did."""
    try:
        output, errors = process.communicate(timeout=540)
    except BaseException:
        stop(process)
        raise
    assert process.returncode == 0, errors[-3000:]
    lines = [line for line in output.splitlines() if line.startswith("RESULT ")]
    return json.loads(lines[-1].removeprefix("RESULT "))


def run(module, *arguments, **options):
    return result(start(module, *arguments, **options))


def on_all_backends(module, *arguments):
    """Return what a program prints on each backend, by its name; all run at once."""
    flags = "--xla_force_host_platform_device_count=2"  # for JAX
    processes = {
        name: start(module, *arguments, backend=name, XLA_FLAGS=flags) for name in BACKENDS
    }
    try:
        return {name: result(process) for name, process in processes.items()}
    finally:
        for process in processes.values():
            stop(process)


def free_ports(count):
    """Return ports that nothing listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def fork(function, *arguments, **environment):
    """Run a function in a copy of this process, which imports nothing again; return its number.

    Only before TensorFlow has computed anything: its threads are not copied.
    """
    child = os.fork()
    if not child:
        status = 1
        os.environ.update(environment)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        try:
            function(*arguments)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def wait(child):
    """Wait for a copy of this process; return its status."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(function, *arguments):
    """Run a function in a copy of this process, wait for it and return its status."""
    return wait(fork(function, *arguments))


def returned(function):
    """Return what a function returns in a copy of this process, as JSON has it."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "returned.json")
        status = in_child(lambda: path.write_text(json.dumps(function())))
        assert status == 0, function.__name__
        return json.loads(path.read_text())
