"""Rows of the optimisation cases as lines of a table, and the claims they answer. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.bench.report.machine import Row
from engine.core.messages import Message, hint_of, message, text_of, title
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
_ENTRIES: dict[str, SwitchEntry] = {entry.key: entry for entry in (*optimisations(), *choices())}
_MEASURED_TOO: dict[str, tuple[Exactness, bool]] = {  # no switch: exactness, whether users have it
    "plan.slices": ("exact", True),
    "plan.tiles": ("inexact", False),
    "vae.attention": ("exact", True),
    "dit.sampling": ("exact", False),
}

# Promises in documents of others -> rows that answer them; the texts are `claim.<name>` in the
# catalogue. A hint there states why nothing is measured.
CLAIMS: dict[str, tuple[str, ...]] = {
    "cudnn-benchmark": ("run.cudnn_benchmark",),
    "fused-activation": ("dit.fused_steps",),
    "fused-sampling": ("dit.sampling",),
    "channels-last": ("vae.channels_last",),
    "tiles-and-slices": ("plan.slices", "plan.tiles"),
    "in-place": ("vae.in_place", "dit.in_place_residual"),
    "pinned-copies": ("run.pinned_transfers",),
    "async-tiles": ("run.copy_stream",),
    "chunked-upsampling": ("vae.chunked_upsampling",),
    "group-norm-silu": ("vae.fused_norm",),
    "flash-attention": ("vae.chunked_attention", "vae.attention"),
    "fp8": ("dit.matmul=fp8",),
    "torch-compile": ("dit.compile",),
    "tf32": ("run.tf32",),
    "fp16-accumulation": ("dit.fp16_accumulation",),
}


def measured(rows: Iterable[Row]) -> tuple[MeasuredSwitch, ...]:
    """Rows about a switch as lines of the table."""
    return tuple(_line(row) for row in rows if "switch" in row and not _is_usual(row))


def about(rows: Iterable[Row]) -> tuple[Message, ...]:
    """Models that the switches were measured with."""
    return tuple(row["about"] for row in rows if "switch" in row and _is_usual(row))


def claim_results(lines: Sequence[MeasuredSwitch]) -> list[tuple[str, str, str]]:
    """Title and promise of each claim in English, with figures or the reason why there are none."""
    found = {line.name: line for line in lines}
    return [
        (text_of(title(f"claim.{claim}")), text_of(message(f"claim.{claim}")), _found(claim, found))
        for claim in CLAIMS
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
        claim=_claim(name),
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


def _claim(name: str) -> Message | None:
    """What documents promise of a row; of a choice it counts for every value."""
    key = _key(name)
    codes = (f"claim.{claim}" for claim, rows in CLAIMS.items() if key in map(_key, rows))
    code = next(codes, "")
    return message("bench.claim", title=title(code), promise=message(code)) if code else None


def _key(row: str) -> str:
    return row.partition("=")[0]


def _found(claim: str, lines: dict[str, MeasuredSwitch]) -> str:
    found = [_figures(lines[key]) for key in CLAIMS[claim] if key in lines]
    why_not = hint_of(message(f"claim.{claim}"))
    return "; ".join(found) or why_not or "not measured: bench optimisations does"


def _figures(line: MeasuredSwitch) -> str:
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
