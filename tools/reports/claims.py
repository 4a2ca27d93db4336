"""What documents promise, what Upreel has for it and what was measured, as a page.

`python -m tools.reports.claims > docs/claims.md` writes it, from `resources/claims.toml`, the
figures of `bench optimisations --json` or `bench first-contact` in docs/benchmarks
(optimisations-*.json, first-contact-*.json), and the counts of
`tests.pretended_gpu.published_switches`. Nothing is measured for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.bench.report.claims import Claim, claims, why_not
from engine.bench.report.machine import MACHINE, Row, machine_of
from engine.bench.report.markdown import piped
from engine.bench.report.switch_table import figures_text, measured
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

_HEAD = """# What documents promise

Guides for SeedVR2 and for the VAEs of Wan on Windows promise much; this page has each promise, what
Upreel has for it, and what was found. It is made by `python -m tools.reports.claims >
docs/claims.md`; a test compares. The window has the same list: the full table of the speed test,
with a field that filters it.

Ratios are with the switch over without it, everything else at its default: below 1 it helps. ± is
the standard error. How they are measured, and what they cannot say, is in
[benchmarks/README.md](benchmarks/README.md): weights are random, models on a processor small. What
needs a GPU is measured there by `bench optimisations`. The run on a processor had a shared machine:
its ratios are of CPU seconds, but the seconds that compiling took are those of a clock.
Counts of the pretended GPU are launches, bytes and operations at a published size, without and with
the switch; no time is measured there
([benchmarks/pretended-gpu-switches.md](benchmarks/pretended-gpu-switches.md)). "Not counted" is
what is no switch of decoder or transformer.
"""

_GENERATIONS = """## What suits each generation

The recommended set is the default of a generation: everything that is exact and does something
there. What else a GPU of it can do, some of it with packages of others, is off for the reason
given. RTX 50 differs from RTX 40 in FP4 alone: with
fp8 files or Q4_K_M both run the same set, and FP4 stays off until a GPU has shown what it gains for
what it loses. Sets: `--set switches=all=off` turns every optimisation off, `all=on` turns on what
works, `exact` computes as the published programs do, `fp4` takes products and attention in FP4.
"""


@dataclass(frozen=True, slots=True)
class MeasuredMachine:
    """One run of the benchmark.

    Attributes:
        facts: Of the machine: "processor", "card" ("none" without a GPU), "torch".
        lines: Of the optimisations, by name.
    """

    facts: Mapping[str, str]
    lines: Mapping[str, MeasuredSwitch]

    @property
    def has_gpu(self) -> bool:
        """Whether it measured a GPU."""
        return self.facts["card"] != "none"

    @property
    def title(self) -> str:
        """Heading of its column."""
        name = self.facts["card"] if self.has_gpu else self.facts["processor"]
        return f"{name}, torch {self.facts['torch'].removeprefix('torch ')}"


def machines(folder: Path = FIGURES) -> list[MeasuredMachine]:
    """Runs whose figures are in a folder, processors first."""
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
    """The page: a table with a line for each claim, then those that nothing answers."""
    columns = [*found] if any(one.has_gpu for one in found) else [*found, None]
    heads = [one.title if one else "GPU" for one in columns]
    grid = [
        ("promise", "made by", "Upreel has", *heads, "counted on the pretended GPU"),
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
    rows = [("generation", "on by default", "can be chosen, and why it is off")]
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
    """Whether a GPU can do it, whatever system and packages it needs besides."""
    return CUDA in needs.devices and (needs.capability or (0, 0)) <= capability


def _reason(entry: SwitchEntry) -> str:
    return hint_of(message(entry.code)).removeprefix("Off: ").rstrip(".")


def _promise(name: str) -> str:
    code = f"claim.{name}"
    return f"**{text_of(title(code))}**: {text_of(message(code))}"


def _parts(name: str, claim: Claim) -> str:
    """Switches, settings and modules, or why there is nothing; both where both are known."""
    names = [*claim.rows, *claim.settings, *claim.modules]
    return "; ".join(filter(None, (", ".join(f"`{one}`" for one in names), why_not(name))))


def _figures(claim: Claim, machine: MeasuredMachine | None) -> str:
    """What one machine measured of a claim; what other pages say is of a processor."""
    if not claim.rows and not claim.measured:
        return NOTHING
    if machine is None:
        return NEEDS_GPU if claim.rows else NOTHING
    cells = [figures_text(machine.lines[row]) for row in claim.rows if row in machine.lines]
    if not machine.has_gpu and claim.measured:
        cells.append(claim.measured)
    return _joined(cells) or "not measured"


def _counted(claim: Claim, counts: Mapping[str, SwitchCount]) -> str:
    """What the pretended GPU counted of a claim."""
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
