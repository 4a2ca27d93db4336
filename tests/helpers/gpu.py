"""What tests on a GPU need of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor


def assert_rounding(found: Tensor, wanted: Tensor) -> None:
    """Two float32 computations, rounded to the dtype of both, differ by no more than rounding."""
    error = (found.double() - wanted.double()).abs().max() / wanted.double().abs().max()
    assert error <= 2 * max(torch.finfo(found.dtype).eps, 1e-6), float(error)


def need_gpu_memory(nbytes: int) -> None:
    """Skip a test that needs more of the GPU than is free."""
    free, _ = torch.cuda.mem_get_info()
    if free < nbytes:
        pytest.skip(f"needs {nbytes / 1e9:.1f} GB of the GPU's memory, {free / 1e9:.1f} are free")
