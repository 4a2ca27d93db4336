"""Every loader refuses wrong files alike: each kind has its own error, in either variant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.core import errors
from engine.models.seedvr2.dit.load import load_dit
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.load import load_vae
from engine.models.swiftvr.load import load_reae, load_swift_dit
from engine.models.wan.vae.load import load_wan
from tests.helpers.extended import extended
from tests.helpers.seedvr2 import write_dit, write_vae
from tests.helpers.swiftvr import PROMPT, write_reae
from tests.helpers.swiftvr import write_dit as write_swift_dit
from tests.helpers.wan import write_wan

SMALL = VaeConfig(block_out_channels=(4, 4, 8, 8), layers_per_block=1, norm_groups=4)
# What loads a model, what writes a right file, and one of its tensors that has one axis.
LOADERS: dict[str, tuple[Any, Any, str]] = {
    "SeedVR2 transformer": (load_dit, write_dit, "vid_out.proj.bias"),
    "SeedVR2 VAE": (load_vae, lambda path: write_vae(path, SMALL), "decoder.conv_out.bias"),
    "Wan VAE": (load_wan, write_wan, "decoder.conv1.bias"),
    "SwiftVR VAE": (load_reae, write_reae, "decoder.22.bias"),
    "SwiftVR transformer": (
        lambda path, form: load_swift_dit(path, path.parent / PROMPT, form=form),
        write_swift_dit,
        "proj_out.bias",
    ),
}
HINTS = {"SeedVR2 transformer": "seedvr2_ema_3b", "SeedVR2 VAE": "ema_vae_fp16.safetensors"}
OTHERS = {
    "a SeedVR2 VAE": ("encoder.down_blocks.0.resnets.0.conv1.weight", (2, 2, 3, 3, 3)),
    "a Wan 2.1 VAE": ("encoder.downsamples.0.residual.0.gamma", (1, 1)),
    "a SeedVR2 transformer (3B)": ("blocks.31.attn.proj_qkv.all.weight", (2, 2)),
    "a SeedVR2 transformer (7B)": ("blocks.0.attn.proj_qkv.vid.weight", (2, 2)),
    "a SwiftVR VAE": ("encoder.4.conv.0.weight", (2, 4, 3, 3)),
    "a SwiftVR transformer": ("blocks.0.attn1.to_q.weight", (2, 2)),
    "a SwiftVR prompt": ("prompt_emb", (1, 9, 40)),
    "a VAE for single images": ("encoder.down.0.block.0.conv1.weight", (2, 2, 3, 3)),
    "a text embedding": ("embedding", (58, 24)),
    "another model": ("unet.weight", (2,)),
}


@pytest.fixture(params=LOADERS)
def title(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def path(tmp_path: Path, title: str) -> Path:
    """A right file."""
    LOADERS[title][1](tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def save(path: Path, tensors: dict[str, Tensor]) -> None:
    """Save other tensors with the metadata of the file."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    save_file(tensors, path, metadata)


def assert_refused(title: str, path: Path, error: type[errors.EngineError], words: str) -> None:
    for form in ("plain", "fast"):
        with pytest.raises(error, match=re.escape(words)) as caught:
            LOADERS[title][0](path, form=form)
        assert caught.value.hint


@pytest.mark.parametrize("every", [48, *extended(12)])  # step from tensor to tensor
def test_wrong_tensors_are_named(title: str, path: Path, every: int) -> None:
    right, bias = load_file(path), LOADERS[title][2]
    more = f"{bias}.more"
    save(path, right | {more: torch.zeros(1)})
    assert_refused(title, path, errors.ExtraKeys, f"1 unknown: {more}.")
    save(path, right | {bias: right[bias].to(torch.int8)})
    assert_refused(title, path, errors.WrongNumbers, f"{bias} I8")
    for name in [bias, *(name for name in list(right)[::every] if "rope" not in name)]:
        save(path, {n: value for n, value in right.items() if n != name})
        assert_refused(title, path, errors.MissingKeys, f"1 missing: {name}.")
        save(path, right | {name: torch.zeros(*right[name].shape[:-1], 7)})
        assert_refused(title, path, errors.WrongShapes, f"1 with another shape: {name} ")


def test_files_of_other_models_are_named(title: str, path: Path) -> None:
    for what, (name, shape) in OTHERS.items():
        family, _, kind = title.partition(" ")
        if family not in what or kind not in what:
            save_file({name: torch.zeros(shape)}, path)
            words = f"model.safetensors is {what}, not a {title}."
            assert_refused(title, path, errors.WrongModel, words)
    with pytest.raises(errors.WrongModel) as caught:
        LOADERS[title][0](path, form="fast")
    assert HINTS.get(title, "") in caught.value.hint


def test_files_that_are_none(title: str, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])
    assert_refused(title, path, errors.WeightsTruncated, "incomplete")
    for content, words in ((b"", "empty"), (b"<html>", "web page")):
        path.write_bytes(content)
        assert_refused(title, path, errors.NotSafetensors, words)
    path.unlink()
    assert_refused(title, path, errors.WeightsMissing, "model.safetensors")
