"""Each kind of wrong file has its own error; right ones give either form."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.core.errors import (
    ExtraKeys,
    MissingKeys,
    NotSafetensors,
    UnknownKeys,
    WeightsMissing,
    WeightsTruncated,
    WrongModel,
    WrongNumbers,
    WrongShapes,
)
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.load import FORMS, Form, load_vae
from engine.models.seedvr2.vae.plain import SeedVr2Vae

GOLDEN = Path(__file__).parents[4] / "golden" / "seedvr2"
TINY = GOLDEN / "vae_tiny_weights.safetensors"
CONFIG = {"config": json.dumps({"norm_num_groups": 4})}


@pytest.fixture(scope="module")
def small() -> dict[str, Tensor]:
    """Tensors of a VAE with few numbers; all its names."""
    vae = SeedVr2Vae(VaeConfig(block_out_channels=(4, 4, 8, 8), layers_per_block=1, norm_groups=4))
    return {name: value.contiguous() for name, value in vae.state_dict().items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    return request.param


def test_both_forms_come_from_one_file_and_agree() -> None:
    plain, fast = load_vae(TINY, form="plain"), load_vae(TINY, form="fast")
    assert isinstance(plain, SeedVr2Vae)
    assert isinstance(fast, FastVae)
    assert plain.config == fast.config
    assert plain.config.block_out_channels == (12, 16, 24, 32)
    assert plain.config.norm_groups == 4
    assert not plain.training
    latent = torch.randn(1, 16, 2, 2, 3)
    assert torch.allclose(plain.decode(latent), fast.decode(latent), atol=5e-5)


def test_numbers_are_those_of_the_file() -> None:
    vae = load_vae(TINY, form="plain", dtype=torch.float64)
    for name, value in load_file(TINY).items():
        found = vae.get_parameter(name)
        assert found.dtype == torch.float64
        assert torch.equal(found, value.double())


def test_half_precision_files_load_into_any_type(small: dict[str, Tensor], path: Path) -> None:
    save_file({name: value.half() for name, value in small.items()}, path, CONFIG)
    for dtype in (torch.float32, torch.bfloat16):
        assert (
            load_vae(path, form="plain", dtype=dtype)
            .get_parameter("decoder.conv_in.weight")
            .equal(small["decoder.conv_in.weight"].half().to(dtype))
        )


def test_a_given_configuration_is_taken() -> None:
    config = VaeConfig(block_out_channels=(12, 16, 24, 32), layers_per_block=1, norm_groups=2)
    assert load_vae(TINY, form="fast", config=config).config is config


def telling(small: dict[str, Tensor]) -> list[str]:
    """Some tensors of every kind, and all that the configuration is read from."""
    kinds = ("conv_in", "conv_out", "samplers")
    return [n for i, n in enumerate(small) if i % 10 == 0 or any(kind in n for kind in kinds)]


def test_any_missing_tensor_is_named(small: dict[str, Tensor], path: Path) -> None:
    for name in telling(small):
        save_file({n: value for n, value in small.items() if n != name}, path, CONFIG)
        with pytest.raises(MissingKeys, match=rf"1 missing: {name}\.$"):
            load_vae(path, form="plain")


def test_any_misshapen_tensor_is_named(small: dict[str, Tensor], path: Path) -> None:
    for name in telling(small):
        save_file(small | {name: torch.zeros(*small[name].shape[:-1], 5)}, path, CONFIG)
        with pytest.raises(WrongShapes, match=rf"1 of another shape: {name} "):
            load_vae(path, form="plain")


def test_a_missing_tensor(small: dict[str, Tensor], path: Path, form: Form) -> None:
    save_file({n: v for n, v in small.items() if n != "decoder.conv_out.bias"}, path, CONFIG)
    with pytest.raises(MissingKeys, match=r"decoder\.conv_out\.bias"):
        load_vae(path, form=form)


def test_a_tensor_too_many(small: dict[str, Tensor], path: Path, form: Form) -> None:
    save_file(small | {"decoder.more": torch.zeros(1)}, path, CONFIG)
    with pytest.raises(ExtraKeys, match=r"1 unknown: decoder\.more\."):
        load_vae(path, form=form)


def test_another_shape(small: dict[str, Tensor], path: Path, form: Form) -> None:
    save_file(small | {"decoder.conv_out.bias": torch.zeros(4)}, path, CONFIG)
    with pytest.raises(WrongShapes, match=r"decoder\.conv_out\.bias 4 instead of 3"):
        load_vae(path, form=form)


def test_whole_numbers(small: dict[str, Tensor], path: Path, form: Form) -> None:
    name = "decoder.conv_out.bias"
    save_file(small | {name: small[name].to(torch.int8)}, path, CONFIG)
    with pytest.raises(WrongNumbers, match=r"decoder\.conv_out\.bias I8"):
        load_vae(path, form=form)


def test_a_file_that_was_cut_off(path: Path, form: Form) -> None:
    path.write_bytes(TINY.read_bytes()[:-1000])
    with pytest.raises(WeightsTruncated, match="is cut short"):
        load_vae(path, form=form)


def test_no_safetensors(path: Path, form: Form) -> None:
    torch.save({"x": torch.ones(1)}, path)
    with pytest.raises(NotSafetensors):
        load_vae(path, form=form)


def test_no_file(path: Path, form: Form) -> None:
    with pytest.raises(WeightsMissing):
        load_vae(path, form=form)


OTHERS = {
    "a SeedVR2 transformer (3B)": [
        "vid_in.proj.weight",
        "blocks.0.attn.proj_qkv.vid.weight",
        "blocks.31.attn.proj_qkv.all.weight",
        "vid_out_norm.weight",
    ],
    "a SeedVR2 transformer (7B)": ["vid_in.proj.weight", "blocks.0.attn.proj_qkv.vid.weight"],
    "a Wan 2.1 VAE": ["encoder.conv1.weight", "encoder.downsamples.0.residual.0.gamma"],
    "another model": ["unet.weight", "unet.bias"],
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_file_of_another_model_is_named(path: Path, what: str, form: Form) -> None:
    save_file({name: torch.ones(2, 2) for name in OTHERS[what]}, path)
    with pytest.raises(WrongModel) as caught:
        load_vae(path, form=form)
    assert caught.value.message == f"model.safetensors is {what}, not a SeedVR2 VAE."
    assert "ema_vae_fp16.safetensors" in caught.value.hint


def test_the_transformers_of_the_published_lists_are_named(path: Path) -> None:
    """A 3B file is given where the VAE is wanted: only its head is written, its data is a hole."""
    head = json.dumps(
        {"blocks.10.attn.proj_qkv.all.weight": _entry((7680, 2560)),
         "blocks.0.attn.proj_qkv.vid.weight": _entry((7680, 2560), 7680 * 2560 * 2)}
    ).encode()  # fmt: skip
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        file.truncate(8 + len(head) + 2 * 7680 * 2560 * 2)
    with pytest.raises(WrongModel, match=r"is a SeedVR2 transformer \(3B\), not a SeedVR2 VAE"):
        load_vae(path, form="plain")


def _entry(shape: tuple[int, int], begin: int = 0) -> dict[str, object]:
    places = [begin, begin + 2 * shape[0] * shape[1]]
    return {"dtype": "F16", "shape": list(shape), "data_offsets": places}


def test_impossible_sizes_are_told(small: dict[str, Tensor], path: Path) -> None:
    save_file(small, path, {"config": json.dumps({"norm_num_groups": 3})})
    with pytest.raises(UnknownKeys, match="3 groups do not divide"):
        load_vae(path, form="plain")


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
    assert grown <= size + 3 * 2 * largest + 16 * 2**20, f"{grown - size} bytes beside the model"
