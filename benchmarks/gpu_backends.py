"""Calls of layers on JAX and torch for benchmarks/gpu.py: their results, memory and programs."""

import contextlib
import os
import re

import numpy as np

MOVE = 0.05  # by which weights are moved away from their start, relative to their size
# What XLA's compiler asks of a device.
H200 = """
platform_name: "CUDA"
device_description_str: "NVIDIA H200"
dnn_version_info { major: 9 minor: 8 }
runtime_version { major: 12 minor: 9 }
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  l2_cache_size: 52428800
  memory_bandwidth: 4800000000000
  device_memory_size: 150000000000
}
"""
# Instructions of XLA that move no data.
FREE = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "iota", "after-all")


class Backend:
    """What both backends do alike."""

    def array(self, value):
        import keras

        return keras.ops.convert_to_tensor(value)

    def compiled_steps(self, layers, x):
        """Return `step` of layers that the backend can also compile, by name."""
        return {}

    def rounding(self, dtype):
        """Return by how much of itself a number may be rounded in products, on a CPU in sums."""
        if dtype == "mixed_bfloat16":
            return 2**-8
        return 2**-11 if self.is_gpu else 2**-20

    def reference(self, layer, values, x):
        """Return what `step` computes with weights, in float32 on the CPU, as arrays of NumPy."""
        import keras

        with keras.device("cpu"), self.exact_products():
            call, _ = self.step(built(layer(), x, values), x, True)
            return [keras.ops.convert_to_numpy(result) for result in call()]


class Jax(Backend):
    """Compiled calls and their memory on JAX."""

    placed: dict = {}

    def __init__(self):
        import jax

        self.jax = jax
        self.device = str(jax.devices()[0].device_kind)
        self.is_gpu = jax.devices()[0].platform == "gpu"
        self.version = f"jax {jax.__version__}"

    def exact_products(self):
        return self.jax.default_matmul_precision("highest")

    def compiled(self, function, *arguments):
        """Return a call of a function of arrays, and what its program is like."""
        kinds = self.jax.tree.map(self.jax.typeof, arguments)
        program = self.jax.jit(function, **self.placed).lower(*kinds).compile()
        memory = program.memory_analysis()
        sizes = ("temp_size", "argument_size", "output_size")
        found = kernels(program.as_text())
        found["MiB"] = sum(getattr(memory, f"{name}_in_bytes") for name in sizes) / 2**20
        return (lambda: program(*arguments)), found

    def step(self, layer, x, backward):
        """Return a call of a layer, and what its program is like.

        With `backward` the call returns the outputs and the gradients of the mean of their
        squares, by the inputs and by each weight.
        """
        fixed = [variable.value for variable in layer.non_trainable_variables]
        weights = [variable.value for variable in layer.trainable_variables]

        def outputs(weights, x):
            return layer.stateless_call(weights, fixed, x)[0]

        def loss(weights, x):
            y = outputs(weights, x)
            return self.jax.numpy.mean(y.astype("float32") ** 2), y

        def both(weights, x):
            gradients, y = self.jax.grad(loss, (0, 1), has_aux=True)(weights, x)
            return [y, gradients[1], *gradients[0]]

        return self.compiled(both if backward else outputs, weights, self.array(x))

    def wait(self, result):
        self.jax.block_until_ready(result)


class JaxForH200(Jax):
    """Programs that JAX's CUDA plugin compiles for an H200, on a machine without a GPU."""

    def __init__(self):
        # Else the plugin refuses to start, and XLA's compiler to choose products by their time.
        os.environ |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_gpu_autotune_level=0"}
        super().__init__()
        from jax.experimental import topologies

        kind = {"platform": "cuda", "topology": "1x1x1", "target_config": H200}
        device = topologies.get_topology_desc("h200", **kind).devices[0]
        place = self.jax.sharding.SingleDeviceSharding(device)
        self.placed = {"in_shardings": place, "out_shardings": place}
        self.device = f"for {device.device_kind}, without one"
        from keras_xd.core import devices

        devices.has_accelerator = lambda: True  # layers are made as for one


class Torch(Backend):
    """Calls and their memory on torch, without compilation unless a name says so."""

    def __init__(self):
        import torch

        self.torch = torch
        self.is_gpu = torch.cuda.is_available()
        self.device = torch.cuda.get_device_name() if self.is_gpu else "cpu"
        self.version = f"torch {torch.__version__}"
        torch.set_float32_matmul_precision("high")  # TF32, as JAX's default
        torch.backends.cudnn.allow_tf32 = True

    @contextlib.contextmanager
    def exact_products(self):
        self.torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            self.torch.set_float32_matmul_precision("high")

    def compiled(self, function, *arguments):
        return (lambda: function(*arguments)), self.memory(lambda: function(*arguments))

    def compiled_steps(self, layers, x):
        compiled = self.torch.compile
        return {
            f"{key}, torch.compile": self.step(layer, x, True, compiled(layer, fullgraph=True))
            for key, layer in layers.items()
        }

    def step(self, layer, x, backward, compiled=None):
        """Return a call of a layer, or of it compiled, as on JAX, and its memory."""
        run = layer if compiled is None else compiled
        x = self.array(x).requires_grad_(backward)
        weights = [variable.value for variable in layer.trainable_variables]

        def call():
            if not backward:
                with self.torch.no_grad():
                    return run(x)
            y = run(x)
            loss = y.float().square().mean()
            return [y.detach(), *self.torch.autograd.grad(loss, [x, *weights])]

        return call, self.memory(call)

    def memory(self, call):
        """Return the most that the device held in a call."""
        if not self.is_gpu:
            return {}
        call()
        self.torch.cuda.reset_peak_memory_stats()
        call()
        self.torch.cuda.synchronize()
        return {"MiB": self.torch.cuda.max_memory_allocated() / 2**20}

    def wait(self, result):
        del result
        if self.is_gpu:
            self.torch.cuda.synchronize()


def backend():
    """Return the backend that Keras uses, JAX or torch."""
    return {"jax": Jax, "torch": Torch}[os.environ["KERAS_BACKEND"]]()


def built(layer, x, values=None):
    """Return a layer built for inputs, with weights."""
    layer.build(x.shape)
    for variable, value in zip(layer.trainable_variables, values or [], strict=bool(values)):
        variable.assign(value)
    return layer


def moved_weights(layer):
    """Return the weights of a layer, each moved at random by a part of its size."""
    import keras

    rng = np.random.default_rng(0)
    values = [keras.ops.convert_to_numpy(weight) for weight in layer.trainable_variables]
    sizes = [MOVE * np.sqrt(np.mean(value**2)) for value in values]
    return [
        value + (size * rng.normal(size=value.shape)).astype(value.dtype)
        for value, size in zip(values, sizes, strict=True)
    ]


def error(found, expected):
    """Return `‖found − expected‖ / ‖expected‖` of a tensor and an array of NumPy."""
    import keras

    found = np.asarray(keras.ops.convert_to_numpy(found), "float64")
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def errors(found, expected):
    """Return the error of outputs and the largest of any gradient, NaN if one of them is."""
    outputs, *gradients = map(error, found, expected)
    return outputs, float(np.max(gradients))


def kernels(text):
    """Return how many kernels, copies and calls of the host an optimized program of XLA has."""
    computations = {}
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith(" "):
            name = "ENTRY" if line.startswith("ENTRY") else line.split()[0].lstrip("%")
            lines = computations[name] = []
        elif line.startswith(" "):
            lines.append(line)
    work = list(_work(computations, "ENTRY"))
    copies = [name for name in work if name.startswith("copy")]
    hosts = re.findall(r'custom_call_target="[^"]*callback[^"]*"', text)
    hosts += re.findall(r" (?:infeed|outfeed|send|recv)\(", text)
    return {"kernels": len(work), "copies": len(copies), "host calls": len(hosts)}


def _work(computations, name):
    """Generate the names of the instructions of a computation that move data."""
    for line in computations[name]:
        found = re.match(r"\s+(?:ROOT )?%?\S+ = .*?[\])}] ([a-z][\w-]*)\(", line)
        if found and found[1] == "call":
            yield from _work(computations, re.search(r"to_apply=%?([\w.-]+)", line)[1])
        elif found and found[1] not in FREE and not found[1].endswith("-done"):
            yield found[1]
