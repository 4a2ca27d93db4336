"""Compiles CUDA source at run time with NVIDIA's NVRTC: no toolchain, no headers, no GPU.

The library is in every CUDA build of torch and in the wheel `nvidia-cuda-nvrtc`. Compiled kernels
are cached under a hash of source, architecture, options and version of the compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from engine.core import atomic_file, paths

_log = logging.getLogger(__name__)
_IS_WINDOWS = sys.platform == "win32"
_PATTERNS = ("nvrtc64_*.dll",) if _IS_WINDOWS else ("libnvrtc.so*", "libnvrtc-*.so*")
_BUILTINS = "nvrtc-builtins64_*.dll" if _IS_WINDOWS else "libnvrtc-builtins*.so*"
_DIGEST_BYTES = hashlib.sha256().digest_size


class NvrtcMissing(RuntimeError):
    """There is no NVRTC on this machine, or it cannot be loaded."""


class CompileFailed(RuntimeError):
    """The compiler refused; the message is its log."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources of a kernel on one architecture, as the assembler reports them."""

    registers: int  # registers of a thread
    stack_bytes: int  # stack of a thread, in the GPU's memory
    spilled_bytes: int  # registers that instructions put there or read back, all together


class Nvrtc:
    """An NVRTC library.

    It opens its builtins by their bare names: folders that a process adds to its search path do
    not help (tried with NVRTC 13.0.88 and 12.6.77 for Windows), but a library that is loaded
    already is found by its name. So those beside it are loaded first, by their full paths.

    Attributes:
        version: Its CUDA version, (major, minor).
    """

    def __init__(self, path: Path) -> None:
        try:
            self._builtins = [ctypes.CDLL(str(one)) for one in builtins_beside(path)]
            self._library: Any = ctypes.CDLL(str(path))
        except OSError as err:
            raise NvrtcMissing(f"{path} cannot be loaded: {err}") from err
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = major.value, minor.value

    def compile(self, source: str, options: tuple[str, ...]) -> bytes:
        """The cubin of a source.

        Raises:
            CompileFailed: With the compiler's log.
        """
        with self._program(source, options) as program:
            return self._bytes("nvrtcGetCUBIN", program)

    def usage(self, source: str, arch: str, options: tuple[str, ...] = ()) -> dict[str, Usage]:
        """Resources of each kernel of a source on one architecture; raises as `compile`."""
        verbose = *options_for(arch), *options, "--ptxas-options=-v"
        with self._program(source, verbose) as program:
            return usage_in(self._log(program))

    @contextmanager
    def _program(self, source: str, options: tuple[str, ...]) -> Iterator[ctypes.c_void_p]:
        """A source that was compiled."""
        program = ctypes.c_void_p()
        text, name = source.encode(), b"upreel.cu"
        self._call("nvrtcCreateProgram", ctypes.byref(program), text, name, 0, None, None)
        try:
            arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            code = self._library.nvrtcCompileProgram(program, len(options), arguments)
            if code:
                raise CompileFailed(f"{self._message(code)}\n{self._log(program)}")
            yield program
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _log(self, program: ctypes.c_void_p) -> str:
        return self._bytes("nvrtcGetProgramLog", program).rstrip(b"\0").decode(errors="replace")

    def _bytes(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"{what}Size", program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        self._call(what, program, content)
        return content.raw

    def _call(self, name: str, *args: object) -> None:
        code = getattr(self._library, name)(*args)
        if code:
            raise CompileFailed(f"{name}: {self._message(code)}")

    def _message(self, code: int) -> str:
        return str(self._library.nvrtcGetErrorString(code).decode())


_USAGE = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads.*?Used (\d+) registers",
    re.DOTALL,
)


def usage_in(log: str) -> dict[str, Usage]:
    """Resources of each kernel by a log of the assembler."""
    return {
        name: Usage(int(registers), int(stack), int(stored) + int(loaded))
        for name, stack, stored, loaded, registers in _USAGE.findall(log)
    }


def options_for(arch: str) -> tuple[str, ...]:
    """Options that every source is compiled with for an architecture."""
    return f"--gpu-architecture={arch}", "--std=c++17"


def compile_cuda(source: str, arch: str, options: tuple[str, ...] = ()) -> bytes:
    """Cubin of a CUDA source for one architecture, from the cache where possible.

    Args:
        source: CUDA C++ with its includes inserted.
        arch: For example "sm_86".
        options: Further options of the compiler, for example "-DVECTOR=8".

    Raises:
        NvrtcMissing: No library.
        CompileFailed: The source is wrong, or the compiler does not know the architecture.
    """
    library = find()
    options = *options_for(arch), *options
    named = "\0".join([source, *options, "{}.{}".format(*library.version)])
    path = paths.cache_folder() / "kernels" / f"{hashlib.sha256(named.encode()).hexdigest()}.cubin"
    cubin = _read(path)
    if cubin is None:
        cubin = library.compile(source, options)
        _write(path, cubin)
    return cubin


@cache
def find() -> Nvrtc:
    """The first library that loads: torch's own, then that of the wheel.

    Raises:
        NvrtcMissing: None does; the message lists what was tried.
    """
    failures = []
    for path in candidates():
        try:
            return Nvrtc(path)
        except NvrtcMissing as err:
            failures.append(str(err))
    raise NvrtcMissing("; ".join(failures) or "NVRTC comes with CUDA builds of torch only")


def candidates() -> Iterator[Path]:
    """Paths where NVRTC may be, the preferred one first."""
    for folder in _folders():
        for pattern in _PATTERNS:
            for path in sorted(folder.glob(pattern), reverse=True):
                if "builtins" not in path.name and ".alt." not in path.name:
                    yield path


def builtins_beside(library: Path) -> list[Path]:
    """Libraries of builtins in the folder of an NVRTC library: one, as they are published.

    Names for linking are left out: libnvrtc-builtins.so is the same file as the one with a version.
    """
    found = {path.resolve(): path for path in sorted(library.parent.glob(_BUILTINS))}
    return [path for path in found.values() if ".alt." not in path.name]


def _folders() -> Iterator[Path]:
    for package in ("torch", "nvidia"):
        spec = importlib.util.find_spec(package)
        for root in (spec and spec.submodule_search_locations) or ():
            yield Path(root) / "lib"
            for part in ("lib", "bin", "bin/x86_64"):
                yield from sorted(Path(root).glob(f"*/{part}"), reverse=True)


def _read(path: Path) -> bytes | None:
    """Cached cubin; None when it is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, cubin = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return cubin if hashlib.sha256(cubin).digest() == digest else None


def _write(path: Path, cubin: bytes) -> None:
    """Cache a cubin if the disk allows it; the file is replaced atomically."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write_bytes(path, hashlib.sha256(cubin).digest() + cubin)
    except OSError as err:
        _log.info("kernel not cached: %s", err)
