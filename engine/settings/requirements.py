"""Requirements of choices; checking them loads neither torch nor a driver.

Whether a build of torch really computes it on this GPU is tried when a job loads its model.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from functools import cache

CPU, CUDA = "cpu", "cuda"
BOTH, GPU = (CPU, CUDA), (CUDA,)

COMPILER = "C++"  # a part that is no Python module

# Names under which modules are published.
PACKAGES = {"flash_attn_interface": "flash-attn 3", "flash_attn": "flash-attn 2"}
SERIES = {(7, 5): "20", (8, 0): "30", (8, 9): "40", (10, 0): "50"}  # GeForce RTX


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Requirement of a choice: without it the choice has no effect."""

    devices: tuple[str, ...] = BOTH  # kinds of torch devices
    capability: tuple[int, int] | None = None  # least CUDA capability of a GPU; None: any
    systems: tuple[str, ...] = ()  # names as of `sys.platform`; () for all
    # Kind of device -> Python module that it needs there, or COMPILER.
    parts: tuple[tuple[str, str], ...] = ()
    sources: bool = False  # the packaged program, which runs without sources, does not have it


NOTHING = Requirement()
ON_GPU, ON_PROCESSOR = Requirement(devices=GPU), Requirement(devices=(CPU,))
COMPILING = Requirement(parts=((CUDA, "triton"), (CPU, COMPILER)), sources=True)  # torch.compile


def on_gpu(capability: tuple[int, int], module: str = "") -> Requirement:
    """A GPU of this capability at least, and a Python module."""
    return Requirement(
        devices=GPU, capability=capability, parts=((CUDA, module),) if module else ()
    )


# Packages of other publishers, each of whose wheels fits one build of torch: the packaged program
# has none of them, so these do not exist there.
_ATTENTION_PACKAGES = {
    "flash3": on_gpu((8, 0), "flash_attn_interface"),
    "flash2": on_gpu((8, 0), "flash_attn"),
    "xformers": on_gpu((7, 0), "xformers"),
    "sage2": on_gpu((8, 0), "sageattention"),
    "sage2-fp16": on_gpu((8, 0), "sageattention"),
    "sage2-fp8": on_gpu((8, 9), "sageattention"),
    "sage3-fp4": on_gpu((10, 0), "sageattn3"),
    "sage3-fp4-fast": on_gpu((10, 0), "sageattn3"),
}
ATTENTION = {
    "auto": NOTHING,
    "sdpa": NOTHING,
    "cudnn": on_gpu((8, 0)),
    "flash": Requirement(capability=(8, 0)),
    "efficient": ON_GPU,
    "math": NOTHING,
    **({} if getattr(sys, "frozen", False) else _ATTENTION_PACKAGES),
}
MATMUL = {  # the most exact first
    "none": NOTHING,
    "int8": Requirement(capability=(7, 5)),
    "fp8": Requirement(capability=(8, 9)),
    "nvfp4": on_gpu((10, 0)),
}
WEIGHTS_FILES = dict.fromkeys(("auto", "fp16", "q8", "int8", "mxfp8", "fp8", "q4"), NOTHING)
ALLOCATORS = {
    "native": NOTHING,
    "expandable": Requirement(devices=GPU, systems=("linux",)),
    "async": ON_GPU,
}
CONVOLUTIONS = {"auto": NOTHING, "2d": NOTHING, "3d": NOTHING, "kernel": on_gpu((7, 5))}
COMPILERS = {"inductor": NOTHING, "max-autotune": ON_GPU}
VAE_DTYPES = {
    "auto": NOTHING,
    "float16": NOTHING,
    "bfloat16": Requirement(capability=(8, 0)),
    "float32": NOTHING,
    "fastest": NOTHING,
}


@cache
def is_installed(part: str) -> bool:
    """Whether a Python module, or with COMPILER the one that torch would run, can be found."""
    if part == COMPILER:
        usual = "cl" if sys.platform == "win32" else "g++"
        return shutil.which(os.environ.get("CXX", usual)) is not None
    return part in sys.modules or importlib.util.find_spec(part) is not None
