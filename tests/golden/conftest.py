from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread(_fixed_seeds: None) -> None:
    """The tensors here are tiny: threads would spend their time waiting for each other."""
    torch.set_num_threads(1)
