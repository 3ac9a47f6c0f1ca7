"""All that tests compare of the backends, in one process for each, because importing takes seconds.

`KERAS_BACKEND=jax python -m keras_xd_tests.backend_results_program FOLDER` computes it on one
backend and prints it as JSON. The programs of all backends run at once and read each other's files
in the folder. TensorFlow and JAX have two devices, one of them for `device_program` alone; two
workers of TensorFlow are copies of its process.
"""

import contextlib
import json
import pathlib
import sys

import keras

from keras_xd_tests import backend_program, backend_spaces_program, programs
from keras_xd_tests.graph import runtimes_program
from keras_xd_tests.training import device_program

ON_TWO_DEVICES = {"tensorflow": "mirrored", "jax": "data_parallel"}


def split_cpu():
    """Make two devices of TensorFlow's only one, which is possible before it has computed."""
    import tensorflow as tf

    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)


@contextlib.contextmanager
def eager_functions():
    """Run TensorFlow's functions eagerly: a few steps take less time than to trace them.

    The suite's other tests trace them.
    """
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def main(folder):
    backend = keras.backend.backend()
    if backend == "tensorflow":
        workers = programs.fork(device_program.run_workers, folder / "workers")
        split_cpu()
    with eager_functions() if backend == "tensorflow" else contextlib.nullcontext():
        one = device_program.run_all("one") if backend in ON_TWO_DEVICES else None
        found = {
            "backend": backend,
            **backend_program.results(folder),
            "spaces": backend_spaces_program.results(),
        }
        if backend != "tensorflow":
            formats = folder / f"formats_{backend}"
            formats.mkdir()
            found["formats"] = runtimes_program.results(formats)
        found["saved"] = backend_program.saved_by(programs.BACKENDS, folder)
    if backend in ON_TWO_DEVICES:
        found["devices"] = {"one": one, "two": device_program.run_all(ON_TWO_DEVICES[backend])}
    if backend == "tensorflow":
        assert programs.wait(workers) == 0
        found["workers"] = json.loads((folder / "workers" / "found.json").read_text())
    return found


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(pathlib.Path(sys.argv[1]))))
