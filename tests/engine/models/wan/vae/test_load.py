"""Every layout of every model loads into both forms; each kind of wrong file has its own error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.core.errors import (
    ExtraKeys,
    MissingKeys,
    NotSafetensors,
    UnsafeWeights,
    WeightsDamaged,
    WeightsError,
    WeightsMissing,
    WeightsTruncated,
    WrongModel,
    WrongNumbers,
    WrongShapes,
)
from engine.models.wan.vae.load import FORMS, Form, load_wan
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


@pytest.mark.parametrize("names", ["wan", "diffusers"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_model(path: Path, layout: str, names: str, form: Form) -> None:
    written = write_wan(path, tiny_wan_config(layout), layout=names)
    vae = load_wan(path, form=form, dtype=torch.float64)
    assert vae.config == written.config
    latent = torch.randn(1, vae.config.latent_channels, 2, 2, 1, dtype=torch.float64)
    torch.testing.assert_close(vae.decode(latent), written.decode(latent), rtol=0, atol=1e-10)


def test_a_plain_model_is_ready_for_inference(path: Path) -> None:
    write_wan(path)
    vae = load_wan(path, form="plain")
    assert isinstance(vae, WanVae)
    assert not vae.training
    assert not any(parameter.requires_grad for parameter in vae.parameters())


@pytest.mark.parametrize("name", ["model.pth", "model.pt"])
def test_an_original_pickle_loads(tmp_path: Path, name: str, form: Form) -> None:
    written = write_wan(tmp_path / "model.pth", dtype=torch.float32)
    (tmp_path / "model.pth").rename(tmp_path / name)
    vae = load_wan(tmp_path / name, form=form, dtype=torch.float64)
    latent = torch.randn(1, 16, 1, 2, 1, dtype=torch.float64)
    torch.testing.assert_close(vae.decode(latent), written.decode(latent), rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_numbers_are_those_of_the_file(path: Path, dtype: str) -> None:
    """Eight bits without scales are in the wild: they are widened when they are read."""
    write_wan(path, dtype=getattr(torch, dtype))
    vae = load_wan(path, form="plain", dtype=torch.float32)
    for name, value in load_file(path).items():
        assert torch.equal(vae.state_dict()[name], value.float())


@pytest.mark.parametrize("prefix", ["vae.", "first_stage_model."])
def test_a_prefix_does_not_matter(path: Path, prefix: str, form: Form) -> None:
    write_wan(path)
    save_file({prefix + name: value for name, value in load_file(path).items()}, path)
    assert load_wan(path, form=form).config == tiny_wan_config()


def test_eight_bits_give_both_forms_the_same_numbers(path: Path) -> None:
    write_wan(path, dtype=torch.float8_e5m2)
    plain, fast = (load_wan(path, form=form, dtype=torch.float64) for form in FORMS)
    latent = torch.randn(1, 16, 1, 2, 1, dtype=torch.float64)
    torch.testing.assert_close(fast.decode(latent), plain.decode(latent), rtol=0, atol=1e-10)


def test_numbers_too_large_for_half_precision_are_told(path: Path) -> None:
    write_wan(path, dtype=torch.float32)
    save_file(load_file(path) | {BIAS: torch.full((32,), 1e6)}, path)
    assert load_wan(path, form="plain").get_parameter(BIAS).max() == 1e6
    with pytest.raises(WrongNumbers, match="infinite"):
        load_wan(path, form="plain", dtype=torch.float16)


def changed(path: Path, change: Callable[[dict[str, Tensor]], object]) -> Path:
    write_wan(path)
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    return path


BIAS = "decoder.conv1.bias"
WRONG: dict[str, tuple[Callable[[dict[str, Tensor]], object], type[WeightsError], str]] = {
    "missing": (lambda t: t.pop(BIAS), MissingKeys, rf"1 missing: {BIAS}\.$"),
    "more": (
        lambda t: t.update({"decoder.more": torch.ones(1)}),
        ExtraKeys,
        r"1 unknown: decoder\.more\.$",
    ),
    "misshapen": (
        lambda t: t.update({BIAS: torch.ones(7)}),
        WrongShapes,
        rf"{BIAS} 7 instead of 32",
    ),
    "whole numbers": (
        lambda t: t.update({BIAS: t[BIAS].to(torch.int8)}),
        WrongNumbers,
        rf"{BIAS} I8",
    ),
    "none": (
        lambda t: t[BIAS].view(-1)[3].fill_(float("nan")),
        WrongNumbers,
        rf"NaN or infinite: {BIAS}\.$",
    ),
    "twice": (
        lambda t: t.update({"decoder.up_blocks.0.resnets.0.norm1.gamma": torch.ones(8),
                            "encoder.conv_in.weight": torch.ones(8)}),
        ExtraKeys,
        "a part of the model twice",
    ),
    "four channels": (
        lambda t: t.update({"encoder.conv1.weight": torch.ones(8, 4, 3, 3, 3)}),
        WrongModel,
        "reads 4 channels and writes 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_tensors(path: Path, what: str, form: Form) -> None:
    change, error, words = WRONG[what]
    with pytest.raises(error, match=words) as caught:
        load_wan(changed(path, change), form=form)
    assert caught.value.hint


def test_any_missing_tensor_is_named(path: Path) -> None:
    for name in list(write_wan(path).state_dict())[::9]:
        with pytest.raises(MissingKeys, match=rf"1 missing: {name}\.$"):
            load_wan(changed(path, lambda tensors, name=name: tensors.pop(name)), form="plain")


OTHERS = {
    "a SeedVR2 VAE": {"encoder.down_blocks.0.resnets.0.conv1.weight": (2, 2, 3, 3, 3)},
    "a VAE for single pictures": {"encoder.down.0.block.0.conv1.weight": (2, 2, 3, 3)},
    "a SeedVR2 transformer (7B)": {"blocks.0.attn.proj_qkv.vid.weight": (2, 2)},
    "another model": {"blocks.0.self_attn.q.weight": (2, 2), "head.weight": (2, 2)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_model_is_named(path: Path, what: str) -> None:
    save_file({name: torch.ones(shape) for name, shape in OTHERS[what].items()}, path)
    with pytest.raises(WrongModel) as caught:
        load_wan(path, form="plain")
    assert caught.value.message == f"model.safetensors is {what}, not a Wan VAE."


def test_files_that_are_none(tmp_path: Path, path: Path, form: Form) -> None:
    with pytest.raises(WeightsMissing):
        load_wan(path, form=form)
    path.write_bytes(b"")
    with pytest.raises(NotSafetensors, match="empty"):
        load_wan(path, form=form)
    path.write_text("<html>")
    with pytest.raises(NotSafetensors, match="web page"):
        load_wan(path, form=form)
    write_wan(path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(WeightsTruncated, match="cut short"):
        load_wan(path, form=form)


def test_pickles_that_are_none(tmp_path: Path, form: Form) -> None:
    path = tmp_path / "model.pth"
    write_wan(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(WeightsTruncated):
        load_wan(path, form=form)
    torch.save({"model": {"step": 3}}, path)
    with pytest.raises(WeightsDamaged, match="something else than a list of tensors"):
        load_wan(path, form=form)
    torch.save({"weight": torch.ones(2), "when": Path("x")}, path)
    with pytest.raises(UnsafeWeights, match="could run a program"):
        load_wan(path, form=form)


MEASURE = """
import re, sys, time, torch
from pathlib import Path
from engine.models.wan.vae.load import load_wan

def peak():  # of this process alone: what resource tells begins with that of its parent
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

before, start = peak(), time.perf_counter()
vae = load_wan(Path(sys.argv[1]), form="plain", dtype=getattr(torch, sys.argv[2]))
took, after = time.perf_counter() - start, peak()
sizes = [p.numel() for p in vae.parameters()]
print(sum(sizes), max(sizes), after - before, f"{took:.1f}")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is told by /proc")
@pytest.mark.parametrize("kind", ["fp16", "bf16", "fp16 diffusers", "fp16 prefixed", "pth"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_full_size_files_load_strictly_in_the_memory_of_the_model(
    tmp_path: Path, layout: str, kind: str
) -> None:
    """Into fp16: the model and one tensor of the file, and never the file a second time."""
    about = json.loads((GOLDEN / f"manifest_{FULL[layout]}.json").read_text())
    dtype = {"bf16": torch.bfloat16, "pth": torch.float32}.get(kind, torch.float16)
    if kind == "pth" and layout == "2.2":
        dtype = torch.float16
    path = tmp_path / ("model.pth" if kind == "pth" else "model.safetensors")
    size = _write_random(path, about["keys"], dtype, kind, layout)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), "float16"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    path.unlink()
    count, largest, grown, seconds = (float(word) for word in done.stdout.split())
    sys.stderr.write(
        f"\n{layout} {kind}: file {size / 1e6:.0f} MB, {seconds} s, {grown / 1e6:.0f} MB more\n"
    )
    assert count == about["param_count"]
    model = 2 * count
    mapped = size if kind == "pth" else 0  # pages of the file, which the system takes back
    code = model // 2  # pages of libraries that are touched for the first time come and go
    assert grown <= model + mapped + 3 * 4 * largest + code


def _write_random(
    path: Path, keys: dict[str, list[int]], dtype: torch.dtype, kind: str, layout: str
) -> int:
    """Write random numbers under the published names; bytes of the file."""
    generator = torch.Generator().manual_seed(1)
    tensors = {
        name: torch.empty(shape, dtype=dtype).uniform_(-0.1, 0.1, generator=generator)
        for name, shape in keys.items()
    }
    if kind.endswith("diffusers"):
        table = json.loads(
            (GOLDEN / f"diffusers_keymap_wan{layout[:3].replace('.', '').replace('2x', '21')}.json")
            .read_text()
        )["table"]  # fmt: skip
        tensors = {theirs: tensors[ours] for theirs, ours in table.items()}
    elif kind.endswith("prefixed"):
        tensors = {f"first_stage_model.{name}": value for name, value in tensors.items()}
    torch.save(tensors, path) if kind == "pth" else save_file(tensors, path)
    return path.stat().st_size
