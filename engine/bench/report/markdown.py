"""Figures as text: Markdown for reports, lines for a terminal, without personal data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.bench.report.switch_table import (
    Answer,
    Row,
    about,
    answers,
    measured,
    time_text,
)
from engine.protocol.report import MeasuredSwitch

MACHINE = "machine"
_MACHINE_NAMES = ("processor", "threads", "memory", "card", "driver", "system", "python", "torch")
_HEAD = (
    "switch",
    "what",
    "exactness",
    "usual",
    "time",
    "memory",
    "error",
    "error without",
    "documents say",
    "note",
)
_READING = (
    "**time** and **memory** are with the switch over without it, everything else as users have "
    "it: below 1 it helps. ± is the standard error of the median over some turns. Seconds are CPU "
    "seconds of all threads on a processor, those of the card on a card; memory is the peak of "
    "what tensors take above the loaded model. **error** is the relative error (RMS) of the result "
    "beside the plain form in float64. Weights are random; small models tell the direction, the "
    "published ones the size."
)


def machine_of(rows: Iterable[Row]) -> dict[str, str]:
    """Processor, card, driver and versions."""
    row = next((row for row in rows if row["case"] == MACHINE), {})
    return {name: str(row[name]) for name in _MACHINE_NAMES if name in row}


def markdown(rows: Sequence[Row], command: str = "") -> str:
    """A page: the machine, a table for each case, what documents claim."""
    lines = ["# Measured on this machine", "", _machine_line(rows), ""]
    if command:
        lines += [f"`{command}`", ""]
    switches = measured(rows)
    for case in _cases(rows):
        mine = [row for row in rows if row["case"] == case and "switch" not in row]
        lines += [f"## {case}", "", *_table_of(mine), ""] if mine else []
    if switches:
        lines += _optimisations(rows, switches)
    return "\n".join(lines).rstrip() + "\n"


def switch_lines(rows: Sequence[Row]) -> list[str]:
    """The optimisations for a terminal: columns, then claims."""
    switches = measured(rows)
    if not switches:
        return []
    names = ("switch", "exactness", "usual", "time", "memory", "error", "without")
    grid = [names, *(_short(line) for line in switches)]
    notes = ["", *(line.note for line in switches)]
    lines = ["optimisations", *(f"  {sentence}" for sentence in about(rows))]
    for cells, note in zip(aligned(grid), notes, strict=True):
        lines += [f"  {cells}", *([f"      {note}"] if note else [])]
    lines += ["", "what documents claim, and what was found here"]
    for answer in answers(switches):
        lines += [f"  {answer.title}: {answer.says}", f"      {answer.found}"]
    return lines


def aligned(grid: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side."""
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in grid
    ]


def cell(value: object) -> str:
    """Three digits that count: ratios are below ten."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _machine_line(rows: Sequence[Row]) -> str:
    facts = machine_of(rows)
    return "; ".join(f"{name} {value}" for name, value in facts.items()) + "."


def _cases(rows: Sequence[Row]) -> list[str]:
    return [case for case in dict.fromkeys(row["case"] for row in rows) if case != MACHINE]


def _table_of(rows: Sequence[Row]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row if name != "case"))
    return _piped([names, *([cell(row.get(name, "")) for name in names] for row in rows)])


def _optimisations(rows: Sequence[Row], switches: Sequence[MeasuredSwitch]) -> list[str]:
    told = [f"- {sentence}" for sentence in about(rows)]
    table = _piped([_HEAD, *(_long(line) for line in switches)])
    claims = [("documents claim", "they say", "found here"), *map(_claim, answers(switches))]
    return [
        "## Optimisations",
        "",
        _READING,
        "",
        *told,
        "",
        *table,
        "",
        "## What documents claim",
        "",
        *_piped(claims),
    ]


def _claim(answer: Answer) -> tuple[str, str, str]:
    return answer.title, answer.says, answer.found


def _short(line: MeasuredSwitch) -> tuple[str, ...]:
    return (
        line.name,
        line.exactness,
        "on" if line.is_default else "off",
        time_text(line),
        *(_optional(line.memory, ".2f"), _optional(line.error, ".1e")),
        _optional(line.error_without, ".1e"),
    )


def _long(line: MeasuredSwitch) -> tuple[str, ...]:
    name, exactness, *figures = _short(line)
    claim = "" if line.claim is None else str(line.claim)
    return f"`{name}`", str(line.title), exactness, *figures, claim, line.note


def _optional(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _piped(grid: Sequence[Sequence[str]]) -> list[str]:
    head, *body = grid
    return [_pipe(head), "|" + "---|" * len(head), *map(_pipe, body)]


def _pipe(cells: Iterable[str]) -> str:
    return "| " + " | ".join(one.replace("|", "/") for one in cells) + " |"
