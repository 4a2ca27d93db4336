"""Table of what the calls of published VAEs take: `resources/memory.json`.

    python -m tools.memory_table [NAME...]      measures all VAEs again, or some of them

To be run after a change of a fast variant or of an operator below it; nothing else describes what
they take. It runs them without values (`engine.models.video_vae.measuring`), so it needs neither a
GPU nor model files; some minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from engine.core.paths import resource
from engine.models.seedvr2.vae.config import VAE
from engine.models.seedvr2.vae_memory import VAES as SEEDVR2
from engine.models.swiftvr.requirements import VAES as SWIFTVR
from engine.models.swiftvr.vae.config import REAE
from engine.models.video_vae.measured_memory import (
    FEW_SIDES,
    TABLE,
    MeasuredVae,
    between,
    with_margin,
)
from engine.models.video_vae.vae_use import FIGURES, CallMemory, Curve, VaeUse
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22
from engine.models.wan.vae_memory import VAES as WAN
from engine.settings.optimisations import VaeSwitches

SIDES = {
    "cuda": (64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512, 640, 768, 1024, 1536, 2048),
    "cpu": (64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640),
}
"""Sides of square frames that are measured, px; multiples of what each VAE takes."""
_SLACK = 0.001  # of what is left out of the table again


@dataclass(frozen=True, slots=True)
class Published:
    """A published VAE and the calls that plans ask for."""

    vae: MeasuredVae
    config: Any


VAES = {
    "seedvr2": Published(SEEDVR2, VAE),
    "wan21": Published(WAN, WAN21),
    "wan22": Published(WAN, WAN22),
    "wan2x": Published(WAN, WAN2X),
    "swiftvr": Published(SWIFTVR, REAE),
}


def uses(name: str) -> Iterator[VaeUse]:
    """Uses of a VAE that the table has, switches apart: usual slices, and images of SeedVR2."""
    for dtype in ("float16", "float32"):  # values of bfloat16 are as long as those of float16
        for use in (VaeUse(device="cuda", dtype=dtype), VaeUse(device="cpu", dtype=dtype)):
            yield use
            if name == "seedvr2":
                yield replace(use, is_image=True)


def changed(use: VaeUse) -> Iterator[VaeUse]:
    """The use with each switch changed that counts in it, and with all of them off."""
    changes = [
        use.switches.changed(entry.name, not entry.default) for entry in VaeSwitches.optimisations()
    ]
    changes += [replace(use.switches, convolution=form) for form in ("2d", "3d")]
    found = {one.name: one for one in (replace(use, switches=switches) for switches in changes)}
    found.pop(use.name, None)
    all_off = replace(use, switches=VaeSwitches.all_off())
    return iter((*found.values(), all_off))


def measured(name: str, use: VaeUse) -> dict[str, dict[str, Any]]:
    """Entries of a use and of its changes, by name; a change has the figures that differ."""
    from engine.models.video_vae.measuring import measure

    vae, config = VAES[name].vae, VAES[name].config
    usual = measure(vae, config, use, SIDES[use.device])
    calls: dict[str, Any] = {call: _figures(one) for call, one in usual.calls.items()}
    found = {use.name: {"weights": usual.weights, "calls": calls}}
    few = measure(vae, config, use, FEW_SIDES).calls
    for other in changed(use):
        one = measure(vae, config, other, FEW_SIDES)
        changes = {call: _changes(few[call], memory) for call, memory in one.calls.items()}
        calls = {call: figures for call, figures in changes.items() if figures}
        found[other.name] = {"weights": one.weights, "calls": calls}
    return found


def _changes(usual: CallMemory, found: CallMemory) -> dict[str, Any]:
    """Figures that are larger than the usual ones, or clearly smaller."""
    figures = _figures(with_margin(found))
    for name in FIGURES:
        pairs = zip(usual.bytes_of[name], found.bytes_of[name], strict=True)
        if all(0 <= before - size <= _SLACK * before for (_, before), (_, size) in pairs):
            del figures[name]
    if found.operations == usual.operations:
        del figures["operations"]
    return figures


def _measured(asked: tuple[str, VaeUse]) -> dict[str, dict[str, Any]]:
    return measured(*asked)


def _figures(found: CallMemory) -> dict[str, Any]:
    curves = {figure: shortened(found.bytes_of[figure]) for figure in FIGURES}
    return {**curves, "operations": found.operations}


def shortened(curve: Curve) -> Curve:
    """A curve without points that the others tell, and as much above it as that may miss."""
    curve = tuple((side, math.ceil((1 + _SLACK) * size)) for side, size in curve)
    kept = [curve[0]]
    for index in range(1, len(curve) - 1):
        later = curve[index + 1 :]
        passed = curve[curve.index(kept[-1]) + 1 : index + 1]
        if not all(_tells((kept[-1], later[0]), point) for point in passed):
            kept.append(curve[index])
    return (*kept, curve[-1])


def _tells(ends: Curve, point: tuple[int, int]) -> bool:
    side, size = point
    return abs(between(ends, side**2) - size) <= _SLACK * size


def table_text(table: Any, indent: str = "") -> str:
    """The table as it is stored, a line for each figure."""
    if not isinstance(table, dict) or not table:
        return json.dumps(table)
    inner = indent + "  "
    rows = (f"{inner}{json.dumps(key)}: {table_text(one, inner)}" for key, one in table.items())
    return "\n".join(("{", ",\n".join(rows), indent + "}"))


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(VAES)}")
    names = parser.parse_args().names or list(VAES)
    path = resource(TABLE)
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    entries = {
        repr(one.config): before.get(repr(one.config), {})
        for name, one in VAES.items()
        if name not in names
    }
    with ProcessPoolExecutor() as pool:
        asked = [(name, use) for name in names for use in uses(name)]
        for (name, use), found in zip(asked, pool.map(_measured, asked), strict=True):
            entries.setdefault(repr(VAES[name].config), {}).update(found)
            print(name, use.name, flush=True)
    ordered = {repr(one.config): entries[repr(one.config)] for one in VAES.values()}
    path.write_text(table_text(ordered) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
