"""The checker finds what is wrong with the Wan VAEs: each mistake of a list of likely ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.wan.vae import plain, resample
from engine.models.wan.vae.blocks import WanAttention
from engine.ops.conv.causal_conv import CausalConv3d, ZeroPastConv3d
from tests.golden import cases_wan_units
from tests.golden.conftest import Run, fails, rewrite

GOLDEN = Path(__file__).parent / "wan"
WEIGHTS, CASES = "wan21_tiny_weights.safetensors", "wan21_tiny_io_t5_b2.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (WEIGHTS, CASES, "cases.json"):
        shutil.copy(GOLDEN / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["moments", "mu", "mu_norm", "dec_raw", "dec_norm", "recon"])
def test_a_wrong_value_is_found_in_every_output(run: Run, folder: Path, name: str) -> None:
    rewrite(folder / CASES, lambda tensors: tensors[name].view(-1)[7].add_(3e-4))
    status, lines = run(folder, "wan21_tiny_io")
    assert status == 1
    assert {line.split(" ")[2] for line in fails(lines)} >= {name}
    assert {line.split(" ")[2] for line in fails(lines)} <= {name, "recon"}  # made of mu
    assert {"plain", "fast"} == {line.split("[")[1].split(",")[0] for line in fails(lines)}


def test_an_unknown_tensor_and_a_missing_file_fail(run: Run, folder: Path) -> None:
    rewrite(folder / CASES, lambda tensors: tensors.update({"more": torch.ones(1)}))
    assert f"FAIL {CASES} more: unknown tensor" in run(folder, "wan21_tiny_io")[1]
    (folder / WEIGHTS).unlink()
    assert "no weights" in run(folder, "wan21_tiny_io")[1][0]


def test_wrong_facts_are_found(run: Run, folder: Path) -> None:
    path = folder / "cases.json"
    about = json.loads(path.read_text())
    case = about["wan21_tiny"]["cases"]["b2_t5_16x24"]
    case["std"]["mu"] += 0.002
    case["noise_floor"]["fp32_vs_fp64"]["dec_raw"]["max_abs"] = 1e-9
    path.write_text(json.dumps(about))
    status, lines = run(folder, "cases.json")
    assert status == 1
    words = ("deviation of mu", "rounding of dec_raw")
    assert [next(w for w in words if w in line) for line in fails(lines)] == list(words)


@pytest.mark.parametrize("swapped", ["norm1", "conv1.weight"])
def test_a_wrong_name_in_a_table_is_found(run: Run, tmp_path: Path, swapped: str) -> None:
    path = tmp_path / "diffusers_keymap_wan22.json"
    about = json.loads((GOLDEN / path.name).read_text())
    names = [name for name in about["table"] if swapped in name][:2]
    first, second = (about["table"][name] for name in names)
    about["table"].update(zip(names, (second, first), strict=True))
    path.write_text(json.dumps(about))
    assert run(tmp_path)[0] == 1


def _copied_past(self: CausalConv3d, frames: Tensor) -> Tensor:
    return CausalConv3d.before_the_clip(self, frames)


def _frame_0_in_time(self: resample.WanUpsampler, clip: Tensor, carry) -> Tensor:
    doubled = self._doubled(clip, carry)
    return doubled[:, :, 1:] if carry.first else doubled


def _interleaved(self: resample.WanUpsampler, clip: Tensor, carry) -> Tensor:
    batch, channels, length, height, width = clip.shape
    halves = self.time_conv(clip, carry).view(batch, channels, 2, length, height, width)
    return halves.permute(0, 1, 3, 2, 4, 5).reshape(batch, channels, 2 * length, height, width)


def _padded_all_round(self: resample.WanDownsampler, clip: Tensor, carry) -> Tensor:
    frames = clip.transpose(1, 2).flatten(0, 1)
    conv = self.resample["1"]
    halved = F.conv2d(frames, conv.weight, conv.bias, stride=2, padding=1)
    halved = halved.view(len(clip), -1, *halved.shape[1:]).transpose(1, 2)
    return self.time_conv(halved, carry) if hasattr(self, "time_conv") else halved


def _values_first(self: WanAttention, clip: Tensor, carry) -> Tensor:
    frames = clip.transpose(1, 2).flatten(0, 1)
    tokens = self.to_qkv(self.norm(frames)).flatten(2).mT.unsqueeze(1)
    value, query, key = tokens.chunk(3, dim=-1)
    mixed = F.scaled_dot_product_attention(query, key, value).squeeze(1).mT
    found = frames + self.proj(mixed.reshape(frames.shape))
    return found.view(len(clip), -1, *found.shape[1:]).transpose(1, 2)


MISTAKES = {
    "copies before the clip": (ZeroPastConv3d, "before_the_clip", _copied_past),
    "frame 0 seen by the convolution over time": (
        resample.WanUpsampler, "_over_time", _frame_0_in_time),
    "channels of two frames interleaved": (resample.WanUpsampler, "_doubled", _interleaved),
    "zeros on all sides": (resample.WanDownsampler, "forward", _padded_all_round),
    "values, queries, keys": (WanAttention, "forward", _values_first),
    "a convolution over time from the first frame on": (
        resample.OverTime, "forward", CausalConv3d.forward),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_likely_mistakes_are_found(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(*MISTAKES[what])
    status, lines = run(folder, "wan21_tiny_io")
    assert status == 1
    assert all("[plain" in line for line in fails(lines))


def test_pixels_in_rows_are_found(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual order of a shuffle in the place of that of Wan 2.2."""

    def by_rows(frames: Tensor, side: int) -> Tensor:
        return F.pixel_unshuffle(frames.transpose(1, 2), side).transpose(1, 2)

    monkeypatch.setattr(cases_wan_units, "patches", by_rows)
    shutil.copy(GOLDEN / "ops.safetensors", tmp_path)
    assert fails(run(tmp_path)[1])[0].startswith("FAIL ops.safetensors patchify.y: error")
    assert plain.patches is not by_rows
