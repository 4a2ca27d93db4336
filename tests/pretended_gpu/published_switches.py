"""Effect of each switch at published sizes on the pretended GPU, without values.

`python -m tests.pretended_gpu.published_switches` prints the table; with `--write` it becomes
published_switches.json and docs/benchmarks/pretended-gpu-switches.md. It takes some minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engine.models.seedvr2.dit.config import DIT_3B
from engine.settings.optimisations import ALL, SwitchSet
from tests.pretended_gpu.published import (
    DIT,
    SIZES,
    VAE,
    Figures,
    transformer_step,
    vae_step,
)

COUNTS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "pretended-gpu-switches.md"
SIZE = "720p"
STEPS: dict[str, tuple[SwitchSet, str, Callable[[Any], Figures]]] = {
    "vae": (VAE, f"decode {SIZE}", partial(vae_step, "decode", SIZES[SIZE])),
    "dit": (DIT, f"3B {SIZE}", partial(transformer_step, DIT_3B, SIZES[SIZE])),
}
_CAPABILITY = (12, 0)
_NOT_COUNTED = (
    "fp16_sums",  # takes less time, with as many operations and bytes
    "compile",  # kernels of the compiler
    "image_mode",  # a clip has no images
    "folded_modulation",  # torch counts no operations of some of its products
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCount:
    """One step with a switch and without it, everything else at its default.

    Attributes:
        step: "decode 720p".
        on: Cost with the switch.
        off: Without it.
    """

    step: str
    on: Figures
    off: Figures


def counts(group: str) -> Iterator[tuple[str, SwitchCount]]:
    """Each switch of "vae" or "dit" that does something there, by its key; "vae.all" first."""
    default, title, step = STEPS[group]
    usual = step(default)
    for name in names(default):
        if name == ALL:
            yield f"{group}.{name}", SwitchCount(step=title, on=usual, off=step(default.all_off()))
            continue
        is_on = bool(getattr(default, name))
        other = step(default.changed(name, not is_on))
        on, off = (usual, other) if is_on else (other, usual)
        yield f"{group}.{name}", SwitchCount(step=title, on=on, off=off)


def names(default: SwitchSet) -> list[str]:
    """Names of the switches that are counted."""
    found = (e for e in default.optimisations() if e.works_on("cuda", _CAPABILITY))
    return [ALL, *(entry.name for entry in found if entry.name not in _NOT_COUNTED)]


def known() -> dict[str, SwitchCount]:
    """The committed counts by key."""
    table: dict[str, Any] = json.loads(COUNTS.read_text("utf-8"))
    return {
        key: SwitchCount(step=row["step"], on=Figures(**row["on"]), off=Figures(**row["off"]))
        for key, row in table.items()
    }


def page(found: dict[str, SwitchCount]) -> str:
    """The table as a document."""
    lines = [
        "# Effect of each switch at published sizes, counted without a GPU",
        "",
        "This page is written by `python -m tests.pretended_gpu.published_switches --write`: the",
        "steps of [pretended-gpu.md](pretended-gpu.md) without and with a switch, all others at",
        "their defaults. These are counts from a pretended GPU, and no time is measured:",
        "launches, bytes and operations describe the work of a GPU, not its speed. Each cell:",
        "without → with.",
        "",
        "| switch | step | launches | GB touched | TFLOP | peak GiB |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for key, count in found.items():
        on, off = count.on, count.off
        cells = (
            f"{off.launches:,} → {on.launches:,}",
            f"{off.gigabytes:.1f} → {on.gigabytes:.1f}",
            f"{off.teraflops:.1f} → {on.teraflops:.1f}",
            f"{off.peak_gib:.2f} → {on.peak_gib:.2f}",
        )
        lines.append(f"| `{key}` | {count.step} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page and the counts")
    options = parser.parse_args()
    found: dict[str, SwitchCount] = {}
    for group in STEPS:
        for key, count in counts(group):
            found[key] = count
            print(key, count, flush=True)
    if options.write:
        PAGE.write_text(page(found), encoding="utf-8")
        table = {key: asdict(count) for key, count in found.items()}
        COUNTS.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
