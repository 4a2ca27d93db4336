"""Compiles and loads guard.cpp once per process."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

_SOURCE = Path(__file__).with_name("guard.cpp")


@cache
def load_guard() -> None:
    """Make torch accept tensors on `cuda:0`; it cannot be undone in this process."""
    ctypes.CDLL(str(_library()))


def _library() -> Path:
    """The compiled guard, kept in the folder for temporary files for this build of torch."""
    text = _SOURCE.read_bytes() + torch.__version__.encode() + torch.__file__.encode()
    name = f"upreel-pretended-gpu-{os.getuid()}-{hashlib.sha256(text).hexdigest()[:16]}.so"
    library = Path(tempfile.gettempdir()) / name
    if not library.exists():
        root = Path(torch.__file__).parent
        part = library.with_suffix(f".{os.getpid()}")
        command = ["g++", "-shared", "-fPIC", "-std=c++20", "-O1", f"-I{root / 'include'}"]
        links = [f"-L{root / 'lib'}", "-lc10", f"-Wl,-rpath,{root / 'lib'}"]
        subprocess.run([*command, str(_SOURCE), "-o", str(part), *links], check=True)
        part.rename(library)
    return library
