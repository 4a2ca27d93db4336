"""Single operations of the Wan VAEs: norm, patches, shuffle, shortcuts, resamplers in slices.

The plain variant's; the fast variant folds most of them into others, where the traces see them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from engine.models.wan.vae.config import WAN2X, WAN22, Stage
from engine.models.wan.vae.plain import (
    AveragedShortcut,
    RepeatedShortcut,
    WanDownsampler,
    WanRmsNorm,
    WanUpsampler,
    patches,
    pictures,
)
from engine.ops.conv.causal_conv import Carry
from engine.ops.norm.rms_norm import rms_norm_silu
from tests.golden import files
from tests.golden.outcome import Outcome, compared

LIMIT = 2e-5
_SHORTCUT = re.compile(r"ci(\d+)_co(\d+)_ft(\d)_fs(\d)(?:_first(\d))?$")
# Frames of the slices in which each resampler of the reference was run.
_LENGTHS = {"up3d": [1, 1, 1, 1], "down3d": [1, 4, 4]}

Run = Callable[[Tensor], Tensor]


@torch.inference_mode()
def check_units(path: Path) -> Iterator[Outcome]:
    """Every result in a file of single operations."""
    tensors = files.tensors(path)
    for name, wanted in tensors.items():
        if not name.endswith(".y"):
            continue
        group = name.removesuffix(".y")
        given = tensors[f"{'up2x_shuffle' if group == 'unpatchify_same_input' else group}.x"]
        runs = list(_runs(group, tensors))
        if not runs:
            yield Outcome(case=f"{path.name} {name}", problem="unknown operation")
        for how, run in runs:
            yield compared(f"{path.name} {name}{how}", run(given), wanted, LIMIT)


def _runs(group: str, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Run]]:
    """All variants of an operation, with a remark each."""
    kind = group.partition(".")[0]
    if kind == "rms":
        gamma = tensors["rms.gamma"]
        yield " [plain]", _with(WanRmsNorm(len(gamma)), {"gamma": gamma})
        yield " [fused]", lambda x: _fused_norm(x, gamma)
    elif kind == "patchify":
        yield "", lambda x: patches(x, WAN22.patch)
    elif kind == "up2x_shuffle":
        yield "", lambda x: pictures(x, WAN2X)
    elif kind == "unpatchify_same_input":
        yield "", lambda x: pictures(x, WAN22)
    elif kind in ("avgdown", "dupup"):
        yield "", _shortcut(group)
    elif kind[:-3] in _LENGTHS:
        yield "", _in_slices(_resampler(group, tensors), _LENGTHS[kind[:-3]])


def _with(module: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    module.load_state_dict(dict(weights))
    return module


def _fused_norm(x: Tensor, gamma: Tensor) -> Tensor:
    frames = x[0].transpose(0, 1).contiguous(memory_format=torch.channels_last)
    found = torch.empty_like(frames)
    rms_norm_silu(frames, gamma.flatten(), found, silu=False)
    return found.transpose(0, 1).unsqueeze(0)


def _shortcut(group: str) -> Run:
    match = _SHORTCUT.search(group)
    if match is None:
        raise ValueError(f"{group} does not state what it is")
    inner, outer, time, space = (int(number) for number in match.groups()[:4])
    stage = _stage(inner, outer, time=time > 1, space=space > 1)
    part = AveragedShortcut(stage) if match[5] is None else RepeatedShortcut(stage)
    carry = Carry() if match[5] != "0" else Carry().begin().done()
    return lambda x: part(x, carry)


def _resampler(group: str, tensors: Mapping[str, Tensor]) -> nn.Module:
    beginning = f"{group}.w."
    weights = {n.removeprefix(beginning): v for n, v in tensors.items() if n.startswith(beginning)}
    outer, inner = weights["resample.1.weight"].shape[:2]
    stage = _stage(inner, outer, time=True, space=True)
    return _with((WanUpsampler if group.startswith("up") else WanDownsampler)(stage), weights)


def _stage(inner: int, result: int, *, time: bool, space: bool) -> Stage:
    return Stage(inner=inner, outer=inner, blocks=0, result=result, space=space, time=time)


def _in_slices(part: nn.Module, lengths: Sequence[int]) -> Run:
    def run(x: Tensor) -> Tensor:
        carry, found = Carry(), []
        for frames in x.split(list(lengths), dim=2):
            carry = carry.begin()
            found.append(part(frames, carry))
            carry = carry.done()
        return torch.cat(found, dim=2)

    return run
