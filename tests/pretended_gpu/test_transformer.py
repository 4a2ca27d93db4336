"""The transformer with weights and products of every format on the pretended GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.models.seedvr2.dit.load import LoadOptions, load_dit
from tests.helpers.fast_dit import gap
from tests.helpers.model_files import write_fp8, write_gguf
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

CONFIG = tiny_dit_config("7b", dim=256, heads=2, head_dim=128, mlp_hidden=512, text_in_dim=64)
# The format of the file, precision of products, and the largest gap in units of the largest value.
FORMATS = [
    ("fp8", "none", 1e-4),
    ("Q8_0", "none", 1e-4),
    ("Q4_K", "none", 1e-4),
    ("fp8", "int8", 2e-2),
    ("fp8", "fp8", 4e-2),
]


@pytest.mark.parametrize("blocks", [None, 1], ids=["resident", "streamed"])
@pytest.mark.parametrize(("stored", "products", "most"), FORMATS)
def test_a_format_gives_what_the_processor_gives(
    stored: str, products: str, most: float, blocks: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "dit"
    tensors = dict(random_dit(CONFIG, dtype=torch.float32).state_dict())
    if stored == "fp8":
        write_fp8(path, tensors)
    else:
        pytest.importorskip("gguf")
        write_gguf(path, tensors, stored)
    latent, text = random_inputs(CONFIG, (2, 12, 16), dtype=torch.float32)
    options = {"blocks_on_device": blocks, "attention": "math", "pin_bytes": 10**7}
    plain = load_dit(path, device="cpu", dtype=torch.float32, options=LoadOptions(**options))
    wanted = plain(latent, text, 1000.0)
    chosen = LoadOptions(**options, products=products)
    with pretended_gpu() as gpu, torch.inference_mode():
        dit = load_dit(path, device="cuda", dtype=torch.float32, options=chosen)
        for _ in range(2):
            found = dit(latent.cuda(), text.cuda(), 1000.0).cpu()
        dit.close()
    assert gap(found, wanted) <= most
    assert not gpu.record.problems
