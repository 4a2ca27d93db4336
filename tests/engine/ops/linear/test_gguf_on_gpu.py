"""By itself, because a machine with a card may have no `gguf` package."""

from __future__ import annotations

import pytest
import torch

from engine.ops.linear.gguf import BLOCKS, dequantise
from tests.helpers.model_files import random_blocks


@pytest.mark.gpu
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_gpu_gives_the_same_values(kind: str) -> None:
    raw = random_blocks(kind, 300)
    wanted = dequantise(raw, kind, (300, BLOCKS[kind].values))
    found = dequantise(raw.cuda(), kind, (300, BLOCKS[kind].values))
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-6, atol=1e-6)
