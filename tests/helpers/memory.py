"""Memory on the processor: allocations of torch, refused ones, and plans to be measured."""

from __future__ import annotations

import ctypes
import gc
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
import torch

from engine.bench.memory import AllocationLog
from engine.core.geometry import Size
from engine.models.seedvr2.plan import SeedVr2Plan, latents_of, layout_of
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.wan.plan import WanPlan
from engine.protocol.plan import WeightsPlan, WorkPlan
from engine.settings.optimisations import DitSwitches, VaeSwitches
from engine.settings.switches import Switches
from tests.helpers.dispatch import DispatchMode
from tests.helpers.seedvr2 import tiny_dit_config, write_dit, write_vae
from tests.helpers.wan import tiny_wan_config, write_wan

_HAS_BFLOAT16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
HALF = "bfloat16" if _HAS_BFLOAT16 else "float32"
"""Half precision in which this processor convolves, where it has one."""
BFLOAT16 = pytest.mark.skipif(
    not _HAS_BFLOAT16,
    reason="without AVX-512 torch convolves bfloat16 through copies that no plan counts",
)

Result = TypeVar("Result")


class Allocations(AllocationLog):
    """The most memory that tensors had while inside, above what they had at the beginning.

    torch's own record, to the byte: see `AllocationLog`.

    Attributes:
        peak_bytes: Highest sum of what was taken inside and not yet released.
        left_bytes: What is still there at the end.
        taken: Sizes of all allocations, in order.
        largest: Sizes of the largest ones, for messages.
        stages: The highest sum while calls of each stage ran (`marked`), and that of all the
            rest under "".
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak_bytes = self.left_bytes = 0
        self.taken: list[int] = []
        self.largest: list[int] = []
        self.stages: dict[str, int] = {}

    def __enter__(self) -> Allocations:
        gc.disable()  # or garbage of earlier tests is released inside
        _call_as_python_does()
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        gc.enable()
        for time, change in self.changes:
            self.left_bytes += change
            stage = self._stage_at(time)
            self.stages[stage] = max(self.stages.get(stage, 0), self.left_bytes)
        self.peak_bytes = max(self.stages.values(), default=0)
        self.taken = [change for _, change in self.changes if change > 0]
        self.largest = sorted(self.taken)[-8:]

    def _stage_at(self, time: int) -> str:
        """Of the last scope that began by then, if it had not ended; marked calls do not nest."""
        index = bisect_right(self.scopes, time, key=lambda scope: scope[0]) - 1
        if index < 0 or time > self.scopes[index][1]:
            return ""
        return self.scopes[index][2]


def _call_as_python_does() -> None:
    """Take torch's evaluator of frames away, which stays after a `torch.compile` that failed.

    Through it what calls a function keeps the arguments until it returns; in a usual process they
    are gone as soon as the function drops them.
    """
    python = ctypes.pythonapi
    python.PyInterpreterState_Get.restype = ctypes.c_void_p
    usual = ctypes.cast(python._PyEval_EvalFrameDefault, ctypes.c_void_p)
    interpreter = ctypes.c_void_p(python.PyInterpreterState_Get())
    python._PyInterpreterState_SetEvalFrameFunc(interpreter, usual)


def marked(stage: str, work: Callable[..., Result]) -> Callable[..., Result]:
    """The same call, counted by `Allocations` as part of a stage."""

    def call(*args: Any, **options: Any) -> Result:
        with torch.profiler.record_function(stage):
            return work(*args, **options)

    return call


class RunsOut(DispatchMode):
    """Refuses the n-th operator that gives new memory, in the thread that entered it.

    Operators that only look at what is there (views) or write into it are not counted.

    Attributes:
        count: Such operators so far.
        refused: Name of the operator that was refused; "" before that.
        at_refusal: Called then, before the error is raised.
    """

    def __init__(self, at: int = 0, *, again: int = 0) -> None:
        """Refuse number `at`, 0 for none, and with `again` so many right after it too."""
        super().__init__()
        self._refused_ones = range(at, at + again + 1) if at else range(0)
        self.count = 0
        self.refused = ""
        self.at_refusal: Callable[[], None] = lambda: None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if _makes_new(func) and _takes(result):
            self.count += 1
            if self.count in self._refused_ones:
                self.refused = str(func)
                self.at_refusal()
                raise torch.OutOfMemoryError(f"refused: allocation {self.count}, {func}")
        return result


@cache
def _makes_new(func: Any) -> bool:
    """Whether an operator gives something that is no argument of it."""
    return any(each.alias_info is None for each in func._schema.returns)


def _takes(result: Any) -> bool:
    """Whether a result has memory: neither a number nor a tensor without any."""
    parts = result if isinstance(result, tuple | list) else (result,)
    return any(isinstance(part, torch.Tensor) and part.device.type != "meta" for part in parts)


SEEDVR2_VAE = VaeConfig(
    block_out_channels=(16, 32, 64, 64), layers_per_block=1, norm_groups=8, latent_channels=16
)
TEXT_TOKENS = 58  # as published: plans count on it
_DITS: dict[str, dict[str, int]] = {
    "3b": {"separate_layers": 1, "mlp_hidden": 704, "rope_dim": 64},
    "7b": {"separate_layers": 3, "mlp_hidden": 1024, "rope_dim": 32},
}
_FOLDER = TemporaryDirectory(prefix="upreel-memory-")  # is gone with the process
_OFF = ("ring_buffers", "planned_buffers", "in_place", "fused_norm", "first_frame_fold")


@cache
def _file(kind: str) -> WeightsPlan:
    """A small file of "3b", "7b", "vae", "text" or "wan", made once."""
    path = Path(_FOLDER.name) / f"{kind}.safetensors"
    if kind in _DITS:
        sizes = {"dim": 256, "heads": 4, "head_dim": 64, "layers": 3, **_DITS[kind]}
        write_dit(path, tiny_dit_config(kind, **sizes))
    elif kind == "vae":
        write_vae(path, SEEDVR2_VAE)
    elif kind == "text":
        path = path.with_suffix(".pt")
        torch.save(torch.zeros(TEXT_TOKENS, 24).bfloat16(), path)
    else:
        write_wan(path, tiny_wan_config("2x", dim=8, dec_dim=8))
    return planned_file(path)


def planned_file(path: Path) -> WeightsPlan:
    """A file as a plan names it."""
    about = path.stat()
    return WeightsPlan(path=path, bytes=about.st_size, modified_ns=about.st_mtime_ns)


def seedvr2_plan(kind: str = "3b", size: Size = Size(112, 96), **changes: Any) -> SeedVr2Plan:
    """A SeedVR2 plan with some fields changed."""
    layout = layout_of(size)
    parts: dict[str, Any] = {
        "dit": _file(kind),
        "vae": _file("vae"),
        "text": _file("text"),
        "size": size,
        "padded": layout.padded,
        "reflected": layout.reflected,
        "clip": 3,
        "shared": 1,
    }
    return SeedVr2Plan(**{"model": f"seedvr2-{kind}", **parts, **changes})


def wan_plan(size: Size = Size(96, 80), **changes: Any) -> WanPlan:
    """A plan of Wan 2x with some fields changed."""
    padded = Size(-(-size.width // 8) * 8, -(-size.height // 8) * 8)
    return WanPlan(**{"vae": _file("wan"), "size": size, "padded": padded, **changes})


def random_seedvr2(seed: int) -> tuple[WorkPlan, int]:
    """A plan, and frames of a shot that is long enough for its steady state."""
    pick = Random(seed)
    size = pick.choice([Size(112, 96), Size(128, 80), Size(104, 120)])
    clip = max(3, pick.randint(2, 4))  # of fewer, scratch outweighs the tokens
    changes: dict[str, Any] = {
        "clip": clip,
        "shared": min(pick.randint(0, 2), (clip - 1) // 2),
        "vae_dtype": pick.choice(["float32", "float32", HALF]),
        "dtype": pick.choice(["float32", HALF]),
        "switches": _switches(pick),
        "strength": pick.choice([100, 100, 60]),
    }
    tiles = pick.choice(["none", "decode", "decode", "whole", "encode", "both"])
    frames = 8 * clip + 5  # more of them take no more
    if tiles in ("decode", "both"):
        size = pick.choice([Size(192, 112), Size(128, 192)])
        changes["decode_tile"] = Size(160, 160)
    if tiles == "whole":
        size = pick.choice([Size(240, 96), Size(112, 232)])
        changes |= {"decode_tile": Size(208, 208), "decodes_whole_tiles": True}
    if tiles in ("encode", "both"):
        changes["encode_tile"] = Size(80, 80)
    changes["encode_span"] = 2
    if tiles != "none":
        changes["warm_up"] = pick.choice([0, 0, 2, 4])
        changes["encode_span"] = pick.choice([4, 8])
        changes["decode_span"] = pick.choice([2, 4, 8])
        frames = 101  # until a span that is not the last follows one with all that is kept
    return seedvr2_plan(pick.choice(["3b", "7b"]), size, **changes), frames


def random_short_film(seed: int) -> tuple[WorkPlan, int]:
    """The same of a film that is known to be short: one span, a still among them."""
    plan, _ = random_seedvr2(seed)
    assert isinstance(plan, SeedVr2Plan)
    film = Random(seed).choice([1, 17, 21, 33])
    latents = latents_of(film)
    clip = min(plan.clip, latents)
    known = {"film": film, "clip": clip, "shared": min(plan.shared, (clip - 1) // 2)}
    spans = {"encode_span": latents, "decode_span": max(2, latents)}
    return replace(plan, **known, **spans), film


def random_wan(seed: int) -> tuple[WorkPlan, int]:
    """Plan for Wan 2x; tiles are visited three times, as the first and the last take less."""
    pick = Random(seed)
    size = pick.choice([Size(160, 136), Size(176, 120), Size(128, 168)])
    changes: dict[str, Any] = {
        "dtype": pick.choice(["float32", "float32", HALF]),
        "clip_frames": pick.choice([4, 4, 8]),
        "switches": _switches(pick),
    }
    tiles = pick.choice(["none", "decode", "encode", "both"])
    if tiles in ("decode", "both"):
        changes["decode_tile"] = Size(224, 224)
    if tiles in ("encode", "both"):
        changes["encode_tile"] = Size(112, 112)
    if tiles != "none":
        changes |= pick.choice([{}, {"warm_up": 4}, {"parks": True}])
    return wan_plan(size, **changes), 17 if tiles == "none" else 93


def _switches(pick: Random) -> Switches:
    """The usual ones, or one of the VAE's turned off."""
    if pick.random() < 0.7:
        return Switches()
    vae = VaeSwitches().changed(pick.choice(_OFF), on=False)
    return Switches(vae=vae, dit=DitSwitches())
