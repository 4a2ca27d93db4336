"""Each kind of wrong file has its own error; right ones give either variant."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.files.formats.open_weights import open_weights
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.load import load_vae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from tests.helpers.model_files import write_gguf
from tests.helpers.tensors import relative_rms

GOLDEN = Path(__file__).parents[4] / "golden" / "seedvr2"
TINY = GOLDEN / "vae_tiny_weights.safetensors"
CONFIG = {"config": json.dumps({"norm_num_groups": 4})}


@pytest.fixture(scope="module")
def small() -> dict[str, Tensor]:
    """Tensors of a VAE with few values; all its names."""
    config = VaeConfig(block_out_channels=(4, 4, 8, 8), layers_per_block=1, norm_groups=4)
    return {n: v.contiguous() for n, v in SeedVr2Vae(config).state_dict().items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def test_both_forms_come_from_one_file_and_agree(small: dict[str, Tensor], path: Path) -> None:
    plain, fast = load_vae(TINY, form="plain"), load_vae(TINY, form="fast")
    assert isinstance(plain, SeedVr2Vae)
    assert isinstance(fast, FastVae)
    assert plain.config == fast.config
    assert plain.config.block_out_channels == (12, 16, 24, 32)
    assert plain.config.norm_groups == 4
    assert not plain.training
    latent = torch.randn(1, 16, 2, 2, 3)
    assert torch.allclose(plain.decode(latent), fast.decode(latent), atol=5e-5)
    config = VaeConfig(block_out_channels=(12, 16, 24, 32), layers_per_block=1, norm_groups=2)
    assert load_vae(TINY, form="fast", config=config).config is config
    save_file({name: value.half() for name, value in small.items()}, path, CONFIG)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        vae = load_vae(path, form="plain", dtype=dtype)
        for name, value in small.items():
            assert torch.equal(vae.get_parameter(name), value.half().to(dtype)), (name, dtype)


def test_other_formats_give_the_same_model(tmp_path: Path) -> None:
    """The authors' own file is a .pth; GGUF files have blocks, and convolutions of five axes."""
    tensors, config = load_file(TINY), load_vae(TINY, form="plain").config
    torch.save(tensors, tmp_path / "ema_vae.pth")
    write_gguf(tmp_path / "vae.gguf", tensors, "Q8_0", cut_rows=True, metadata=CONFIG)
    with open_weights(tmp_path / "vae.gguf") as file:
        assert {"Q8_0", "F16", "F32"} == set(file.dtypes.values())
        assert file.shapes == {name: tuple(value.shape) for name, value in tensors.items()}
    latent = torch.randn(1, 16, 2, 2, 3)
    wanted = load_vae(TINY, form="plain").decode(latent)
    for form in ("plain", "fast"):
        vae = load_vae(tmp_path / "ema_vae.pth", form=form, config=config)
        torch.testing.assert_close(vae.decode(latent), wanted, atol=5e-5, rtol=0)
        vae = load_vae(tmp_path / "vae.gguf", form=form)
        assert 1e-4 < relative_rms(vae.decode(latent), wanted) < 0.02


MEASURE = """
import sys, torch
from pathlib import Path
from engine.hardware.telemetry import counted_peak_bytes
from engine.models.seedvr2.vae.load import load_vae
from engine.models.seedvr2.vae import SeedVr2Vae
before = counted_peak_bytes()
dtype = getattr(torch, sys.argv[2])
vae = load_vae(Path(sys.argv[1]), form="plain", dtype=dtype)
size = sum(p.numel() * p.element_size() for p in vae.parameters())
after = counted_peak_bytes()
largest = max(p.numel() for p in vae.parameters())
print(after - before, size, largest, sum(p.numel() for p in vae.parameters()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak in /proc, which Linux has")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_full_size_file_loads_strictly_in_the_memory_of_the_model(path: Path, dtype: str) -> None:
    """The model and one tensor of the file, conversion included: not the file a second time."""
    manifest = json.loads((GOLDEN / "manifest_vae.json").read_text())["state_dict"]
    save_file({name: torch.zeros(shape).half() for name, shape in manifest.items()}, path)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), dtype],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    grown, size, largest, count = map(int, done.stdout.split())
    assert count == 250_648_227
    assert grown <= size + 3 * 2 * largest + 16 * 2**20, f"{grown - size} bytes more than the model"
