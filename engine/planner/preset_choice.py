"""Which presets there are on this machine: those of its GPU's tier, then the user's own.

Presets that come with the program are settings for a tier of GPUs by memory and a goal. Goals that
lead to times less than 1.4 apart share one preset. Without SeedVR2 Balanced takes the model of Best
for short jobs and that of Fast for all others.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from engine.core.errors import EngineError, SettingsError
from engine.core.paths import resource
from engine.core.serialization import read_toml
from engine.files import catalogue
from engine.files.model_files import Store
from engine.hardware.budget import gpu_here
from engine.hardware.gpu_table import GIB, GpuSpec
from engine.models import registry
from engine.runtimes.advice import needed_runtime
from engine.settings import presets
from engine.settings.presets import Goal, Preset, Value, applied
from engine.settings.schema import JobSettings

GOALS: tuple[Goal, ...] = ("fast", "balanced", "best")

# What a choice before may have left and every preset gives back to the planner: the longest clip,
# the largest tiles and the most blocks that fit, exact arithmetic, joins without seams.
_AS_PLANNED: dict[str, Value] = {
    "device": "auto",
    "clip_frames": 0,
    "join": "latents",
    "precision": "auto",
    "working_size": 100,
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
    """GPUs of about the same memory.

    Attributes:
        name: "cpu", "small_gpu" or "gpu".
        least_bytes: A GPU of this tier has so much memory at least.
        automatic: Model that "auto" stands for, for a video of a usual size and length.
        without_bf16: Model that it stands for on a GPU that does not multiply bfloat16.
        presets: Description, effect and settings of each preset by its name, a goal. "goals" are
            all that it serves, where that is not its name alone; "installed" has others for a
            machine with the files of a model, by the model.
    """

    name: str
    least_bytes: int
    automatic: str
    without_bf16: str
    presets: dict[Goal, dict[str, Any]]


@cache
def tiers() -> tuple[Tier, ...]:
    """All tiers, the smallest first."""
    found = [_tier(path) for path in resource("presets").glob("*.toml")]
    return tuple(sorted(found, key=lambda tier: tier.least_bytes))


def tier_of(memory_bytes: int) -> Tier:
    """The tier of a GPU with so much memory; 0 bytes is a machine without a GPU."""
    return [tier for tier in tiers() if tier.least_bytes <= memory_bytes][-1]


def presets_for(gpu: GpuSpec | None) -> tuple[Preset, ...]:
    """The presets for a GPU of the table; for a CPU with None."""
    return presets_of("", 0) if gpu is None else presets_of(*gpu_here(gpu))


def presets_of(
    title: str, memory_bytes: int, has_bf16: bool = True, installed: Collection[str] = ()
) -> tuple[Preset, ...]:
    """Fast, Balanced and Best for a GPU, also for one that is in no table; fewer where they agree.

    Args:
        title: Title of the GPU, like "RTX 5070 Ti, 16 GB"; "" without one.
        memory_bytes: Size of its memory; 0 without one.
        has_bf16: It multiplies bfloat16 in its matrix units.
        installed: Models whose files are on the machine.
    """
    tier = tier_of(memory_bytes)
    if not has_bf16:
        tier = narrowed(tier)
    precision = catalogue.suited_precision(tier.automatic, memory_bytes)
    tier = replace(tier, presets={goal: _of(tier, goal, installed) for goal in tier.presets})
    return tuple(_preset(tier, name, title or "CPU", precision) for name in tier.presets)


def _of(tier: Tier, goal: Goal, installed: Collection[str]) -> dict[str, Any]:
    """Description and settings of a preset; those of a model take their place where it can run."""
    about = dict(tier.presets[goal])
    others = about.pop("installed", {})
    return about | next((others[model] for model in others if model in installed), {})


def narrowed(tier: Tier) -> Tier:
    """The tier of a GPU without bfloat16: another automatic model, in its descriptions too."""
    names = registry.title_of(tier.automatic), registry.title_of(tier.without_bf16)
    presets = {
        goal: {**about, "description": about["description"].replace(*names)}
        for goal, about in tier.presets.items()
    }
    return replace(tier, automatic=tier.without_bf16, presets=presets)


def _preset(tier: Tier, name: Goal, title: str, precision: str) -> Preset:
    about = dict(tier.presets[name])
    goals = tuple(about.pop("goals", (name,)))
    same = " (identical on this computer)" if len(goals) > 1 else ""
    return Preset(
        name=name,
        title=f"{title}: {' / '.join(_TITLES[goal] for goal in goals)}{same}",
        goals=goals,
        tier=tier.name,
        description=about.pop("description"),
        effect=about.pop("effect"),
        changes=_AS_PLANNED | about,
        automatic=tier.automatic,
        precision=precision,
    )


def _tier(path: Path) -> Tier:
    data = read_toml(path)
    return Tier(
        name=path.stem,
        least_bytes=data["least_gib"] * GIB,
        automatic=data["automatic"],
        without_bf16=data.get("without_bf16", data["automatic"]),
        presets={goal: data[goal] for goal in GOALS if goal in data},
    )


# --- on this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """Presets to choose from.

    Attributes:
        presets: Presets for the GPU, then the user's own by title.
        gpu: Title of the GPU that they are for; "" for a CPU.
        failures: Files of the user's presets that cannot be read.
    """

    presets: tuple[Preset, ...]
    gpu: str
    failures: tuple[EngineError, ...]


def offered(pretend: GpuSpec | None = None) -> Offered:
    """All of them; looks at the driver and reads a folder, which takes milliseconds.

    Args:
        pretend: A GPU in the place of this machine's own.
    """
    gpu, memory, has_bf16 = gpu_here(pretend, awaited=needed_runtime() is not None)
    own, failures = presets.load_all()
    ours = presets_of(gpu, memory, has_bf16, _installed())
    return Offered(presets=(*ours, *own), gpu=gpu, failures=failures)


def _installed() -> tuple[str, ...]:
    """Models that presets ask for and whose files are on this machine."""
    asked = {
        model
        for tier in tiers()
        for about in tier.presets.values()
        for model in about.get("installed", {})
    }
    store = Store() if asked else None
    return tuple(model for model in asked if store is not None and store.has_all_of(model))


def named(name: str, pretend: GpuSpec | None = None) -> Preset:
    """The preset of a name, or of a title, however it is written.

    Raises:
        SettingsError: There is none; names the nearest ones.
    """
    wanted = name.strip().casefold()
    known = offered(pretend).presets
    for preset in known:
        if wanted in (preset.name.casefold(), preset.title.casefold(), *preset.goals):
            return preset
    names = [name for preset in known for name in preset.goals or (preset.name,)]
    near = difflib.get_close_matches(wanted, names, n=1)
    if near:
        raise SettingsError("unknown-preset-similar", name=name, similar=near[0])
    raise SettingsError("unknown-preset", name=name, known=tuple(names))


def chosen(name: str, settings: JobSettings, pretend: GpuSpec | None = None) -> JobSettings:
    """The settings with those of a preset.

    Raises:
        SettingsError: There is no such preset.
    """
    return applied(named(name, pretend), settings)
