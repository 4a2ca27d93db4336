"""Presets that come with the program: a tier of cards by memory x a goal, as settings."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from engine.core.paths import resource
from engine.hardware.gpu_table import GIB, GpuSpec
from engine.settings.presets import Goal, Preset, Value

PROCESSOR = "cpu"  # tier of a machine without a card
GOALS: tuple[Goal, ...] = ("fast", "balanced", "best")

# What a choice before may have left and every preset gives back to the planner: the longest clip,
# the largest tiles and the most blocks that fit, exact arithmetic, joins without seams.
_AS_PLANNED: dict[str, Value] = {
    "device": "auto",
    "clip_frames": 0,
    "join": "latents",
    "encode_tile": 0,
    "decode_tile": 0,
    "blocks_on_device": -1,
    "attention": "auto",
    "matmul": "none",
    "vae_precision": "auto",
}
_TITLES = {"fast": "Fast", "balanced": "Balanced", "best": "Best"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Cards of about the same memory.

    Attributes:
        name: "cpu", "8gb" and so on.
        least_bytes: A card of this tier has so much memory at least.
        goals: Description and settings of each goal.
    """

    name: str
    least_bytes: int
    goals: dict[str, dict[str, Any]]


@cache
def tiers() -> tuple[Tier, ...]:
    """All tiers, the smallest first."""
    found = [_tier(path) for path in resource("presets").glob("*.toml")]
    return tuple(sorted(found, key=lambda tier: tier.least_bytes))


def tier_of(memory_bytes: int) -> Tier:
    """The tier of a card with so much memory; 0 bytes is a machine without a card."""
    return [tier for tier in tiers() if tier.least_bytes <= memory_bytes][-1]


def presets_for(card: GpuSpec | None) -> tuple[Preset, ...]:
    """Fast, Balanced and Best for a card of the table; for a processor with None."""
    return presets_of("", 0) if card is None else presets_of(card.title, card.memory_bytes)


def presets_of(title: str, memory_bytes: int) -> tuple[Preset, ...]:
    """Fast, Balanced and Best for a card, also for one that is in no table.

    Args:
        title: Of the card, as "RTX 5070 Ti, 16 GB"; "" without one.
        memory_bytes: Size of its memory; 0 without one.
    """
    tier = tier_of(memory_bytes)
    return tuple(_preset(tier, goal, title or "Processor") for goal in GOALS)


def _preset(tier: Tier, goal: Goal, title: str) -> Preset:
    about = dict(tier.goals[goal])
    return Preset(
        name=goal,
        title=f"{title}: {_TITLES[goal]}",
        goal=goal,
        tier=tier.name,
        description=about.pop("description"),
        changes=_AS_PLANNED | about,
    )


def _tier(path: Path) -> Tier:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return Tier(
        name=path.stem,
        least_bytes=data["least_gib"] * GIB,
        goals={goal: data[goal] for goal in GOALS},
    )
