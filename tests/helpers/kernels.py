"""CUDA kernels on the processor: the source compiled with g++, and the pixels of a grid."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.ops.kernels import (
    blocks,
    build,
    channel_norm,
    grids,
    group_norm,
    heads,
    quantize,
    token_rows,
)
from engine.ops.kernels.build import KernelFamily
from engine.ops.kernels.group_norm import GroupNormGrid

_PRELUDE = """
#include <algorithm>
#include <cmath>
#include <cstring>
#include <ucontext.h>
#include <vector>
#define __device__
#define __global__
#define __shared__
#define __launch_bounds__(...)
#define __expf expf
#define __fdividef(a, b) ((a) / (b))
#define __syncthreads() yield_(AT_BARRIER)
#define __syncwarp()
static int min(int a, int b) { return a < b ? a : b; }
static int max(int a, int b) { return a < b ? b : a; }
struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;
alignas(16) char memory[65536];
enum State { READY, AT_BARRIER, ENDED };
struct Thread { ucontext_t context; Index index; State state; char stack[65536]; };
static Thread *running_;
static ucontext_t scheduler_;
static void yield_(State state) {
  running_->state = state;
  swapcontext(&running_->context, &scheduler_);
}
static float __uint_as_float(unsigned bits) { float v; memcpy(&v, &bits, 4); return v; }
static unsigned __float_as_uint(float value) { unsigned v; memcpy(&v, &value, 4); return v; }
static float exchanged_[1024];
static float __shfl_xor_sync(unsigned, float value, int away) {  // all threads of the warp call it
  unsigned mine = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  exchanged_[mine] = value;
  yield_(READY);
  float other = exchanged_[mine / 32 * 32 + (mine % 32 ^ away)];
  yield_(READY);
  return other;
}
static void cvt_f32_f16(float &to, unsigned short from) {
  _Float16 half;
  memcpy(&half, &from, 2);
  to = half;
}
static void cvt_rn_f16_f32(unsigned short &to, float from) {
  _Float16 half = (_Float16)from;
  memcpy(&to, &half, 2);
}
"""
_MATRIX_UNITS = Path(__file__).with_name("matrix_units.h")

_COMPILER = ("g++", "-std=c++20", "-fPIC", "-w")

_ASSEMBLER = re.compile(r'asm(?: volatile)?\(\s*"(\w[\w.]*)([^;]*;)"([^;]*)\);')
_OPERAND = re.compile(r'"[=+]?\w"\(((?:[^()]|\([^()]*\))*)\)')


def _called(instruction: re.Match[str]) -> str:
    """An instruction of the assembler as a call of the function that is named after it."""
    operands = ", ".join(_OPERAND.findall(instruction[3]))
    return f"{re.sub(r'[.]|::', '_', instruction[1])}({operands});"


# The warps of a block run one after the other up to the next barrier, now forwards, now backwards:
# where a barrier is missing, some threads read or write too early in one of the two.
_LAUNCH = """
static int which_;
static void **arguments_;
static void begin_() {
  call(which_, arguments_);
  running_->state = ENDED;
}
static bool is_backwards_;
static void run_warp_(Thread *first, Thread *last) {
  for (bool is_ready = true; is_ready;) {
    is_ready = false;
    for (long n = 0; n < last - first; n++) {
      running_ = is_backwards_ ? last - 1 - n : first + n;
      if (running_->state != READY) continue;
      threadIdx = running_->index;
      swapcontext(&scheduler_, &running_->context);
      is_ready |= running_->state == READY;
    }
  }
}
static size_t run_to_barrier_(std::vector<Thread> &threads) {
  size_t count = threads.size(), warps = (count + 31) / 32, ended = 0;
  is_backwards_ = !is_backwards_;
  for (Thread &thread : threads) thread.state = READY;
  for (size_t n = 0; n < warps; n++) {
    size_t first = 32 * (is_backwards_ ? warps - 1 - n : n);
    run_warp_(&threads[first], &threads[first] + std::min<size_t>(32, count - first));
  }
  for (Thread &thread : threads) ended += thread.state == ENDED;
  return ended;
}
extern "C" bool launch(int which, const unsigned *d, void **arguments) {
  which_ = which;
  forget_();
  room_ = d[6];
  arguments_ = arguments;
  gridDim = {d[0], d[1], d[2]};
  blockDim = {d[3], d[4], d[5]};
  std::vector<Thread> threads(d[3] * d[4] * d[5]);
  for (unsigned block = 0; block < d[0] * d[1] * d[2]; block++) {
    blockIdx = {block % d[0], block / d[0] % d[1], block / d[0] / d[1]};
    for (unsigned n = 0; n < threads.size(); n++) {
      Thread &thread = threads[n];
      thread.index = {n % d[3], n / d[3] % d[4], n / d[3] / d[4]};
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack;
      thread.context.uc_stack.ss_size = sizeof thread.stack;
      thread.context.uc_link = &scheduler_;
      makecontext(&thread.context, begin_, 0);
    }
    size_t ended = 0;
    while (ended == 0) ended = run_to_barrier_(threads);
    if (ended < threads.size()) fault_ = "some threads ended while others wait at a barrier";
    if (fault_ != 0) return false;
  }
  return true;
}
"""

_KERNEL = re.compile(
    r'extern "C" __global__ void(?: __launch_bounds__\([\w, ]+\))? (\w+)\(([^)]*)\)'
)


class HostModule:
    """Stands in for driver.Module: the same launches, on the processor.

    Args:
        folder: Where it is compiled.
        text: The source, as NVRTC gets it.
        options: Likewise.

    Attributes:
        launched: Names of the launches so far.
        copies_late: Asynchronous copies arrive when a thread waits for them, not at once.
        conflicts: Further turns that banks of shared memory took to load matrices.
    """

    def __init__(self, folder: Path, text: str, options: tuple[str, ...]) -> None:
        kernels = _KERNEL.findall(text)
        text = _ASSEMBLER.sub(_called, text)
        assert not re.search(r"\basm\b.*\(", text), "an instruction without a stand-in"
        text = '#include "prelude.h"\n' + text + _calls(kernels) + _LAUNCH
        name = hashlib.sha256("\0".join([text, *options]).encode()).hexdigest()[:16]
        library = folder / f"{name}.so"
        if not library.exists():
            _precompile_prelude(folder)
            (folder / f"{name}.cpp").write_text(text)
            files = [str(folder / f"{name}.cpp"), "-o", str(library)]
            subprocess.run([*_COMPILER, "-shared", *options, *files], check=True)
        self._library = ctypes.CDLL(str(library))
        self._library.launch.restype = ctypes.c_bool
        self._library.fault.restype = ctypes.c_char_p
        self._names = [name for name, _ in kernels]
        self.launched: list[str] = []
        self.copies_late, self.conflicts = True, 0

    def launch(self, name: str, grid: Any, arguments: Sequence[Any]) -> None:
        blocks, threads, shared = grid
        assert shared <= 65536
        assert threads[0] * threads[1] * threads[2] <= 512
        self.launched.append(name)
        sizes = (ctypes.c_uint * 7)(*blocks, *threads, shared)
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self._library.set_late(self.copies_late)
        is_right = self._library.launch(self._names.index(name), sizes, pointers)
        assert is_right, f"{name}: {self._library.fault().decode()}"
        self.conflicts += self._library.conflicts()


def _precompile_prelude(folder: Path) -> None:
    """Compile the prelude once for a folder; g++ takes twice as long for a kernel without that."""
    header = folder / "prelude.h"
    if not header.exists():
        header.write_text(_PRELUDE + _MATRIX_UNITS.read_text("utf-8"))
        files = ["-x", "c++-header", str(header), "-o", f"{header}.gch"]
        subprocess.run([*_COMPILER, *files], check=True)


def _calls(kernels: list[tuple[str, str]]) -> str:
    """A function that calls a kernel by its number, with arguments as the driver takes them."""
    lines = ["static void call(int which, void **a) {"]
    for number, (name, parameters) in enumerate(kernels):
        types = [re.sub(r"\w+$", "", part.strip()) for part in parameters.split(",")]
        given = ", ".join(f"*({kind} *)a[{i}]" for i, kind in enumerate(types))
        lines.append(f"  if (which == {number}) {name}({given});")
    return "\n".join([*lines, "}\n"])


def host_module(folder: Path, name: str, dtype: torch.dtype, **macros: int) -> Any:
    """A family of kernels, on the processor."""
    return HostModule(folder, build.source(name), build.macros(dtype, **macros))


def host_kernels(
    folder: Path, family: KernelFamily[Any], dtype: torch.dtype, vector: int, second: int
) -> Any:
    """Kernels of a family, on the processor."""
    sizes = {"VECTOR": vector, family.second: second}
    return family.kernels(host_module(folder, family.name, dtype, **sizes))


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """Let the processor stand in for a GPU of two processors; names of launches are appended."""
    launched: list[str] = []

    def loading(family: KernelFamily[Any]) -> Any:
        @cache
        def load(device: torch.device, *sizes: Any) -> Any:
            kernels = host_kernels(folder, family, *sizes)
            kernels.module.launched = launched
            return kernels

        return load

    monkeypatch.setattr(build, "is_gpu", lambda device: True)
    monkeypatch.setattr(build, "processors", lambda device: 2)
    monkeypatch.setattr(grids, "_MOST_BLOCKS", 1)
    for one in (blocks, token_rows, quantize, heads, channel_norm, group_norm):
        monkeypatch.setattr(one.KERNELS, "load", loading(one.KERNELS))
    return launched


INT_MAX = 2**31 - 1


def traversal(grid: GroupNormGrid, block: int, row: int) -> Iterator[tuple[int, int]]:
    """(y, x) of each pixel of a row of threads, as `PixelSteps` of the source steps."""
    first = block * grid.per_block
    end = min(first + grid.per_block, grid.pixels)
    pixel = first + row
    x, y = pixel % grid.width, pixel // grid.width
    step_x, step_y = grid.rows % grid.width, grid.rows // grid.width
    while pixel < end:
        assert max(first + grid.per_block, pixel + grid.rows) <= INT_MAX
        yield y, x
        pixel += grid.rows
        x, y = x + step_x, y + step_y
        if x >= grid.width:
            x, y = x - grid.width, y + 1
