"""Whole shots on the pretended GPU: the processor's pictures, no race, few waits."""

from __future__ import annotations

import gc
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.ops.attention import attention
from engine.protocol.plan import WorkPlan
from engine.settings.optimisations import DitSwitches, VaeSwitches
from engine.settings.switches import Switches
from tests.helpers.extended import rest_extended
from tests.helpers.memory import seedvr2_plan, wan_plan
from tests.pretended_gpu.machine import pretended_gpu
from tests.pretended_gpu.shots import pictures

pytestmark = pytest.mark.pretended_gpu

NORMS = ("kernel group_statistics", "kernel add_residual", "kernel scale_and_shift")
ROWS = ("kernel rms_modulate", "kernel add_gated", "kernel swiglu", "kernel gather_qk")
SEEDVR2, WAN = frozenset((*NORMS, "kernel normalise", *ROWS)), frozenset(["kernel rms_norm"])
HALF = "float16"
THREE_D, USUAL = VaeSwitches(convolution="3d"), DitSwitches()
ENCODED = {"size": Size(120, 32), "encode_tile": Size(80, 80), "encode_span": 4}
DECODED = {"size": Size(168, 32), "decode_tile": Size(160, 160), "decode_span": 2}
PARKED = {"park_pin_bytes": 10**9}
WHOLE = {
    "size": Size(216, 48),
    "decode_tile": Size(208, 208),
    "decodes_whole_tiles": True,
    "decode_span": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A plan, and what only concerns the GPU.

    Attributes:
        make: Makes the plan of the family.
        changes: Of the plan.
        frames: Of the shot.
        dtype: On the GPU; the processor's is float32.
        on_gpu: Changes of the plan there.
        vae, dit: Switches there.
        kernels: That it has to reach.
    """

    make: Callable[..., Any] = seedvr2_plan
    changes: dict[str, Any] = field(default_factory=dict)
    frames: int = 13
    dtype: str = "float32"
    on_gpu: dict[str, Any] = field(default_factory=dict)
    vae: VaeSwitches = THREE_D
    dit: DitSwitches = USUAL
    kernels: frozenset[str] = SEEDVR2

    def plan(self) -> WorkPlan:
        """The plan for the processor."""
        plain = Switches(vae=VaeSwitches(convolution="2d"))
        return self.make(switches=plain, **self.changes)

    def plan_for_gpu(self) -> WorkPlan:
        """The same for the GPU."""
        switches = Switches(vae=self.vae, dit=self.dit)
        own = {"vae_dtype": self.dtype, "attention": "math"} if self.make is seedvr2_plan else {}
        place = {"device": "cuda", "dtype": self.dtype, "switches": switches}
        return replace(self.plan(), **place, **own, **self.on_gpu)


LARGER = {"make": wan_plan, "kernels": WAN, "frames": 37}
TILED_WAN = {"size": Size(144, 64), "decode_tile": Size(224, 224)}
CASES = {
    "seedvr2-3b": Case(),
    "seedvr2-7b-2d-half": Case(
        changes={"kind": "7b"}, frames=9, dtype=HALF, vae=VaeSwitches(convolution="2d")
    ),
    "seedvr2-frames": Case(changes={"join": "frames", "clip": 9, "shared": 2}, frames=17),
    "seedvr2-encode-tiles-half": Case(changes=ENCODED, on_gpu=PARKED, frames=21, dtype=HALF),
    "seedvr2-encode-warm": Case(changes={**ENCODED, "warm_up": 2}, frames=21),
    "seedvr2-decode-tiles": Case(changes=DECODED, on_gpu=PARKED),
    "seedvr2-decode-warm-half": Case(frames=9, changes={**DECODED, "warm_up": 2}, dtype=HALF),
    "seedvr2-whole-tiles": Case(frames=9, changes=WHOLE),
    "seedvr2-streamed-half": Case(
        frames=9, on_gpu={"blocks_on_device": 0, "pin_bytes": 10**9}, dtype=HALF
    ),
    "seedvr2-half-pinned": Case(
        frames=9,
        changes={"kind": "7b"},
        on_gpu={"blocks_on_device": 0, "pin_bytes": 15 * 10**6},
    ),
    "seedvr2-not-pinned": Case(frames=9, on_gpu={"blocks_on_device": 1, "pin_bytes": 0}),
    "seedvr2-no-kernels-half": Case(
        frames=9,
        dtype=HALF,
        vae=VaeSwitches(convolution="3d", kernels=False),
        dit=DitSwitches(kernels=False),
        kernels=frozenset(),
    ),
    "wan": Case(make=wan_plan, frames=21, kernels=WAN),
    "wan-tiles": Case(**LARGER, changes={**TILED_WAN, "encode_tile": Size(112, 112)}),
    "wan-parks-half": Case(
        **LARGER, changes={**TILED_WAN, "parks": True}, on_gpu=PARKED, dtype=HALF
    ),
}
# Most waits of the host between two slices of pictures after the first one, those of trials apart:
# nearly all are for carries that go to pageable main memory; in pinned memory a tile waits once.
WAITS = {
    "seedvr2-3b": 42,
    "seedvr2-7b-2d-half": 40,
    "seedvr2-frames": 35,
    "seedvr2-encode-tiles-half": 45,
    "seedvr2-encode-warm": 69,
    "seedvr2-decode-tiles": 73,
    "seedvr2-decode-warm-half": 97,
    "seedvr2-whole-tiles": 167,
    "seedvr2-streamed-half": 46,
    "seedvr2-half-pinned": 51,  # of 3 blocks that are assembled, each waits for its buffer
    "seedvr2-not-pinned": 49,
    "seedvr2-no-kernels-half": 39,
    "wan": 15,
    "wan-tiles": 265,
    "wan-parks-half": 164,
}
# The largest difference from the processor's float32, of values in [0, 1]; with tiles, frames are
# rounded to 16 bits.
MOST = {"float32": 5e-5, HALF: 1e-2}
USUALLY = ("seedvr2-3b", "seedvr2-streamed-half", "wan")
TRIALS = ("/trial.py:", "kernels/build.py:")
ATTENTION_TRIALS = inspect.getsourcelines(attention.reason_of)[1]  # that part of the module
_known: dict[str, Tensor] = {}


def is_trial(where: str) -> bool:
    """Whether a wait is of a trial that is made once for a GPU."""
    lines = re.findall(r"ops/attention/attention\.py:(\d+)", where)
    return any(file in where for file in TRIALS) or any(int(n) > ATTENTION_TRIALS for n in lines)


def right(case: Case) -> Tensor:
    """The processor's pictures, made once for all cases with its plan."""
    key = f"{case.changes} {case.make.__name__} {case.frames}"
    if key not in _known:
        _known[key] = pictures(case.plan(), case.frames)
    return _known[key]


@pytest.mark.parametrize("name", rest_extended(CASES, *USUALLY))
def test_a_shot(name: str) -> None:
    case = CASES[name]
    wanted = right(case)
    with pretended_gpu() as gpu:
        waits: list[int] = []

        def count() -> None:
            found = gpu.record.waits.items()
            waits.append(sum(times for (_, where), times in found if not is_trial(where)))

        found = pictures(case.plan_for_gpu(), case.frames, count)
        count()
        gc.collect()
    assert found.shape == wanted.shape
    assert (found - wanted).abs().max() <= MOST[case.dtype]
    assert torch.isfinite(found).all()
    assert not gpu.record.problems
    kernels = {launched for launched in gpu.record.launches if launched.startswith("kernel ")}
    assert kernels == case.kernels
    copied = {kind for kind, _ in gpu.record.copies}
    pins = any(case.on_gpu.get(name, 0) > 0 for name in ("pin_bytes", "park_pin_bytes"))
    assert ("H2D pinned async" in copied) == pins
    assert max(b - a for a, b in pairwise(waits[1:])) <= WAITS[name]
    assert gpu.allocator.allocated == 0  # all of it was given back
