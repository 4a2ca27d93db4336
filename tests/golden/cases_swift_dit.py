"""The transformer of SwiftVR: strict names, prompt, windows, predictions, half precision, blocks.

Latents of the files are [1, channel, time, height, width]. Both variants are checked; the fast one
counts time from 0, wherever a case begins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.models.load import FORMS, Form
from engine.models.swiftvr.dit.config import (
    SWIFT_DIT,
    SwiftDitConfig,
    axis_starts,
    infer_swift_config,
    windows,
)
from engine.models.swiftvr.dit.plain import SwiftDit
from engine.models.swiftvr.load import AnySwiftDit, load_prompt, load_swift_dit
from tests.golden import files
from tests.golden.cases_swift_vae import HALVES, LIMITS, rms_of_range
from tests.golden.outcome import Outcome, compared, compared_names, right, traced_blocks

KIND = "swift_tiny_dit"
CONFIG, PROMPT = "swift_tiny_dit_config.json", "swift_tiny_prompt.safetensors"
_CASES = "swift_cases.json"


def dit_next_to(
    path: Path, form: Form, dtype: torch.dtype = torch.float32, **options: Any
) -> AnySwiftDit:
    """The tiny transformer next to a file of cases."""
    config, prompt = path.parent / CONFIG, path.parent / PROMPT
    weights = files.weights_of(path, KIND)
    return load_swift_dit(weights, prompt, form=form, dtype=dtype, config=config, **options)


def case_of(path: Path) -> dict[str, Any]:
    """Facts stated about the case of a file."""
    about = json.loads((path.parent / _CASES).read_text("utf-8"))
    found: dict[str, Any] = about["cases"].get(path.stem, {})
    return found


def check_manifest(path: Path) -> Iterator[Outcome]:
    """A list of names and shapes equals our module's, without any values."""
    about = json.loads(path.read_text("utf-8"))
    wanted = {name: tuple(shape) for name, shape in about["keys"].items()}
    config = infer_swift_config(wanted, about["config"])
    with torch.device("meta"):
        dit = SwiftDit(config)
    yield from compared_names(path, dit, wanted, about["param_count"])
    yield right(f"{path.name} configuration", config == SWIFT_DIT)


def check_weights(path: Path) -> Iterator[Outcome]:
    """A file of weights loads strictly."""
    for form in FORMS:
        dit_next_to(path, form)
        yield Outcome(case=f"{path.name} loads [{form}]")


def check_config(path: Path) -> Iterator[Outcome]:
    """The tiny configuration, and the shapes next to it, say the same."""
    stated = json.loads(path.read_text("utf-8"))
    config = dit_next_to(path, "plain").config
    yield right(f"{path.name} heads", config.heads == stated["num_attention_heads"])
    yield right(f"{path.name} MLP", config.hidden == stated["ffn_dim"])
    yield right(f"{path.name} window", list(config.window) == stated["self_attn_window_hw"])


def check_prompt(path: Path) -> Iterator[Outcome]:
    """The prompt is read, as wide as the transformer needs it."""
    rows = load_prompt(path, dit_next_to(path, "plain").config)
    yield compared(path.name, rows[None].float(), files.tensors(path)["prompt_emb"], 0.0)


def check_windows(path: Path) -> Iterator[Outcome]:
    """Starts along an axis; tokens of all windows of whole grids, and who answers each."""
    about = json.loads(path.read_text("utf-8"))
    for length, window, shifted, starts in about["axis_starts"]:
        case = f"{path.name} {length} tokens, window {window}, shifted {shifted}"
        yield right(case, axis_starts(length, window, bool(shifted)) == starts)
    for one in about["owners"]:
        config = replace(SWIFT_DIT, window=tuple(one["window"]))
        found = _owners(config, tuple(one["grid"]), one["shifted"])
        yield right(
            f"{path.name} {one['grid']} {one['shifted']}", found == (one["gather"], one["owner"])
        )


def _owners(
    config: SwiftDitConfig, grid: tuple[int, int, int], shifted: bool
) -> tuple[list[int], list[int]]:
    """Tokens of all windows, one after the other; for each token its place in that list."""
    numbers = torch.arange(grid[0] * grid[1] * grid[2]).view(grid)
    gather: list[list[int]] = []
    owner = [0] * numbers.numel()
    for rows, columns in windows(config, grid, shifted):
        inside = numbers[:, rows.start : rows.end, columns.start : columns.end].flatten().tolist()
        before = sum(map(len, gather))
        answered = numbers[:, rows.first : rows.stop, columns.first : columns.stop]
        for token in answered.flatten().tolist():
            owner[token] = before + inside.index(token)
        gather.append(inside)
    return list(chain(*gather)), owner


@torch.inference_mode()
def check_cases(path: Path) -> Iterator[Outcome]:
    """The prediction of a file, in half precision too."""
    tensors, about = files.tensors(path), case_of(path)
    window = tuple(about["window"]) if "window" in about else None
    latent, first = tensors["latent"], int(about.get("rope_offset", 0))
    exact = _velocity(dit_next_to(path, "plain", torch.float64), latent.double(), first, window)
    for form in FORMS:
        velocity = _velocity(dit_next_to(path, form), latent, first, window)
        yield compared(
            f"{path.name} velocity [{form}]", velocity, tensors["velocity"], LIMITS[form]
        )
        if "restored" in tensors:
            found, wanted = latent - velocity, tensors["restored"]
            yield compared(f"{path.name} restored [{form}]", found, wanted, LIMITS[form])
        for dtype, limit in HALVES.items():
            found = _velocity(dit_next_to(path, form, dtype), latent.to(dtype), first, window)
            case = f"{path.name} velocity [{form}, {dtype}]"
            yield Outcome(case=case, error=rms_of_range(found, exact), limit=limit)


def _velocity(
    dit: AnySwiftDit, latent: Tensor, first: int, window: tuple[int, int] | None
) -> Tensor:
    if window is not None:
        dit.config = replace(dit.config, window=window)
    found: Tensor = dit(latent, first) if isinstance(dit, SwiftDit) else dit(latent)
    return found


@torch.inference_mode()
def check_trace(path: Path) -> Iterator[Outcome]:
    """Outputs of all parts; the fast variant shows its blocks only. Limits grow with the values."""
    tensors = files.tensors(path)
    latent = tensors.pop("input.latent")
    for form in FORMS:
        found: dict[str, Tensor] = {}
        dit = dit_next_to(path, form)
        with traced_blocks(dit, found):
            found["output.velocity"] = dit(latent)
        for name, wanted in tensors.items():
            case = f"{path.name} {name} [{form}]"
            if name in found:
                limit = LIMITS[form] * max(1.0, float(wanted.abs().max()))
                yield compared(case, found[name].reshape(wanted.shape), wanted, limit)
            elif form == "plain":
                yield Outcome(case=case, problem="no part of this name ran")
