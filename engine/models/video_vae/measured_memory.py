"""Memory of calls of fast VAEs, from a table of measurements. Loads no torch for its entries.

`resources/memory.json` has the published VAEs with the usual switches, and with each switch changed
alone; `python -m tools.memory_table` measures them again after a change of the code. Other sizes of
models, several changed switches and longer slices are measured when they are first asked for, which
loads torch.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from engine.core.geometry import Size
from engine.core.paths import resource
from engine.models import gpu_passes
from engine.models.planning.memory import COMPILER_BYTES, DTYPE_BYTES
from engine.models.video_vae.vae_use import (
    FIGURES,
    SLICES,
    CallMemory,
    CallWork,
    Curve,
    Side,
    SliceWork,
    UseMemory,
    VaeCode,
    VaePeak,
    VaeUse,
)
from engine.protocol.plan import WeightsPlan

TABLE = "memory.json"
FEW_SIDES = (64, 128, 256, 1024)
"""Sides of square frames, px, that are enough for unusual uses; without an entry, two of them."""
_BETWEEN = 1.03  # times as much may frames between those sides take as in proportion
_EDGE = 4  # px beside each edge that layers add, at most, as means of all that exists at once


@dataclass(frozen=True, slots=True)
class MeasuredVae(VaeCode):
    """The VAEs of a family, and the memory of their calls."""

    def peak(self, config: Any, call: str, use: VaeUse, size: Size) -> VaePeak:
        """Bytes of a call on frames that are, or could be, encoded with a size in px."""
        longer = size.width + size.height - 2 * math.sqrt(size.pixels)  # edges than a square's
        area = size.pixels + _EDGE * longer
        curves = _call(self, config, call, use, area).bytes_of
        return VaePeak(**{name: round(between(curves[name], area)) for name in FIGURES})

    def work(self, config: Any, call: str, use: VaeUse, size: Size) -> CallWork:
        """Work of a call on frames of a size in px; slices are of one latent."""
        pixels, border = size.pixels, size.width + size.height
        usual = replace(use, slice_frames=4, is_image=False)
        operations = _call(self, config, call, usual, pixels).operations
        item = DTYPE_BYTES[use.dtype] / 2
        counted = gpu_passes.of_slices(self.passes(config), call, use.switches)
        passes = dict(zip(SLICES, counted, strict=True))

        def of(name: str) -> SliceWork:
            area, edge, product, squared = operations[name]
            return SliceWork(
                convolutions=area * pixels + edge * border,
                products=product * pixels + squared * pixels**2,
                passed=item * passes[name].moved * pixels,
                launches=passes[name].launches,
            )

        return CallWork(single=of("single"), first=of("first"), later=of("later"))

    def weights(self, config: Any, use: VaeUse) -> int:
        """Bytes of the tables that are kept; slices do not count."""
        return _weights(self, config, use)

    def measuring(self, config: Any, use: VaeUse) -> int:
        """Bytes that a process keeps after it has measured a use; 0 for entries of the table."""
        return COMPILER_BYTES if _stored(config, use) is None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeModel:
    """One VAE.

    Attributes:
        id: For the command line.
        title: For tables.
        config: Sizes of the published one; `narrower` gives smaller ones.
        published: A model in the catalogue that it belongs to.
        code: Both variants, and the memory of their calls.
        config_of: Sizes of the VAE in an installed file; a WeightsError if it is another.
        sides: Sides that are not those of another VAE.
    """

    id: str
    title: str
    config: Any
    published: str
    code: MeasuredVae
    config_of: Callable[[WeightsPlan], Any]
    sides: tuple[Side, ...] = ("encode", "decode")


def between(curve: Curve, pixels: float) -> float:
    """Bytes for square frames of n px a side, in proportion to the measured ones."""
    areas = [side**2 for side, _ in curve]
    place = min(max(1, bisect_left(areas, pixels)), len(curve) - 1)
    start, end = areas[place - 1 : place + 1]
    (_, low), (_, high) = curve[place - 1 : place + 1]
    return max(0.0, low + (high - low) * (pixels - start) / (end - start))


def _call(vae: MeasuredVae, config: Any, call: str, use: VaeUse, pixels: float) -> CallMemory:
    """Memory of a call on frames of about n px."""
    stored = _stored(config, use)
    if stored is not None:
        return stored.calls[call]
    place = bisect_left(FEW_SIDES, math.sqrt(pixels), 1, len(FEW_SIDES) - 1)
    return _measured(vae, config, call, use, FEW_SIDES[place - 1 : place + 1])


@lru_cache(maxsize=512)
def _measured(
    vae: MeasuredVae, config: Any, call: str, use: VaeUse, sides: tuple[int, ...]
) -> CallMemory:
    from engine.models.video_vae.measuring import measure_call

    return with_margin(measure_call(vae, config, use, call, sides))


def with_margin(found: CallMemory) -> CallMemory:
    """Memory of a call that was measured on few sides."""
    more = {
        name: tuple((side, round(_BETWEEN * size)) for side, size in found.bytes_of[name])
        for name in ("first", "later")
    }
    return replace(found, bytes_of={**found.bytes_of, **more})


@lru_cache(maxsize=512)
def _weights(vae: MeasuredVae, config: Any, use: VaeUse) -> int:
    use = replace(use, slice_frames=4)
    stored = _stored(config, use)
    if stored is not None:
        return stored.weights
    from engine.models.video_vae.measuring import measure_weights

    return measure_weights(vae, config, use)


@lru_cache(maxsize=512)
def _stored(config: Any, use: VaeUse) -> UseMemory | None:
    """Entry of the table; None where it has none."""
    entries = _table().get(repr(config), {})
    entry = entries.get(use.name)
    if entry is None:
        return None
    calls = {
        call: _from_table(figures | entry["calls"].get(call, {}))
        for call, figures in entries[use.usual.name]["calls"].items()
    }
    return UseMemory(entry["weights"], calls)


@cache
def _table() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(resource(TABLE).read_text(encoding="utf-8"))
    return found


def _from_table(figures: Mapping[str, Any]) -> CallMemory:
    operations = {name: tuple(terms) for name, terms in figures["operations"].items()}
    curves = {name: tuple((side, size) for side, size in figures[name]) for name in FIGURES}
    return CallMemory(bytes_of=curves, operations=operations)
