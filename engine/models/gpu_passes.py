"""Bytes that passes move and kernels that fast variants launch on a GPU, from a table. No torch.

Passes are everything between convolutions and matrix products: norms, sums, copies. What they move
depends on the switches. `resources/passes.json` has counts of the program's own code for GPUs,
which `python -m tests.pretended_gpu.passes` runs without values and without a GPU; nothing else
describes them. Seconds follow in `engine.planner.gpu_speed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from engine.core.paths import resource
from engine.models.planning.memory import DTYPE_BYTES
from engine.settings.optimisations import DitSwitches, VaeSwitches

TABLE = "passes.json"
SLICE_SWITCHES = (  # of VAEs, that change what passes move, each counted alone
    "upsampler_fold",
    "first_frame_fold",
    "ring_buffers",
    "channels_last",
    "fused_norm",
    "in_place",
    "kernels",
    "chunked_upsampling",
    "temporal_winograd",
)
PLANNED = ("encode_slice", "decode_slice", "decode_low", "decode_high")
"""Calls of VAEs whose passes the table has; of the parts of an encoder plans ask memory alone."""
BYTES_SWITCHES = ("fused_steps", "kernels", "in_place_residual")  # of transformers, in every set
RECOMPUTED = ("constant_modulation",)  # of transformers, whose launches come on top
_ALL = "all"  # all switches off


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of a slice, or of a forward.

    Attributes:
        moved: Bytes read and written; of a VAE for a px of the frame.
        launches: Kernels, those of convolutions and products included.
    """

    moved: float
    launches: float


@lru_cache(maxsize=512)
def of_slices(name: str, call: str, switches: VaeSwitches) -> tuple[Passes, Passes, Passes]:
    """Passes of a call of a VAE in half precision: a clip of one frame, a first, a later slice.

    Several switches that differ from the usual ones count as the one of them that moves most.

    Args:
        name: VAE in the table.
        call: Name of its method, one of `PLANNED`.
        switches: Optimisations.

    Raises:
        KeyError: The table does not have the call.
    """
    entries, usual = _table()[name], VaeSwitches()
    changed = [one for one in SLICE_SWITCHES if getattr(switches, one) != getattr(usual, one)]
    if all(not getattr(switches, one) for one in SLICE_SWITCHES):
        changed = [_ALL]
    found = [entries[one].get(call, entries[""][call]) for one in changed] or [entries[""][call]]
    single, first, later = (
        Passes(max(row[index][0] for row in found), max(row[index][1] for row in found))
        for index in range(3)
    )
    return single, first, later


@dataclass(frozen=True, slots=True)
class LayerPasses:
    """Passes of a layer of a transformer, and how they grow with a clip.

    Attributes:
        moved, moved_of_token, moved_of_window: Bytes, bytes for each token, and for each window.
        launches, launches_of_token, launches_of_group, launches_of_window: Kernels without those
            of attention; groups are windows that are computed together.
    """

    moved: float
    moved_of_token: float
    moved_of_window: float
    launches: float
    launches_of_token: float
    launches_of_group: float
    launches_of_window: float

    def of(self, tokens: int, groups: float, windows: float) -> Passes:
        """Passes of a clip without its attention."""
        moved = self.moved + self.moved_of_token * tokens + self.moved_of_window * windows
        launches = self.launches + self.launches_of_token * tokens
        launches += self.launches_of_group * groups + self.launches_of_window * windows
        return Passes(moved, launches)


@lru_cache(maxsize=512)
def of_layer(name: str, dtype: str, products: str, switches: DitSwitches) -> LayerPasses:
    """Passes of a layer of a transformer.

    Args:
        name: Transformer in the table.
        dtype: Type that is computed in; float32 moves twice the bytes of bfloat16.
        products: Format of the matrix products, "none" for that type.
        switches: Optimisations.
    """
    entries, half = _table()[name], "bfloat16" if dtype == "float32" else dtype
    row = entries[layer_name(half, switches)]
    if products != "none":
        added = products_name(half, products, switches)
        # GPUs that compute fp8 compute bfloat16; in another type as many bytes pass
        found = entries.get(added) or entries[products_name("bfloat16", products, switches)]
        row = [a + b for a, b in zip(row, found, strict=True)]
    for switch in RECOMPUTED:
        if not getattr(switches, switch):
            row = [a + b for a, b in zip(row, entries[switch], strict=True)]
    item = DTYPE_BYTES[dtype] / DTYPE_BYTES[half]
    return LayerPasses(*(item * one for one in row[:3]), *row[3:])


def layer_name(dtype: str, switches: DitSwitches) -> str:
    """Name of an entry: type, and switches that are off; only fused steps have kernels."""
    names = [one for one in BYTES_SWITCHES if one != "kernels" or switches.fused_steps]
    off = (one for one in names if not getattr(switches, one))
    return ", ".join((dtype, *(f"without {one}" for one in off)))


def products_name(dtype: str, products: str, switches: DitSwitches) -> str:
    """Name of what a format of products adds; operators of torch round to nvfp4."""
    is_plain = products != "nvfp4" and not switches.kernels
    return f"{dtype}, {products}{', without kernels' if is_plain else ''}"


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Any] = json.loads(resource(TABLE).read_text(encoding="utf-8"))
    return found
