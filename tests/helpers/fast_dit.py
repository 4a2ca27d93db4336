"""The fast transformer of SeedVR2 with the weights of a plain one, and the gap of two results."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.settings.optimisations import DitSwitches


def fast_dit(
    plain: SeedVr2Dit, switches: DitSwitches | None = None, *, device: str = "cpu"
) -> FastDit:
    """The fast variant with copies of the weights, in their dtype."""
    with torch.device("meta"):
        fast = FastDit(plain.config, switches)
    state = {name: value.clone().to(device) for name, value in plain.state_dict().items()}
    fast.load_state_dict(state, assign=True)
    fast.requires_grad_(False)
    fast.finish_loading()
    return fast


def gap(found: Tensor, wanted: Tensor) -> float:
    """Largest difference in units of the largest wanted value."""
    return float((found - wanted).abs().max() / wanted.abs().max())
