"""The transformer with weights and products of every format on the pretended GPU."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.models.seedvr2.dit.load import LoadOptions, load_dit
from engine.ops.linear.quantized_linear import QuantizedLinear
from tests.helpers.fast_dit import gap
from tests.helpers.model_files import SCALED, scaled, write_fp8, write_gguf
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config
from tests.pretended_gpu.gpu import Record
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

CONFIG = tiny_dit_config("7b", dim=256, heads=2, head_dim=128, mlp_hidden=512, text_in_dim=64)
PLAIN = {"attention": "math", "pin_bytes": 0}
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


@pytest.mark.parametrize("stored", ["Q8_0", "Q4_K", *SCALED])
def test_a_forward_unpacks_each_weight_once_in_one_launch(stored: str, tmp_path: Path) -> None:
    """It reads the bytes of the file and writes values in half precision, nothing else."""
    path, used = tmp_path / "dit", Counter[QuantizedLinear]()
    tensors = dict(random_dit(CONFIG, dtype=torch.float32).state_dict())
    if stored in SCALED:
        save_file(scaled(tensors, stored), path)
    else:
        pytest.importorskip("gguf")
        write_gguf(path, tensors, stored)
    latent, text = random_inputs(CONFIG, (2, 12, 16), dtype=torch.bfloat16)
    wide = QuantizedLinear.wide_weight

    def noted(layer: QuantizedLinear, dtype: torch.dtype) -> Tensor:
        used[layer] += layer._wide is None
        return wide(layer, dtype)

    with pretended_gpu() as gpu, torch.inference_mode():
        dit = load_dit(path, device="cuda", dtype=torch.bfloat16, options=LoadOptions(**PLAIN))
        dit(latent.cuda(), text.cuda(), 1000.0)
        gpu.record = Record()
        with patch.object(QuantizedLinear, "wide_weight", noted):
            dit(latent.cuda(), text.cuda(), 1000.0)
        dit.close()
    assert used
    assert set(used.values()) == {1}
    values = sum(layer.in_features * layer.out_features for layer in used)
    packed = sum(x.nbytes for layer in used for x in (layer.weight, *layer.buffers()))
    names = [name for name in gpu.record.launches if "unpack" in name or "widen" in name]
    assert sum(gpu.record.launches[name] for name in names) == len(used)
    assert sum(gpu.record.touched[name] for name in names) == packed + 2 * values
