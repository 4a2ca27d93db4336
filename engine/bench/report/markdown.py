"""Figures as text: a page in Markdown, lines for a terminal; without personal data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.bench.report.machine import MACHINE, Row, machine_of
from engine.bench.report.switch_table import about, claim_results, measured, time_text
from engine.core.plain_text import one_line
from engine.protocol.report import MeasuredSwitch

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
_LEGEND = (
    "**time** and **memory** are ratios with the switch to without it, everything else at its "
    "default: below 1 is better. ± is the standard error of the median. Time is CPU seconds of all "
    "threads on a CPU, GPU time on a GPU; memory is the peak of all tensors in addition to the "
    "loaded model. **error** is the relative error (RMS) compared with the plain variant in "
    "float64. Weights are random: small models show the direction of an effect, the published "
    "sizes its amount."
)


def markdown(rows: Sequence[Row], command: str = "") -> str:
    """A page: the machine, a table for each case, claims of documents."""
    lines = ["# Measured on this computer", "", _machine_line(rows), ""]
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
    notes = ["", *(str(line.note or "") for line in switches)]
    lines = ["optimisations", *(f"  {model}" for model in about(rows))]
    for cells, note in zip(aligned(grid), notes, strict=True):
        lines += [f"  {cells}", *([f"      {note}"] if note else [])]
    lines += ["", "claims of documents, and what was measured"]
    for title, promise, source, found in claim_results(switches):
        lines += [f"  {title}: {promise} ({source})", f"      {found}"]
    return lines


def aligned(grid: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the cells of each column below each other."""
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in grid
    ]


def cell(value: object) -> str:
    """Floats with three significant digits, or one decimal from ten on."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _machine_line(rows: Sequence[Row]) -> str:
    facts = machine_of(rows)
    return "; ".join(f"{name} {one_line(str(value))}" for name, value in facts.items()) + "."


def _cases(rows: Sequence[Row]) -> list[str]:
    return [case for case in dict.fromkeys(row["case"] for row in rows) if case != MACHINE]


def _table_of(rows: Sequence[Row]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row if name != "case"))
    return piped([names, *([cell(row.get(name, "")) for name in names] for row in rows)])


def _optimisations(rows: Sequence[Row], switches: Sequence[MeasuredSwitch]) -> list[str]:
    table = piped([_HEAD, *(_long(line) for line in switches)])
    claims = [("claim", "promise", "source", "measured"), *claim_results(switches)]
    return [
        "## Optimisations",
        "",
        _LEGEND,
        "",
        *(f"- {model}" for model in about(rows)),
        "",
        *table,
        "",
        "## Claims of documents",
        "",
        *piped(claims),
    ]


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
    return f"`{name}`", str(line.title), exactness, *figures, claim, str(line.note or "")


def _optional(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def piped(grid: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in Markdown, the head first."""
    head, *body = grid
    return [_pipe(head), "|" + "---|" * len(head), *map(_pipe, body)]


def _pipe(cells: Iterable[str]) -> str:
    return (
        "| " + " | ".join(one_line(" ".join(one.replace("|", "/").split())) for one in cells) + " |"
    )
