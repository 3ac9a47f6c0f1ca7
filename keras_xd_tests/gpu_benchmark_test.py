"""The benchmark of layers on an accelerator runs in a small setting, on the CPU."""

import os
import subprocess
import sys

import numpy as np
import pytest

from keras_xd_tests import example_scripts, programs

gpu = example_scripts.load("gpu", example_scripts.BENCHMARKS)
gpu_backends = example_scripts.load("gpu_backends", example_scripts.BENCHMARKS)

PROGRAM = """HloModule jit_f, entry_computation_layout={(f32[2,2]{1,0})->f32[2,2]{1,0}}

%inside (a: f32[2,2]) -> f32[2,2] {
  %a = f32[2,2]{1,0} parameter(0)
  ROOT %b = f32[2,2]{1,0} copy(f32[2,2]{1,0} %a)
}

%launched (a: f32[2,2]) -> f32[2,2] {
  %a = f32[2,2]{1,0} parameter(0)
  %first = f32[2,2]{1,0} fusion(%a), kind=kLoop, calls=%inside
  ROOT %second = f32[2,2]{1,0} fusion(%first), kind=kLoop, calls=%inside
}

ENTRY %main (x: f32[2,2]) -> (f32[2,2], f32[]) {
  %x = f32[2,2]{1,0} parameter(0)
  %c = f32[] constant(0)
  %copy.1 = f32[2,2]{0,1} copy(f32[2,2]{1,0} %x), metadata={op_name="jit(f)/transpose"}
  %dot = f32[2,2]{1,0} dot(f32[2,2]{1,0} %x, f32[2,2]{0,1} %copy.1), lhs_contracting_dims={1}
  %call = f32[2,2]{1,0} custom-call(%dot), custom_call_target="xla_ffi_python_cpu_callback"
  %add = (f32[2,2]{1,0}, f32[]) fusion(%call), kind=kLoop, calls=%inside
  %graph = f32[2,2]{1,0} call(f32[2,2]{1,0} %copy.1), to_apply=%launched
  %start = (f32[2,2]{1,0}, f32[2,2]{1,0}) copy-start(%graph)
  %done = f32[2,2]{1,0} copy-done(%start)
  ROOT %out = (f32[2,2]{1,0}, f32[]) tuple(%add, %c)
}
"""


def test_kernels_of_a_program():
    found = gpu_backends.kernels(PROGRAM)
    assert found == {"kernels": 7, "copies": 2, "host calls": 1}


def test_errors_are_relative_and_not_a_number_if_a_gradient_is():
    expected = [np.ones((2, 2)), np.full(3, 2.0), np.array([3.0, 4.0])]
    found = [expected[0] * 1.01, expected[1], expected[2] + np.array([0.0, 0.5])]
    assert gpu_backends.errors(found, expected) == pytest.approx((0.01, 0.1))
    found[1] = np.array([2.0, np.nan, 2.0])
    assert np.isnan(gpu_backends.errors(found, expected)[1])


# As on a machine that has a GPU and the backend, but not TensorFlow. Rounds are short.
WITHOUT_TENSORFLOW = """
import os, sys
backends = {"tensorflow", "jax"} - {os.environ["KERAS_BACKEND"]}
sys.modules.update(dict.fromkeys(backends))
sys.path.insert(0, "benchmarks")
import gpu
gpu.LONGEST_ROUND = 0
gpu.main()
"""


@pytest.mark.backends
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_small_setting(backend, tmp_path):
    page = tmp_path / "page.md"
    words = "--cases tiny --rounds 1 --parts layers --output"
    script = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", WITHOUT_TENSORFLOW]
    found = subprocess.run(
        [*script, *words.split(), page],
        cwd=programs.ROOT,
        env={**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    assert page.read_text(encoding="utf-8") == found.stdout
    assert "on a CPU; on a GPU it was not measured" in found.stdout
    assert str(tmp_path) not in found.stdout
    for name in ["XDConv", *["XDConv, torch.compile"] * (backend == "torch")]:
        rows = [line.split(" | ") for line in found.stdout.splitlines() if f"| {name} |" in line]
        # In float32 the same numbers on the CPU, in bfloat16 rounded ones.
        exact, rounded = ([float(cell) for cell in row[6:8]] for row in rows)
        assert [row[1] for row in rows] == ["float32", "mixed_bfloat16"]
        assert max(exact) < 1e-6 and min(rounded) > 1e-4 and max(rounded) < 1e-2
    assert "| tiny | finalized |" in found.stdout
