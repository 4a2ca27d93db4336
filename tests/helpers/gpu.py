"""What tests on a GPU need of it."""

from __future__ import annotations

import pytest
import torch


def need_gpu_memory(nbytes: int) -> None:
    """Skip a test that needs more of the GPU than is free."""
    free, _ = torch.cuda.mem_get_info()
    if free < nbytes:
        pytest.skip(f"needs {nbytes / 1e9:.1f} GB of the GPU's memory, {free / 1e9:.1f} are free")
