"""Conversion of the transformer: the same model in 16 bits, whatever interrupts it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.core import errors
from engine.core.control import Control
from engine.files.transfer import Listener
from engine.models.swiftvr.convert import Format, convert
from engine.models.swiftvr.dit.fast import FastSwiftDit
from engine.models.swiftvr.load import SwiftOptions, load_swift_dit
from engine.ops.linear.formats import fault_of
from tests.helpers.extended import rest_extended
from tests.helpers.seedvr2 import random_frames
from tests.helpers.swiftvr import PROMPT, TINY_DIT, write_dit
from tests.helpers.tensors import relative_rms

NAME = "swiftvr_bf16.safetensors"
HALF = torch.bfloat16


@pytest.fixture(params=rest_extended((4, 30), 4))
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A published file; its prompt has few keys, or many."""
    write_dit(tmp_path / "model.safetensors", rows=request.param)
    return tmp_path / "model.safetensors"


def converted(
    path: Path, folder: str = "out", listener: Listener | None = None, kind: Format = "bf16"
) -> Path:
    return convert(path, path.parent / PROMPT, path.parent / folder, NAME, listener, kind=kind)


def result_of(path: Path, **about: Any) -> Tensor:
    latent = random_frames(1, TINY_DIT.channels, 2, 6, 8).to(HALF)
    found: Tensor = load_swift_dit(path, dtype=HALF, **about)(latent)
    return found


def test_it_is_the_model_that_is_loaded_without_it(path: Path) -> None:
    wanted = result_of(path, prompt=path.parent / PROMPT)
    made = converted(path)
    assert torch.equal(result_of(made), wanted)
    for resident in (0, 1):
        assert torch.equal(result_of(made, options=SwiftOptions(blocks_on_device=resident)), wanted)
    assert made.stat().st_size < path.stat().st_size * 1.1  # that has float16, and what is folded
    found = load_file(made)  # the published library reads it too
    assert {tensor.dtype for tensor in found.values()} == {HALF, torch.float32}


@pytest.mark.parametrize("kind", ["int8", "fp16", "fp8"])
def test_it_may_have_8_bits(path: Path, kind: Format) -> None:
    """The values are those that the published file is rounded to when it is loaded."""
    made = converted(path, kind=kind)
    found = load_file(made)
    dtype = {"int8": torch.int8, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}[kind]
    assert found["blocks.1.ffn.net.2.weight"].dtype == dtype
    if fault_of(kind, torch.device("cpu")) if kind != "fp16" else "":
        with pytest.raises(errors.FeatureMissing):
            load_swift_dit(made)
        return
    about = {"products": "none" if kind == "fp16" else kind}
    wanted = result_of(path, prompt=path.parent / PROMPT, options=SwiftOptions(**about))
    limit = 0.05 if kind == "fp16" else 0  # of values in bfloat16
    for stay in (None, 1):
        again = result_of(made, options=SwiftOptions(blocks_on_device=stay, **about))
        assert relative_rms(again, wanted) <= limit


@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_8_bits_continue_after_an_interruption(path: Path, kind: Format) -> None:
    right = converted(path, "right", kind=kind).read_bytes()
    with pytest.raises(errors.Cancelled):
        converted(path, listener=interrupting(41)[0], kind=kind)
    assert converted(path, kind=kind).read_bytes() == right


def interrupting(tensors: int) -> tuple[Listener, list[int]]:
    """A listener that cancels after some tensors, and the bytes that were reported to it."""
    control, seen = Control(), list[int]()

    def progress(done: int, _total: int) -> None:
        seen.append(done)
        if len(seen) == tensors:
            control.cancel()

    return Listener(on_progress=progress, control=control), seen


@pytest.mark.parametrize("tensors", rest_extended((1, 2, 18, 25, 40, 60), 25, 60))
def test_it_continues_after_an_interruption(path: Path, tensors: int) -> None:
    right = converted(path, "right").read_bytes()
    with pytest.raises(errors.Cancelled):
        converted(path, listener=interrupting(tensors)[0])
    part = path.parent / "out" / f"{NAME}.part"
    kept = part.stat().st_size
    listener, seen = interrupting(0)
    assert converted(path, listener=listener).read_bytes() == right
    assert not part.exists()
    assert seen == sorted(seen)
    block = len(right) // TINY_DIT.layers
    assert kept - block <= seen[0], "more than a block was made again"


def test_what_was_not_on_the_disk_is_made_again(path: Path) -> None:
    """After a power failure the end of a file may be missing, or be zeros."""
    right = converted(path, "right").read_bytes()
    for cut in (len(right) // 3, len(right) // 2 + 7, len(right) - 1, 5, 0):
        part = path.parent / "out" / f"{NAME}.part"
        part.parent.mkdir(exist_ok=True)
        part.write_bytes(right[:cut])
        assert converted(path).read_bytes() == right
        (path.parent / "out" / NAME).unlink()


def test_another_prompt_begins_anew(path: Path) -> None:
    with pytest.raises(errors.Cancelled):
        converted(path, listener=interrupting(40)[0])
    prompt = load_file(path.parent / PROMPT)
    save_file(prompt | {"prompt_emb": prompt["prompt_emb"] * 2}, path.parent / PROMPT)
    found = converted(path)
    assert found.read_bytes() == converted(path, "right").read_bytes()


def test_a_file_that_is_there_is_kept(path: Path) -> None:
    made = converted(path)
    path.unlink()
    before = made.stat().st_mtime_ns
    assert converted(path) == made
    assert made.stat().st_mtime_ns == before


def test_too_little_space_is_said_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = SimpleNamespace(free=64 * 10**6 + 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: space)
    with pytest.raises(errors.DiskFull, match=r"but the converted model needs .* more"):
        converted(path)


def test_a_full_disk_keeps_what_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def full(_descriptor: int) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(errors.DiskFull) as caught:
            converted(path)
    assert "continued" in caught.value.hint
    assert converted(path).read_bytes() == converted(path, "right").read_bytes()


def test_a_converted_file_that_is_wrong_is_refused(path: Path) -> None:
    made = converted(path)
    tensors = load_file(made)
    with safe_open(made, "pt") as file:
        metadata = file.metadata()
    name = "blocks.1.attn2.log_counts"
    save_file({key: one for key, one in tensors.items() if key != name}, made, metadata)
    with pytest.raises(errors.MissingKeys, match=f"1 missing: {name}"):
        load_swift_dit(made)
    for config in ("{}", "[]", '{"layers": "many"}', metadata["config"].replace("16", "15", 1)):
        save_file(tensors, made, {**metadata, "config": config})
        with pytest.raises(errors.UnknownKeys, match="sizes in this SwiftVR transformer"):
            load_swift_dit(made)
    save_file(tensors, made, metadata)
    assert isinstance(load_swift_dit(made), FastSwiftDit)
    with pytest.raises(ValueError, match="fast variant"):
        load_swift_dit(made, form="plain")
    with pytest.raises(ValueError, match="needs its prompt"):
        load_swift_dit(path)
