"""Rows of the optimisation cases as lines of a table, and what they answer of claims. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.bench.report.claims import claim_of, claims, why_not
from engine.bench.report.machine import Row
from engine.core.messages import Message, message, text_of, title
from engine.protocol.report import MeasuredSwitch
from engine.settings.optimisations import (
    ALL,
    Exactness,
    Optimisation,
    SwitchEntry,
    choices,
    optimisations,
)

USUAL = "usual"  # row of a group: what it is measured with
_COMMAND = "`bench optimisations`"
_ENTRIES: dict[str, SwitchEntry] = {entry.key: entry for entry in (*optimisations(), *choices())}
_MEASURED_TOO: dict[str, tuple[Exactness, bool]] = {  # no switch: exactness, whether users have it
    "plan.slices": ("exact", True),
    "plan.tiles": ("inexact", False),
    "plan.cached_ramps": ("exact", True),
    "plan.separable_blending": ("exact", False),
    "plan.repeated": ("exact", True),
    "vae.attention": ("exact", True),
    "vae.pixel_shuffle": ("exact", False),
    "dit.sampling": ("exact", False),
}


def measured(rows: Iterable[Row]) -> tuple[MeasuredSwitch, ...]:
    """Rows about a switch as lines of the table."""
    return tuple(_line(row) for row in rows if "switch" in row and not _is_usual(row))


def about(rows: Iterable[Row]) -> tuple[Message, ...]:
    """Models that the switches were measured with."""
    return tuple(row["about"] for row in rows if "switch" in row and _is_usual(row))


def claim_results(lines: Sequence[MeasuredSwitch]) -> list[tuple[str, str, str, str]]:
    """Title, promise and source of each claim in English, with figures or why there are none."""
    found = {line.name: line for line in lines}
    return [
        (
            text_of(title(f"claim.{name}")),
            text_of(message(f"claim.{name}")),
            claim.source,
            _found(name, found),
        )
        for name, claim in claims().items()
    ]


def _is_usual(row: Row) -> bool:
    return str(row["switch"]).endswith(f".{USUAL}")


def _line(row: Row) -> MeasuredSwitch:
    name = str(row["switch"])
    key, _, value = name.partition("=")
    exactness, is_default = _facts(key)
    heading = title(f"switch.{key}")
    return MeasuredSwitch(
        name=name,
        title=message("bench.variant", title=heading, value=value) if value else heading,
        exactness=exactness,
        is_default=is_default,
        time=row.get("time"),
        scatter=row.get("scatter"),
        memory=row.get("memory"),
        error=row.get("error"),
        error_without=row.get("error_without"),
        claim=claim_of(name),
        note=row.get("note"),
    )


def _facts(key: str) -> tuple[Exactness, bool]:
    """Exactness, and whether users have it."""
    if key.endswith(f".{ALL}"):
        return "exact", True
    if key in _MEASURED_TOO:
        return _MEASURED_TOO[key]
    entry = _ENTRIES[key]
    return entry.exactness, isinstance(entry, Optimisation) and entry.default


def _found(claim: str, lines: dict[str, MeasuredSwitch]) -> str:
    found = [figures_text(lines[key]) for key in claims()[claim].rows if key in lines]
    return "; ".join(found) or why_not(claim) or f"not measured; {_COMMAND} measures it"


def figures_text(line: MeasuredSwitch) -> str:
    """Name, time and memory of a line, or why there are none."""
    if line.time is None and line.memory is None:
        return f"{line.name}: {line.note}; {_COMMAND} measures it on supported hardware"
    figures = []
    if line.time is not None:
        figures.append(f"{time_text(line)} of the time")
    if line.memory is not None:
        figures.append(f"{line.memory:.2f} of the memory")
    return f"{line.name}: {', '.join(figures)}" + (f" ({line.note})" if line.note else "")


def time_text(line: MeasuredSwitch) -> str:
    """A ratio with its scatter; "" without one."""
    if line.time is None:
        return ""
    return f"{line.time:.2f}" + ("" if line.scatter is None else f" ± {line.scatter:.2f}")
