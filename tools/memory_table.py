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
from engine.models.seedvr2.planning.vae_memory import VAES as SEEDVR2
from engine.models.seedvr2.vae.config import VAE
from engine.models.video_vae.measured_memory import TABLE, MeasuredVae, between
from engine.models.video_vae.vae_use import FIGURES, Curve, VaeUse
from engine.models.wan.planning.vae_memory import VAES as WAN
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22

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
}


def uses(name: str) -> Iterator[VaeUse]:
    """Uses of a VAE that the table has: usual switches and slices; images of SeedVR2."""
    for dtype in ("float16", "float32"):  # values of bfloat16 are as long as those of float16
        for use in (VaeUse(device="cuda", dtype=dtype), VaeUse(device="cpu", dtype=dtype)):
            yield use
            if name == "seedvr2":
                yield replace(use, is_image=True)


def measured(name: str, use: VaeUse) -> dict[str, Any]:
    """One entry of the table."""
    from engine.models.video_vae.measuring import measure

    found = measure(VAES[name].vae, VAES[name].config, use, SIDES[use.device])
    calls: dict[str, dict[str, Any]] = {
        call: {figure: shortened(one.bytes_of[figure]) for figure in FIGURES}
        | {"operations": one.operations}
        for call, one in found.calls.items()
    }
    return {"weights": found.weights, "calls": calls}


def _measured(asked: tuple[str, VaeUse]) -> dict[str, Any]:
    return measured(*asked)


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


def table_text(entries: dict[str, dict[str, Any]]) -> str:
    """The table as it is stored, a line for each figure."""
    lines = ["{"]
    for config, of_uses in entries.items():
        lines.append(f"  {json.dumps(config)}: {{")
        for use, entry in of_uses.items():
            lines.append(f"    {json.dumps(use)}: {{")
            lines.append(f'      "weights": {entry["weights"]},')
            lines.append('      "calls": {')
            for call, figures in entry["calls"].items():
                lines.append(f"        {json.dumps(call)}: {{")
                rows = (f"          {json.dumps(k)}: {json.dumps(v)}" for k, v in figures.items())
                lines += [",\n".join(rows), "        },"]
            lines[-1] = "        }"
            lines += ["      }", "    },"]
        lines[-1] = "    }"
        lines.append("  },")
    lines[-1] = "  }"
    return "\n".join([*lines, "}", ""])


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
        for (name, use), entry in zip(asked, pool.map(_measured, asked), strict=True):
            entries.setdefault(repr(VAES[name].config), {})[use.name] = entry
            print(name, use.name, flush=True)
    ordered = {repr(one.config): entries[repr(one.config)] for one in VAES.values()}
    path.write_text(table_text(ordered), encoding="utf-8")


if __name__ == "__main__":
    main()
