"""The benchmark of layers on an accelerator runs in a small setting, on the CPU."""

import importlib
import os
import subprocess
import sys

import pytest

from keras_xd_tests import example_scripts, programs

with example_scripts.on_path(example_scripts.BENCHMARKS):
    gpu = importlib.import_module("gpu")

PROGRAM = """HloModule jit_f, entry_computation_layout={(f32[2,2]{1,0})->f32[2,2]{1,0}}

%inside (a: f32[2,2]) -> f32[2,2] {
  %a = f32[2,2]{1,0} parameter(0)
  ROOT %b = f32[2,2]{1,0} copy(f32[2,2]{1,0} %a)
}

ENTRY %main (x: f32[2,2]) -> (f32[2,2], f32[]) {
  %x = f32[2,2]{1,0} parameter(0)
  %c = f32[] constant(0)
  %copy.1 = f32[2,2]{0,1} copy(f32[2,2]{1,0} %x), metadata={op_name="jit(f)/transpose"}
  %dot = f32[2,2]{1,0} dot(f32[2,2]{1,0} %x, f32[2,2]{0,1} %copy.1), lhs_contracting_dims={1}
  %call = f32[2,2]{1,0} custom-call(%dot), custom_call_target="xla_ffi_python_cpu_callback"
  %add = (f32[2,2]{1,0}, f32[]) fusion(%call), kind=kLoop, calls=%inside
  ROOT %out = (f32[2,2]{1,0}, f32[]) tuple(%add, %c)
}
"""


def test_kernels_of_a_program():
    assert gpu.kernels(PROGRAM) == {"kernels": 4, "copies": 1, "host calls": 1}


class Clock:
    """Seconds that pass as calls say."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def wait(self, result):
        pass


def test_calls_take_turns(monkeypatch):
    clock, order = Clock(), []
    monkeypatch.setattr(gpu, "time", clock)

    def call(name, seconds):
        order.append(name)
        clock.now += seconds

    calls = {"slow": lambda: call("slow", 0.2), "fast": lambda: call("fast", 0.05)}
    taken = gpu.medians(clock, calls, rounds=2)
    assert taken == pytest.approx({"slow": 200, "fast": 50})
    assert order[-12:] == ["slow", *["fast"] * 5] * 2


@pytest.mark.backends
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_small_setting(backend):
    words = "--cases tiny --rounds 1 --batch 2 --channels 2 --steps 1 --dry-run --parts"
    found = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "benchmarks/gpu.py", *words.split()],
        cwd=programs.ROOT,
        env={**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    assert "on a CPU; on a GPU it was not measured" in found.stdout
    for row in ("mixed_bfloat16 | XDConv", "| tiny | finalized |"):
        assert row in found.stdout
