"""A page of claims about optimisations, the features of Upreel and the measured effects.

`python -m tools.reports.claims > docs/claims.md` writes it, from `resources/claims.toml`, the
figures of `bench optimisations --json` or `measure` in docs/benchmarks
(optimisations-*.json, first-contact-*.json), and the counts of
`tests.pretended_gpu.published_switches`. Nothing is measured for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.bench.report import (
    MACHINE,
    Claim,
    Row,
    claims,
    figures_text,
    machine_of,
    measured,
    piped,
    why_not,
)
from engine.core.messages import hint_of, message, text_of, title
from engine.hardware.gpu_table import CAPABILITIES
from engine.protocol.report import MeasuredSwitch
from engine.settings.optimisations import SwitchEntry, choices, optimisations
from engine.settings.requirements import CUDA, Requirement
from tests.pretended_gpu.published_switches import SwitchCount, known

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "claims.md"
FIGURES = ROOT / "docs" / "benchmarks"
_FILES = ("optimisations-*.json", "first-contact-*.json")
NEEDS_GPU = "needs a GPU"
NOTHING = "nothing to measure"

_HEAD = """# Claims about optimisations, and what was measured

Guides for SeedVR2 and for the VAEs of Wan on Windows make many claims. This page lists each claim,
the corresponding feature of Upreel, and the measured effect. It is written by
`python -m tools.reports.claims > docs/claims.md`, and a test compares it. The window shows the same
list: the full table of the speed test, which can be filtered.

A ratio is the value with the switch divided by the value without it, with all other switches at
their defaults; below 1 the switch helps. ± is the standard error.
[benchmarks/README.md](benchmarks/README.md) explains how ratios are measured and where they do not
apply: weights are random, and the models for CPUs are small. On a GPU, `bench optimisations`
measures the rows that need one. The run on a CPU shared its computer with other work; therefore its
ratios are ratios of CPU seconds, except for the seconds of compiling, which are elapsed time.
The pretended GPU counts launches, bytes and operations at a published size, without and with the
switch, and measures no time
([benchmarks/pretended-gpu-switches.md](benchmarks/pretended-gpu-switches.md)). "Not counted" means
that the row is no switch of decoder or transformer.
"""

_GENERATIONS = """## Recommended set for each GPU generation

The recommended set is the default of a generation: every exact optimisation that has an effect
there. Everything else that such a GPU supports, partly with third-party packages, is off for the
reason given. RTX 50 differs from RTX 40 only in FP4: with fp8 or Q4_K_M files both run the same
set, and FP4 stays off until a measurement on a GPU shows its gain and its loss. Groups:
`--set switches=all=off` turns every optimisation off, `all=on` turns on all that work, `exact`
computes as the published programs do, `fp4` uses FP4 for matrix products and attention.
"""


@dataclass(frozen=True, slots=True)
class MeasuredMachine:
    """One run of the benchmark.

    Attributes:
        facts: Facts of the computer: "processor", "card" ("none" without a GPU), "torch".
        lines: Measured optimisations by name.
    """

    facts: Mapping[str, str]
    lines: Mapping[str, MeasuredSwitch]

    @property
    def has_gpu(self) -> bool:
        """Whether a GPU was measured."""
        return self.facts["card"] != "none"

    @property
    def title(self) -> str:
        """Heading of its column."""
        name = self.facts["card"] if self.has_gpu else self.facts["processor"]
        return f"{name}, torch {self.facts['torch'].removeprefix('torch ')}"


def machines(folder: Path = FIGURES) -> list[MeasuredMachine]:
    """Runs whose figures are in a folder, those of CPUs first."""
    paths = (path for kind in _FILES for path in sorted(folder.glob(kind)))
    return sorted(map(_machine, paths), key=lambda one: one.has_gpu)


def _machine(path: Path) -> MeasuredMachine:
    rows = _rows(json.loads(path.read_text("utf-8")))
    facts = {"card": "none", **machine_of([row for row in rows if row["case"] == MACHINE])}
    return MeasuredMachine(facts, {line.name: line for line in measured(rows)})


def _rows(data: dict[str, Any]) -> list[Row]:
    """Rows of `bench --json`, or of the file of a first contact."""
    if "results" in data:
        return list(data["results"])
    answers = data["answers"].values()
    return [data["basis"]["machine"], *(row for one in answers for row in one["rows"])]


def page(found: Sequence[MeasuredMachine], counts: Mapping[str, SwitchCount]) -> str:
    """The page: a table with a line for each claim, then the sets of the generations."""
    columns = [*found] if any(one.has_gpu for one in found) else [*found, None]
    heads = [one.title if one else "GPU" for one in columns]
    grid = [
        ("claim", "source", "in Upreel", *heads, "counted on the pretended GPU"),
        *(
            (
                _promise(name),
                claim.source,
                _parts(name, claim),
                *(_figures(claim, machine) for machine in columns),
                _counted(claim, counts),
            )
            for name, claim in claims().items()
        ),
    ]
    return "\n".join([_HEAD, *piped(grid), "", _GENERATIONS, *piped(_generations()), ""])


def _generations() -> list[tuple[str, ...]]:
    """A row for each generation of GPUs, under its head."""
    rows = [("generation", "on by default", "optional, and why it is off")]
    for generation, capability in CAPABILITIES.items():
        entries = [one for one in optimisations() if _suits(one.needs, capability)]
        usual = [one.key for one in entries if one.default]
        off = [f"`{one.key}` ({_reason(one)})" for one in entries if not one.default]
        for one in choices():
            others = [v for v, needs in one.values.items() if _suits(needs, capability)]
            others.remove(one.default)
            off.append(f"`{one.key}` {', '.join(others)} ({_reason(one)})")
        rows.append((generation, ", ".join(f"`{key}`" for key in usual), "; ".join(off)))
    return rows


def _suits(needs: Requirement, capability: tuple[int, int]) -> bool:
    """Whether a GPU supports it, whatever system and packages it needs in addition."""
    return CUDA in needs.devices and (needs.capability or (0, 0)) <= capability


def _reason(entry: SwitchEntry) -> str:
    return hint_of(message(entry.code)).removeprefix("Off: ").rstrip(".")


def _promise(name: str) -> str:
    code = f"claim.{name}"
    return f"**{text_of(title(code))}**: {text_of(message(code))}"


def _parts(name: str, claim: Claim) -> str:
    """Switches, settings and modules, the reason for their absence, or both."""
    names = [*claim.rows, *claim.settings, *claim.modules]
    return "; ".join(filter(None, (", ".join(f"`{one}`" for one in names), why_not(name))))


def _figures(claim: Claim, machine: MeasuredMachine | None) -> str:
    """Figures of one computer for a claim; those of other pages are for a CPU."""
    if not claim.rows and not claim.measured:
        return NOTHING
    if machine is None:
        return NEEDS_GPU if claim.rows else NOTHING
    cells = [figures_text(machine.lines[row]) for row in claim.rows if row in machine.lines]
    if not machine.has_gpu and claim.measured:
        cells.append(claim.measured)
    return _joined(cells) or "not measured"


def _counted(claim: Claim, counts: Mapping[str, SwitchCount]) -> str:
    """Counts of the pretended GPU for a claim."""
    cells = [_count(row, counts[row]) for row in claim.rows if row in counts]
    return _joined(cells) or ("not counted" if claim.rows else "nothing to count")


def _count(row: str, count: SwitchCount) -> str:
    on, off = count.on, count.off
    pairs = (
        ("launches", f"{off.launches:,}", f"{on.launches:,}"),
        ("GB", f"{off.gigabytes:.1f}", f"{on.gigabytes:.1f}"),
        ("TFLOP", f"{off.teraflops:.1f}", f"{on.teraflops:.1f}"),
        ("peak GiB", f"{off.peak_gib:.2f}", f"{on.peak_gib:.2f}"),
    )
    changes = [
        f"{without} → {with_it} {unit}" for unit, without, with_it in pairs if without != with_it
    ]
    return f"{row}, {count.step}: {', '.join(changes) or 'no change'}"


def _joined(cells: Iterable[str]) -> str:
    return "; ".join(cells)


def main() -> None:
    """Print the page."""
    print(page(machines(), known()), end="")


if __name__ == "__main__":
    main()
