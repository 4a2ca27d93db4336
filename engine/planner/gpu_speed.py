"""How long a card takes for work that nothing has been measured of: the slower of its limits.

Cards differ by what their matrix units, their memory and the link to main memory can do at most
(`resources/gpus.toml`). The shares of it that programs get are guesses from published runs of
other programs with these models (RTX 5070 Ti 44 %, L20 51 %, RTX 3070 in small tiles 27-36 % of
the matrix units, a workstation card much less); none was seen on a card with Upreel. The speed
test and every finished job correct them for the card they ran on.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import cache

from engine.hardware import gpu_table
from engine.hardware.gpu_table import GpuSpec
from engine.models.contracts import WorkKind

_SHARE: dict[WorkKind, float] = {"vae": 0.35, "transformer": 0.45, "lite": 0.2}
_SINGLE_SHARE = 0.5  # in float32, which the matrix units do not compute
# Operations for a byte that is moved to or from the card's memory, in half precision: the VAE
# of SeedVR2 with norms in passes of their own 1000, the transformer's layers over whole clips 500,
# the few channels of Lite 60.
_INTENSITY: dict[WorkKind, float] = {"vae": 1000, "transformer": 500, "lite": 60}
_BANDWIDTH_SHARE = 0.6
_PINNED_SHARE, _PAGED_SHARE = 0.8, 0.3  # of the link, from pinned memory and from any other
_SHOWN = 0.1  # of the shorter of computing and copying does not hide behind the other
_RESTORE_BYTES = 100  # moved for a pixel of the result: exact size, colours, code values
_LEAVING_BYTES = 6  # of a pixel that goes to main memory
_HALF = ("float16", "bfloat16")


def card_of(card: GpuSpec | None, capability: tuple[int, int] | None) -> GpuSpec:
    """A card to count with: the known one, else the middle one of its generation.

    Of a generation that is in no table the newest one before it counts; where nothing is known,
    the oldest.
    """
    return card or _typical(capability or (0, 0))


def compute_seconds(card: GpuSpec, kind: WorkKind, dtype: str, operations: float) -> float:
    """Seconds of so many floating-point operations.

    Args:
        card: What it can do at most.
        kind: Of the work.
        dtype: Number format; cards before Ampere do not multiply bfloat16 in matrix units.
        operations: One multiply-add is two.
    """
    is_half = dtype in _HALF and not (dtype == "bfloat16" and card.capability < (8, 0))
    rate = card.half_flops * _SHARE[kind] if is_half else card.single_flops * _SINGLE_SHARE
    moved = operations / _INTENSITY[kind] * (1 if dtype in _HALF else 2)
    return max(operations / rate, moved / (card.bandwidth * _BANDWIDTH_SHARE))


def copy_seconds(card: GpuSpec, pinned_bytes: float, paged_bytes: float) -> float:
    """Seconds of copying weights from pinned main memory, and from any other."""
    link = card.link_bandwidth
    return pinned_bytes / (link * _PINNED_SHARE) + paged_bytes / (link * _PAGED_SHARE)


def with_copying(computing: float, copying: float) -> float:
    """Seconds of a stage whose weights are copied while it computes; most of it hides."""
    return max(computing, copying) + _SHOWN * min(computing, copying)


def restore_seconds(card: GpuSpec, pixels: float) -> float:
    """Seconds of bringing so many pixels of the result to their size and colours, and away."""
    moving = pixels * _RESTORE_BYTES / (card.bandwidth * _BANDWIDTH_SHARE)
    return moving + pixels * _LEAVING_BYTES / (card.link_bandwidth * _PAGED_SHARE)


@cache
def _typical(capability: tuple[int, int]) -> GpuSpec:
    known = sorted({card.capability for card in gpu_table.gpu_specs()})
    generation = max((one for one in known if one <= capability), default=known[0])
    same = [card for card in gpu_table.gpu_specs() if card.capability == generation]
    middle = statistics.median_low(card.half_flops for card in same)
    found = next(card for card in same if card.half_flops == middle)
    return replace(
        found,
        bandwidth=statistics.median_low(card.bandwidth for card in same),
        single_flops=statistics.median_low(card.single_flops for card in same),
        link_bandwidth=statistics.median_low(card.link_bandwidth for card in same),
    )
