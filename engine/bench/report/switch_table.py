"""Rows of the optimisation cases as lines of a table, and the claims they answer. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    "vae.compile": ("rounding", False),
    "dit.sampling": ("exact", False),
}


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise in a document; the text is `claim.<name>` in the catalogue.

    A hint there states why nothing is measured.

    Attributes:
        source: Where it is made.
        rows: That answer it.
    """

    source: str
    rows: tuple[str, ...]


_GUIDES = "guides for SeedVR2 nodes, estimates"
_FOLDS = "docs/vae-folds.md (operations)"
_TOTALS = ("vae.all", "dit.all")
CLAIMS: dict[str, Claim] = {
    "total-time": Claim(_GUIDES, _TOTALS),
    "total-memory": Claim(_GUIDES, _TOTALS),
    "total-factor": Claim(_GUIDES, _TOTALS),
    "cudnn-benchmark": Claim(_GUIDES, ("run.cudnn_benchmark",)),
    "fused-activation": Claim(_GUIDES, ("dit.fused_steps",)),
    "fused-sampling": Claim(_GUIDES, ("dit.sampling",)),
    "channels-last": Claim(f"{_GUIDES}; sglang #18540, #28021: 6-17 %", ("vae.channels_last",)),
    "tiles-and-slices": Claim(_GUIDES, ("plan.slices", "plan.tiles")),
    "cached-ramps": Claim(_GUIDES, ("plan.cached_ramps",)),
    "separable-blending": Claim(_GUIDES, ("plan.separable_blending",)),
    "in-place": Claim(_GUIDES, ("vae.in_place", "dit.in_place_residual")),
    "no-concatenation": Claim(
        f"{_GUIDES}; sglang #27263: 1.14-1.31 times as fast", ("vae.ring_buffers",)
    ),
    "pixel-shuffle": Claim(_GUIDES, ("vae.pixel_shuffle",)),
    "pinned-copies": Claim(_GUIDES, ("run.pinned_transfers",)),
    "async-tiles": Claim(_GUIDES, ("run.copy_stream",)),
    "chunked-upsampling": Claim(_GUIDES, ("vae.chunked_upsampling",)),
    "group-norm-silu": Claim(_GUIDES, ("vae.fused_norm",)),
    "flash-attention": Claim(_GUIDES, ("vae.chunked_attention", "vae.attention")),
    "sage-attention": Claim(_GUIDES, ("dit.attention=sage2", "dit.attention=sage3-fp4")),
    "cudnn-attention": Claim("ComfyUI #9299", ("dit.attention=cudnn",)),
    "grouped-windows": Claim("vLLM-Omni #7851", ("dit.cached_layout", "dit.grouped_windows")),
    "half-vae": Claim(_GUIDES, ("vae.precision=float16", "vae.precision=bfloat16")),
    "tf32": Claim(_GUIDES, ("run.tf32",)),
    "fp16-accumulation": Claim(
        f"{_GUIDES}; ComfyUI #6453: 25 % with SDXL", ("dit.fp16_accumulation",)
    ),
    "half-convolutions": Claim("comfy-kitchen", ("vae.fp16_accumulation",)),
    "fp8": Claim(_GUIDES, ("dit.matmul=fp8",)),
    "int8": Claim("ComfyUI-SeedVR2_VideoUpscaler #624", ("dit.matmul=int8",)),
    "fp4": Claim(
        f"{_GUIDES}; ComfyUI-SeedVR2_VideoUpscaler #486, #604: not faster",
        ("dit.matmul=nvfp4",),
    ),
    "torch-compile": Claim(
        f"{_GUIDES}; README of ComfyUI-SeedVR2_VideoUpscaler", ("vae.compile", "dit.compile")
    ),
    "compile-overhead": Claim(_GUIDES, ("vae.compile", "dit.compile")),
    "stable-memory": Claim(_GUIDES, ("plan.repeated",)),
    "upsampler-fold": Claim(
        _FOLDS, ("vae.upsampler_fold", "vae.first_frame_fold", "vae.image_mode")
    ),
    "temporal-winograd": Claim(_FOLDS, ("vae.temporal_winograd",)),
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
        for name, claim in CLAIMS.items()
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
    """What documents promise of a row; the first promise where there are several."""
    codes = (f"claim.{claim}" for claim, found in CLAIMS.items() if name in found.rows)
    code = next(codes, "")
    return message("bench.claim", title=title(code), promise=message(code)) if code else None


def _found(claim: str, lines: dict[str, MeasuredSwitch]) -> str:
    found = [_figures(lines[key]) for key in CLAIMS[claim].rows if key in lines]
    why_not = hint_of(message(f"claim.{claim}"))
    return "; ".join(found) or why_not or f"not measured: {_COMMAND} does"


def _figures(line: MeasuredSwitch) -> str:
    if line.time is None and line.memory is None:
        return f"{line.name}: {line.note}; where it works, {_COMMAND} measures it"
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
