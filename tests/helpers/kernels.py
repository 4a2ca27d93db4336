"""CUDA kernels on the processor: the source compiled with g++, and the pixels of a grid.

A kernel is compiled without optimisation, which would take longer than its few launches; what
launches it and stands in for its instructions (kernels.cpp) is optimised, and compiled once.
"""

from __future__ import annotations

import ctypes
import re
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
from tests.helpers.program import compiled

_HEADER = Path(__file__).with_suffix(".h")
_INCLUDE = f"-I{_HEADER.parent}"

_ASSEMBLER = re.compile(r'asm(?: volatile)?\(\s*"(\w[\w.]*)([^;]*;)"([^;]*)\);')
_OPERAND = re.compile(r'"[=+]?\w"\(((?:[^()]|\([^()]*\))*)\)')


def _called(instruction: re.Match[str]) -> str:
    """An instruction of the assembler as a call of the function that is named after it."""
    operands = ", ".join(_OPERAND.findall(instruction[3]))
    return f"{re.sub(r'[.]|::', '_', instruction[1])}({operands});"


_KERNEL = re.compile(
    r'extern "C" __global__ void(?: __launch_bounds__\([\w, ]+\))? (\w+)\(([^)]*)\)'
)


class HostModule:
    """Stands in for driver.Module: the same launches, on the processor.

    Args:
        folder: Folder of compiled files, see `compiled_folder`.
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
        text = '#include "kernels.h"\n' + text + _calls(kernels)
        threads = _threads(folder)
        # Without the standard libraries, which take longer to link than a kernel to compile.
        library = compiled(folder, text, "-nostdlib", _INCLUDE, *options, parts=[threads, _HEADER])
        self._call = ctypes.CDLL(str(library)).call
        self._threads = ctypes.CDLL(str(threads))
        self._threads.launch.restype = ctypes.c_bool
        self._threads.fault.restype = ctypes.c_char_p
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
        self._threads.set_late(self.copies_late)
        is_right = self._threads.launch(self._call, self._names.index(name), sizes, pointers)
        assert is_right, f"{name}: {self._threads.fault().decode()}"
        self.conflicts += self._threads.conflicts()


@cache
def _threads(folder: Path) -> Path:
    """Launcher of kernels with their instructions, compiled once for a folder."""
    text = _HEADER.with_suffix(".cpp").read_text("utf-8")
    return compiled(
        folder, text, _INCLUDE, "-O3", "-march=native", "-U_FORTIFY_SOURCE", parts=[_HEADER]
    )


def _calls(kernels: list[tuple[str, str]]) -> str:
    """A function that calls a kernel by its number, with arguments as the driver takes them."""
    lines = ['extern "C" void call(int which, void **a) {']
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
    options = family.options(dtype, vector, second)
    return family.kernels(HostModule(folder, build.source(family.name), options))


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
    stream = token_rows.STREAM_KERNELS
    monkeypatch.setattr(stream, "load", loading(stream))
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
