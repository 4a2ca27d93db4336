"""Whether torch's own compiler works on a device; it is only imported when that is asked.

Not yet run on a GPU.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from functools import cache
from typing import Any

import torch

from engine.core.errors import FeatureMissing
from engine.core.paths import cache_folder
from engine.hardware.out_of_memory import is_out_of_memory

logger = logging.getLogger(__name__)


def require_compiler(device: torch.device) -> None:
    """Refuse a device that torch cannot compile for; a small function is tried once in a process.

    Raises:
        FeatureMissing: Triton or a C++ compiler is missing, or does not work; the hint tells which.
    """
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        raise FeatureMissing("triton")
    if not _compiles(device):
        is_gpu = device.type == "cuda"
        raise FeatureMissing("compile-on-gpu" if is_gpu else "compile-on-processor")


@cache
def _compiles(device: torch.device) -> bool:
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "compiled"))
    compiler: Any = torch.compile  # its types do not keep those of the function
    x = torch.arange(8.0, device=device)
    try:
        found = compiler(_trial, fullgraph=True)(x)
    except (RuntimeError, ImportError, OSError) as err:
        if is_out_of_memory(err):  # it may pass: no verdict, and nothing is remembered
            raise
        logger.warning("torch.compile on %s: %s", device, str(err).partition("\n")[0])
        return False
    return bool(torch.equal(found.cpu(), _trial(x).cpu()))


def _trial(x: torch.Tensor) -> torch.Tensor:
    return 2 * x + 1
