"""Devices of tests whose trials find something else, and which round in ways of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.core import paths
from engine.ops.conv import temporal_conv, trial
from engine.ops.conv.temporal_conv import Form, TemporalConv
from engine.ops.conv.trial import ConvolutionChoice
from engine.protocol.plan import Plan

_ROUNDING = 1.0001  # of some ways: less than a trial takes for wrong, seen in results

Device = Callable[..., None]


def as_device(
    patch: pytest.MonkeyPatch,
    fastest: Form = "2d",
    *,
    lacks: Form | None = None,
    adds_in_place: bool = True,
) -> None:
    """Let this process have a device with other trials, of which nothing is known yet.

    Args:
        patch: Restores what was before; in a process that ends it need not.
        fastest: Form of convolutions that its trials choose.
        lacks: Form that it cannot compute.
        adds_in_place: Whether oneDNN's sums in place are right.
    """
    right, in_3d, in_place = TemporalConv.apply, TemporalConv._in_3d, temporal_conv._add_in_place

    def apply(self: TemporalConv, frames: Tensor, *rest: Any) -> Tensor:
        if self._form == lacks and self.reach > 1:
            raise RuntimeError("no such convolution")
        return right(self, frames, *rest)

    def decide(*_: object, **__: object) -> ConvolutionChoice:
        return ConvolutionChoice(form=fastest, reason="the faster")

    patch.setattr(TemporalConv, "apply", apply)
    patch.setattr(TemporalConv, "_in_3d", lambda *given: in_3d(*given).mul_(_ROUNDING))
    patch.setattr(temporal_conv, "_add_in_place", lambda *given: in_place(*given).mul_(_ROUNDING))
    fault = "" if adds_in_place else "it has been removed"
    patch.setattr(temporal_conv, "_fault_in_place", lambda: fault)
    patch.setattr(trial, "decide", decide)
    trial._choose.cache_clear()
    for file in paths.cache_folder().glob("*.json"):
        file.unlink()


@contextmanager
def devices() -> Iterator[Device]:
    """A function that makes this process have another device, as `as_device`."""
    with pytest.MonkeyPatch.context() as patch:

        def change(*given: Any, **named: Any) -> None:
            patch.undo()
            as_device(patch, *given, **named)

        yield change


def on_gpu(plan: Plan) -> Plan:
    """A plan for a GPU, in float32."""
    work = replace(plan.work, device="cuda", dtype="float32")
    return replace(plan, work=work, device_budget_bytes=2**30, device_limit_bytes=2**30)


def kept(folder: Path) -> dict[str, str]:
    """Choices that a job has kept in its folder."""
    found: dict[str, str] = json.loads((folder / "choices.json").read_text("utf-8"))["choices"]
    return found
