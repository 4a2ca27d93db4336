"""VAEs whose values were too large for sums in half precision, remembered by file. Loads no torch.

The next try of a job keeps all sums in float32, and later jobs begin so.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from engine.core import atomic_file
from engine.core.paths import cache_folder
from engine.core.serialization import from_plain, read_json, set_aside
from engine.protocol.plan import WeightsPlan, WorkPlan
from engine.settings.switches import Switches

logger = logging.getLogger(__name__)
AnyWork = TypeVar("AnyWork", bound=WorkPlan)


def after_overflow(work: AnyWork, vae: WeightsPlan, dtype: str) -> AnyWork | None:
    """The work with sums in float32, which is remembered; None: they were not the reason.

    Args:
        work: Work in which a value became infinite or NaN.
        vae: File of its VAE.
        dtype: Type of the VAE's values.
    """
    switches = work.switches.vae
    may_have = switches.kernels and switches.convolution in ("auto", "kernel")
    if switches.fp16_sums and may_have and (work.device, dtype) == ("cuda", "float16"):
        logger.info("sums of %s are in float32 from now on: values became too large", vae.path.name)
        _store(_known() | {_key(vae)})
        return replace(work, switches=without_sums(work.switches))
    if overflowed(vae):
        _store(_known() - {_key(vae)})
    return None


def allowed(switches: Switches, vae: WeightsPlan) -> Switches:
    """Switches for a VAE: without sums in half precision where they overflowed before."""
    return without_sums(switches) if overflowed(vae) else switches


def overflowed(vae: WeightsPlan) -> bool:
    """Whether sums in half precision overflowed in a VAE before."""
    return _key(vae) in _known()


def without_sums(switches: Switches) -> Switches:
    """The switches with all sums of convolutions in float32."""
    return replace(switches, vae=replace(switches.vae, fp16_sums=False))


def _key(vae: WeightsPlan) -> str:
    return f"{vae.path.name}, {vae.bytes} bytes"


def _file() -> Path:
    return cache_folder() / "float32-sums.json"


def _known() -> frozenset[str]:
    with set_aside(_file()):
        return frozenset(from_plain(tuple[str, ...], read_json(_file())))
    return frozenset()


def _store(known: frozenset[str]) -> None:
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write_json(_file(), sorted(known), indent=1)
