"""Runs the very CUDA source of a kernel on the processor: a thread for each thread of a block.

Only what the processor has no word for is replaced: the built-in variables, the barrier and the
conversion of half precision. Blocks run one after another. Needs g++ with C++20.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.ops.kernels.group_norm_source import source

HAS_COMPILER = shutil.which("g++") is not None

_KERNELS = ("group_moments", "scale_and_shift", "normalise")

_PRELUDE = """
#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>
#define __device__
#define __global__
#define __shared__
#define __launch_bounds__(threads)
#define __expf expf
#define __fdividef(a, b) ((a) / (b))
#define __syncthreads() gate->arrive_and_wait()
static int min(int a, int b) { return a < b ? a : b; }
struct Index { unsigned x, y, z; };
static thread_local Index threadIdx, blockIdx;
static Index blockDim, gridDim;
static std::barrier<> *gate;
alignas(16) char memory[49152];
static float __uint_as_float(unsigned bits) { float v; memcpy(&v, &bits, 4); return v; }
static unsigned __float_as_uint(float value) { unsigned v; memcpy(&v, &value, 4); return v; }
"""

_HALF = """
inline float to_float(Scalar value) { _Float16 h; memcpy(&h, &value, 2); return (float)h; }
inline Scalar to_scalar(float value) {
  _Float16 h = (_Float16)value; Scalar s; memcpy(&s, &h, 2); return s;
}
"""

_LAUNCH = """
static void call(int which, void **a) {
#define A(type, i) (*(type *)a[i])
  if (which == 0)
    group_moments(A(const Scalar *, 0), A(View, 1), A(Shape, 2), A(float *, 3), A(float *, 4));
  if (which == 1)
    scale_and_shift(A(const float *, 0), A(const float *, 1), A(Shape, 2), A(int, 3),
                    A(const float *, 4), A(const float *, 5), A(float, 6), A(float *, 7),
                    A(float *, 8));
  if (which == 2)
    normalise(A(const Scalar *, 0), A(View, 1), A(Scalar *, 2), A(View, 3), A(Shape, 4),
              A(const float *, 5), A(const float *, 6), A(int, 7));
}
extern "C" void launch(int which, const unsigned *d, void **arguments) {
  gridDim = {d[0], d[1], d[2]};
  blockDim = {d[3], d[4], d[5]};
  unsigned count = d[3] * d[4] * d[5];
  std::barrier<> barrier(count);
  gate = &barrier;
  std::vector<std::thread> threads;
  for (unsigned n = 0; n < count; n++) {
    threads.emplace_back([=] {
      threadIdx = {n % d[3], n / d[3] % d[4], n / d[3] / d[4]};
      for (unsigned y = 0; y < d[1]; y++)
        for (unsigned x = 0; x < d[0]; x++) {
          blockIdx = {x, y, 0};
          call(which, arguments);
          gate->arrive_and_wait();
        }
    });
  }
  for (auto &thread : threads) thread.join();
}
"""


class HostModule:
    """Stands in for driver.Module: the same launches, on the processor.

    Attributes:
        launched: Names of the launches so far.
    """

    def __init__(self, folder: Path, dtype: str, vector: int, group: int) -> None:
        text = _PRELUDE + _on_host(dtype) + _LAUNCH
        options = [f"-DVECTOR={vector}", f"-DGROUP={group}"]
        name = hashlib.sha256("\0".join([text, *options]).encode()).hexdigest()[:16]
        library = folder / f"{name}.so"
        if not library.exists():
            (folder / f"{name}.cpp").write_text(text)
            command = ["g++", "-std=c++20", "-shared", "-fPIC", "-pthread", "-w"]
            files = [str(folder / f"{name}.cpp"), "-o", str(library)]
            subprocess.run([*command, *options, *files], check=True)
        self._library = ctypes.CDLL(str(library))
        self.launched: list[str] = []

    def launch(self, name: str, grid: Any, arguments: Sequence[Any]) -> None:
        blocks, threads, shared = grid
        assert shared <= 49152
        assert threads[0] * threads[1] * threads[2] <= 512
        self.launched.append(name)
        sizes = (ctypes.c_uint * 6)(*blocks, *threads)
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self._library.launch(_KERNELS.index(name), sizes, pointers)


def _on_host(dtype: str) -> str:
    """The source, its conversions of half precision replaced by the processor's."""
    text = source(dtype)
    if dtype != "float16":
        return text
    start, end = text.index("__device__ inline float to_float"), text.index("#define SUB")
    return text[:start] + _HALF + text[end:]
