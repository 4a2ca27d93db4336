"""Compiles and loads guard.cpp once per process."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch

from tests.helpers.program import compiled, compiled_folder

_SOURCE = Path(__file__).with_name("guard.cpp")


@cache
def load_guard() -> None:
    """Make torch accept tensors on `cuda:0`; it cannot be undone in this process."""
    ctypes.CDLL(str(_library()))


def _library() -> Path:
    """The compiled guard, for this build of torch."""
    root = Path(torch.__file__).parent
    links = f"-L{root / 'lib'}", "-lc10", f"-Wl,-rpath,{root / 'lib'}"
    about = f"// for torch {torch.__version__}\n"
    text = about + _SOURCE.read_text("utf-8")
    options = "-O1", f"-I{root / 'include'}", *links
    return compiled(compiled_folder(), text, *options)
