"""Figures as text: the computer, claims of documents, a page in Markdown, lines for a terminal.

Without names of users or folders. Loads without torch.
"""

from __future__ import annotations

import errno
import importlib
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from engine.core import atomic_file
from engine.core.errors import OutputUnwritable
from engine.core.messages import Message, hint_of, message, text_of, title
from engine.core.paths import resource
from engine.core.plain_text import one_line
from engine.core.serialization import from_plain, read_toml
from engine.core.units import bytes_text
from engine.hardware import devices
from engine.protocol.report import MeasuredSwitch
from engine.settings.optimisations import (
    ALL,
    Exactness,
    Optimisation,
    SwitchEntry,
    choices,
    optimisations,
)

Row = dict[str, Any]

MACHINE = "machine"
_WIDTH = 100  # characters of a terminal
_FACTS = ("processor", "threads", "memory", "card", "driver", "system", "python", "torch")
USUAL = "usual"  # row of a group: what it is measured with
_COMMAND = "`bench optimisations`"
_ENTRIES: dict[str, SwitchEntry] = {entry.key: entry for entry in (*optimisations(), *choices())}
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


def machine_row() -> Row:
    """Processor, GPU and libraries of this computer, without names of users or folders."""
    gpus = devices.gpus()
    return {
        "case": MACHINE,
        "processor": devices.cpu_name(),
        "threads": devices.cpu_threads(),
        "bfloat16": "yes" if devices.cpu_has_bf16() else "no",
        "memory": bytes_text(devices.ram()[0]),
        "card": ", ".join(gpu.name for gpu in gpus) or "none",
        "driver": ", ".join(dict.fromkeys(gpu.driver for gpu in gpus)) or "none",
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "av": _version("av"),
    }


def machine_of(rows: Iterable[Row]) -> dict[str, str]:
    """Facts about the computer out of the rows of a benchmark."""
    row = next((row for row in rows if row["case"] == MACHINE), {})
    return {name: str(row[name]) for name in _FACTS if name in row}


def _version(package: str) -> str:
    """Version of a package; "none" where it is not installed: computing alone needs no av."""
    try:
        return str(importlib.import_module(package).__version__)
    except ImportError:
        return "none"


def check_place(path: Path) -> None:
    """Refuse at once what `write_file` would refuse after minutes of measuring.

    Raises:
        OutputUnwritable: It is a folder, or its own folder does not exist.
    """
    if path.is_dir() or not path.parent.is_dir():
        number = errno.EISDIR if path.is_dir() else errno.ENOENT
        raise OutputUnwritable("figures", path=path, reason=os.strerror(number))


def write_file(path: Path, text: str) -> None:
    """Write a text file in UTF-8; a partial one never has the name."""
    try:
        atomic_file.write_text(path, text)
    except OSError as err:
        reason = err.strerror or str(err)
        raise OutputUnwritable("figures", path=path, reason=reason) from err


# --- promises of documents, and the cases that answer them: `resources/claims.toml`


ClaimState = Literal["met", "in-part", "not-met", "unconfirmed", "not-used"]
"""Outcome of measurements and counts: "unconfirmed" where none decides, "not-used" where Upreel
does without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A promise in a document; its texts are `claim.<name>` in the catalogue.

    A hint there gives the reason if there is nothing to switch on or to measure.
    """

    source: str  # document that makes it
    state: ClaimState
    words: str  # sentences about the evidence, in English
    rows: tuple[str, ...] = ()  # names of the optimisation cases that answer it
    modules: tuple[str, ...] = ()  # files that do it
    settings: tuple[str, ...] = ()  # assignments that choose it, besides the switches of the rows
    measured: str = ""  # measurements of other documents, in English
    on_gpu: str = ""  # figures of docs/benchmarks/h100.md, in English


@cache
def claims() -> Mapping[str, Claim]:
    """All claims by name, in the order of the table."""
    table = read_toml(resource("claims.toml"))
    return {name: from_plain(Claim, row) for name, row in table.items()}


def claim_of(row: str) -> Message | None:
    """Promise for a row, and its state; the first one where there are several."""
    name = next((name for name, claim in claims().items() if row in claim.rows), "")
    return promise_of(name) if name else None


def why_not(name: str) -> str:
    """Reason why nothing of a claim can be switched on or measured, in English; "" if it can."""
    return hint_of(message(f"claim.{name}"))


def unmeasured() -> Iterator[MeasuredSwitch]:
    """Lines for claims that no row answers: the promise, and as note the reason."""
    for name, claim in claims().items():
        if not claim.rows:
            code = f"claim.{name}"
            yield MeasuredSwitch(
                name=code,
                title=title(code),
                exactness="",
                is_default=False,
                claim=promise_of(name),
                note=message(code).hint,
            )


def promise_of(name: str) -> Message:
    """Title, promise and state of a claim."""
    code = f"claim.{name}"
    return message(
        "bench.claim", title=title(code), promise=message(code), state=state_of(claims()[name])
    )


def state_of(claim: Claim) -> Message:
    """Words for the state of a claim."""
    return message(f"claim-state.{claim.state}")


# --- rows of the optimisation cases as lines of a table


def measured(rows: Iterable[Row]) -> tuple[MeasuredSwitch, ...]:
    """Rows about a switch as lines of the table."""
    return tuple(_line(row) for row in rows if "switch" in row and not _is_usual(row))


def about(rows: Iterable[Row]) -> tuple[Message, ...]:
    """Models that the switches were measured with."""
    return tuple(row["about"] for row in rows if "switch" in row and _is_usual(row))


def claim_results(lines: Sequence[MeasuredSwitch]) -> list[tuple[str, str, str, str, str]]:
    """Title, promise, source and state of each claim, and figures or why there are none.

    All in English.
    """
    found = {line.name: line for line in lines}
    return [
        (
            text_of(title(f"claim.{name}")),
            text_of(message(f"claim.{name}")),
            claim.source,
            text_of(state_of(claim)),
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
    heading = title(f"switch.{key}" if is_switch(name) else f"operation.{key}")
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


def is_switch(row: str) -> bool:
    """Whether a row is about a switch or a choice, which have a group; else about an operation."""
    return "." in row


def _facts(key: str) -> tuple[Exactness | Literal[""], bool]:
    """Exactness, and whether users have it; "" and False for an operation that is no switch."""
    if not is_switch(key):
        return "", False
    if key.endswith(f".{ALL}"):
        return "exact", True
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


# --- a page, and lines for a terminal


def markdown(rows: Sequence[Row], command: str = "") -> str:
    """A page: the computer, a table for each case, the optimisations, claims of documents."""
    facts = (f"{name} {one_line(str(value))}" for name, value in machine_of(rows).items())
    lines = ["# Measured on this computer", "", "; ".join(facts) + ".", ""]
    if command:
        lines += [f"`{command}`", ""]
    for case, grid in _grids(rows):
        lines += [f"## {case}", "", *piped(grid), ""] if case != MACHINE else []
    switches = measured(rows)
    if switches:
        models = (f"- {model}" for model in about(rows))
        lines += ["## Optimisations", "", _LEGEND, "", *models, ""]
        lines += [*piped([_HEAD, *map(_long, switches)]), "", "## Claims of documents", ""]
        lines += piped(
            [("claim", "promise", "source", "state", "measured"), *claim_results(switches)]
        )
    return "\n".join(lines).rstrip() + "\n"


def text(rows: Sequence[Row]) -> str:
    """Text for a terminal: a block for each case, a column for each name in it.

    A block wider than a terminal is transposed. Optimisations have a table of their own.
    """
    blocks = []
    for case, grid in _grids(rows):
        names, *found = grid
        grid = [names, *([one_line(one) for one in cells] for cells in found)]
        lines = aligned(grid)
        if len(lines[0]) > _WIDTH:
            lines = aligned(list(zip(*grid, strict=True)))
        blocks.append([case, *(f"  {line}" for line in lines)])
    if switches := switch_lines(rows):
        blocks.append(switches)
    return "\n\n".join("\n".join(block) for block in blocks)


def _grids(rows: Sequence[Row]) -> Iterator[tuple[str, list[list[str]]]]:
    """Each case with its rows as cells below the names; rows of switches are left out."""
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case and "switch" not in row]
        names = list(dict.fromkeys(name for row in mine for name in row if name != "case"))
        if mine:
            yield case, [names, *([cell(row.get(name, "")) for name in names] for row in mine)]


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
    for heading, promise, source, state, found in claim_results(switches):
        lines += [f"  {heading}: {promise} ({source}): {state}", f"      {found}"]
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


def _short(line: MeasuredSwitch) -> tuple[str, ...]:
    return (
        line.name,
        line.exactness,
        "" if not line.exactness else "on" if line.is_default else "off",
        time_text(line),
        "" if line.memory is None else f"{line.memory:.2f}",
        "" if line.error is None else f"{line.error:.1e}",
        "" if line.error_without is None else f"{line.error_without:.1e}",
    )


def _long(line: MeasuredSwitch) -> tuple[str, ...]:
    name, exactness, *figures = _short(line)
    claim = "" if line.claim is None else str(line.claim)
    return f"`{name}`", str(line.title), exactness, *figures, claim, str(line.note or "")


def piped(grid: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in Markdown, the head first."""
    lines = [
        "| " + " | ".join(one_line(" ".join(one.replace("|", "/").split())) for one in cells) + " |"
        for cells in grid
    ]
    return [lines[0], "|" + "---|" * len(grid[0]), *lines[1:]]
