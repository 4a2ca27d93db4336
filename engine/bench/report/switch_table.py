"""Rows of the optimisation cases as lines for people, and what claims they answer. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.bench.report.machine import Row
from engine.protocol.report import MeasuredSwitch
from engine.settings.optimisations import (
    CLAIMS,
    Claim,
    Entry,
    Optimisation,
    choices,
    switches,
)

USUAL, ALL = "usual", "all"  # rows of a group: what it is measured with; every switch together
_LINES: dict[str, Entry] = {entry.key: entry for entry in (*switches(), *choices())}
_GROUPS = {"vae": "the VAE", "dit": "the transformer", "run": "the machine"}
_BESIDES = {  # what is no line of the registry: title, exactness, whether users have it
    "plan.slices": ("clips in slices", "exact", True),
    "plan.tiles": ("frames in blended tiles", "inexact", False),
    "vae.attention": ("attention block by block", "exact", True),
    "dit.sampling": ("sums of sampling for nothing", "exact", False),
}
_MORE_ANSWERS = {  # by title of the claim
    "fused sampling": ("dit.sampling",),
    "tiled and sliced": ("plan.slices", "plan.tiles"),
    "FlashAttention in the VAE": ("vae.attention",),
    "FP8": ("dit.products=fp8",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was measured in the place of what documents claim."""

    title: str
    says: str
    found: str


def measured(rows: Iterable[Row]) -> tuple[MeasuredSwitch, ...]:
    """Those rows that are about a switch."""
    return tuple(_line(row) for row in rows if "switch" in row and not _is_usual(row))


def about(rows: Iterable[Row]) -> tuple[str, ...]:
    """What the switches were measured with, a sentence for each model."""
    return tuple(row["about"] for row in rows if "switch" in row and _is_usual(row))


def answers(lines: Sequence[MeasuredSwitch]) -> tuple[Answer, ...]:
    """Each claim of documents, with numbers or the reason why there are none."""
    found = {line.name: line for line in lines}
    return tuple(
        Answer(title=claim.title, says=claim.says, found=_found(claim, found)) for claim in CLAIMS
    )


def _is_usual(row: Row) -> bool:
    return str(row["switch"]).endswith(f".{USUAL}")


def _line(row: Row) -> MeasuredSwitch:
    name = str(row["switch"])
    title, exactness, is_default = _about(name)
    return MeasuredSwitch(
        name=name,
        title=title,
        exactness=exactness,
        is_default=is_default,
        time=row.get("time"),
        scatter=row.get("scatter"),
        memory=row.get("memory"),
        error=row.get("error"),
        error_without=row.get("error_without"),
        claim=_claim(name),
        note=row.get("note", ""),
    )


def _about(name: str) -> tuple[str, str, bool]:
    """Title, exactness, and whether users have it."""
    key, _, value = name.partition("=")
    group, _, field = key.partition(".")
    if field == ALL:
        return f"all of {_GROUPS[group]} together", "exact", True
    if key in _BESIDES:
        return _BESIDES[key]
    entry = _LINES[key]
    is_default = entry.default if isinstance(entry, Optimisation) else False
    return f"{entry.title}: {value}" if value else entry.title, entry.exactness, is_default


def _claim(name: str) -> str:
    key = name.partition("=")[0]
    entry = _LINES.get(key)
    if entry is not None and entry.claim:
        return entry.claim
    said = (c for c in CLAIMS if name in (*c.keys, *_MORE_ANSWERS.get(c.title, ())))
    return next((f"{claim.title}: {claim.says}" for claim in said), "")


def _found(claim: Claim, lines: dict[str, MeasuredSwitch]) -> str:
    keys = (*claim.keys, *_MORE_ANSWERS.get(claim.title, ()))
    told = [_told(lines[key]) for key in keys if key in lines]
    return "; ".join(told) or claim.why_not or "not measured: bench optimisations does"


def _told(line: MeasuredSwitch) -> str:
    if line.time is None and line.memory is None:
        return f"{line.name}: cannot be measured here: {line.note}"
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
