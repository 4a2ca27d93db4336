"""Every layout of every model loads into both variants; each wrong file has its own error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.core.errors import (
    ExtraKeys,
    WeightsError,
    WrongModel,
    WrongNumbers,
)
from engine.models.load import FORMS, Form
from engine.models.wan.vae.load import Wan, load_wan
from engine.models.wan.vae.plain import WanVae
from tests.helpers.wan import GOLDEN, tiny_wan_config, write_wan

LAYOUTS = ("2.1", "2.2", "2x")
FULL = {"2.1": "wan21", "2.2": "wan22", "2x": "wan21_upscale2x"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    return request.param


def assert_same(vae: Wan, written: WanVae) -> None:
    assert vae.config == written.config
    latent = torch.randn(1, vae.config.latent_channels, 2, 2, 1, dtype=torch.float64)
    torch.testing.assert_close(vae.decode(latent), written.decode(latent), rtol=0, atol=1e-10)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_model(path: Path, layout: str, form: Form) -> None:
    for names in ("wan", "diffusers"):
        written = write_wan(path, tiny_wan_config(layout), layout=names)
        assert_same(load_wan(path, form=form, dtype=torch.float64), written)


def test_an_original_pickle_loads(tmp_path: Path, form: Form) -> None:
    path = tmp_path / "model.pth"
    written = write_wan(path, dtype=torch.float32)
    assert_same(load_wan(path, form=form, dtype=torch.float64), written)
    renamed = path.rename(tmp_path / "model.pt")
    assert_same(load_wan(renamed, form=form, dtype=torch.float64), written)


def test_values_are_those_of_the_file(path: Path) -> None:
    """Eight bits without scales are in the wild: they are widened when they are read."""
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn):
        written = write_wan(path, dtype=dtype)
        vae = load_wan(path, form="plain", dtype=torch.float32)
        assert isinstance(vae, WanVae)
        assert not vae.training
        assert not any(parameter.requires_grad for parameter in vae.parameters())
        for name, value in load_file(path).items():
            assert torch.equal(vae.state_dict()[name], value.float())
        assert_same(load_wan(path, form="fast", dtype=torch.float64), written)


def test_a_prefix_does_not_matter(path: Path) -> None:
    for prefix in ("vae.", "first_stage_model."):
        write_wan(path)
        save_file({prefix + name: value for name, value in load_file(path).items()}, path)
        assert load_wan(path, form="plain").config == tiny_wan_config()


def test_values_too_large_for_half_precision_are_refused(path: Path) -> None:
    write_wan(path, dtype=torch.float32)
    save_file(load_file(path) | {BIAS: torch.full((32,), 1e6)}, path)
    assert load_wan(path, form="plain").get_parameter(BIAS).max() == 1e6
    with pytest.raises(WrongNumbers, match="infinite"):
        load_wan(path, form="plain", dtype=torch.float16)


BIAS = "decoder.conv1.bias"


def test_wrong_tensors(path: Path, form: Form) -> None:
    write_wan(path)
    right = load_file(path)
    none = right[BIAS].clone()
    none[3] = torch.nan
    four = {"encoder.conv1.weight": torch.ones(8, 4, 3, 3, 3)}
    twice = ("decoder.up_blocks.0.resnets.0.norm1.gamma", "encoder.conv_in.weight")
    cases: list[tuple[dict[str, Tensor], type[WeightsError], str]] = [
        ({BIAS: none}, WrongNumbers, f"NaN or infinite: {BIAS}."),
        ({name: torch.ones(8) for name in twice}, ExtraKeys, "a part of the model twice"),
        (four, WrongModel, "reads 4 channels and writes 3"),
    ]
    for change, error, words in cases:
        save_file(right | change, path)
        with pytest.raises(error, match=re.escape(words)) as caught:
            load_wan(path, form=form)
        assert caught.value.hint


MEASURE = """
import sys, torch
from pathlib import Path
from engine.hardware.telemetry import counted_peak_bytes
from engine.models.wan.vae.load import load_wan
before = counted_peak_bytes()
vae = load_wan(Path(sys.argv[1]), form="plain", dtype=torch.float16)
after = counted_peak_bytes()
sizes = [p.numel() for p in vae.parameters()]
print(sum(sizes), max(sizes), after - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("kind", ["fp16", "bf16", "fp16 diffusers", "fp16 prefixed", "pth"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_full_size_files_load_strictly_in_the_memory_of_the_model(
    tmp_path: Path, layout: str, kind: str
) -> None:
    """Into fp16: the model and one tensor of the file, and never the file a second time."""
    about = json.loads((GOLDEN / f"manifest_{FULL[layout]}.json").read_text())
    path = tmp_path / ("model.pth" if kind == "pth" else "model.safetensors")
    _write_random(path, about["keys"], kind, layout)
    size = path.stat().st_size
    command = [sys.executable, "-c", MEASURE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    path.unlink()
    count, largest, grown = map(int, done.stdout.split())
    assert count == about["param_count"]
    model = 2 * count
    mapped = size if kind == "pth" else 0  # pages of the file, which the system takes back
    code = model // 2  # pages of libraries that are touched for the first time come and go
    assert grown <= model + mapped + 3 * 4 * largest + code


def _write_random(path: Path, keys: dict[str, list[int]], kind: str, layout: str) -> None:
    """Random values under the published names."""
    generator = torch.Generator().manual_seed(1)
    dtype = torch.bfloat16 if kind == "bf16" else torch.float16
    if kind == "pth" and layout != "2.2":
        dtype = torch.float32
    tensors = {
        name: torch.empty(shape, dtype=dtype).uniform_(-0.1, 0.1, generator=generator)
        for name, shape in keys.items()
    }
    if kind.endswith("diffusers"):
        family = "wan22" if layout == "2.2" else "wan21"
        table = json.loads((GOLDEN / f"diffusers_keymap_{family}.json").read_text())["table"]
        tensors = {theirs: tensors[ours] for theirs, ours in table.items()}
    elif kind.endswith("prefixed"):
        tensors = {f"first_stage_model.{name}": value for name, value in tensors.items()}
    torch.save(tensors, path) if kind == "pth" else save_file(tensors, path)
