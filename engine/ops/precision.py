"""Precision and autograd settings of torch, and switches of a job, in force while a model runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from engine.settings.optimisations import RunSwitches


@dataclass(slots=True)
class _Now:
    switches: RunSwitches


_now = _Now(RunSwitches())


def current() -> RunSwitches:
    """Switches of the running job; the defaults where there is none."""
    return _now.switches


@contextmanager
def using(switches: RunSwitches) -> Iterator[None]:
    """Set these in all threads, and restore the previous ones afterwards."""
    before, _now.switches = _now.switches, switches
    try:
        yield
    finally:
        _now.switches = before


@contextmanager
def no_gradients() -> Iterator[None]:
    """No gradients, and results are no inference tensors of torch.

    Callers may change such results in place, and train something else on them.
    """
    with torch.inference_mode(mode=False), torch.no_grad():
        yield


@contextmanager
def exact_arithmetic(*, tunes: bool = True) -> Iterator[None]:
    """Compute float32 in full precision, and measure convolutions once per shape.

    Convolutions may otherwise round to TF32, which needs the user's choice. If another part of the
    process allowed it, matrix products may too, and add up in half precision.

    Args:
        tunes: False: cuDNN takes what it knows for shapes that are not worth measuring.
    """
    run = current()
    matmul = torch.backends.cuda.matmul
    mkldnn: Any = torch.backends.mkldnn  # `matmul` is missing in its types
    places = (matmul, mkldnn.matmul)
    before = matmul.allow_fp16_accumulation, [place.fp32_precision for place in places]
    with torch.backends.cudnn.flags(
        enabled=True, benchmark=run.cudnn_benchmark and tunes, allow_tf32=run.tf32
    ):
        matmul.allow_fp16_accumulation = False
        try:
            matmul.fp32_precision = "tf32" if run.tf32 else "ieee"
            mkldnn.matmul.fp32_precision = "ieee"
            yield
        finally:
            matmul.allow_fp16_accumulation = before[0]
            for place, precision in zip(places, before[1], strict=True):
                place.fp32_precision = precision


@contextmanager
def arithmetic_of(switches: RunSwitches) -> Iterator[None]:
    """Set what libraries may do for a whole job with these switches, then restore it."""
    with using(switches), exact_arithmetic():
        yield
