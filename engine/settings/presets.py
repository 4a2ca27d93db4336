"""A preset: named settings that are applied over those already chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.core.errors import SettingsError
from engine.settings.schema import JobSettings

Goal = Literal["fast", "balanced", "best"]
Value = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Some settings; those it does not name stay as they are."""

    name: str  # for --preset: "fast", "balanced", "best", or of the user's own
    title: str  # as shown: "RTX 5070 Ti, 16 GB: Best"
    goals: tuple[Goal, ...] = ()  # several where one choice serves them all
    tier: str = ""  # of GPUs, as "gpu"; "" for the user's own
    description: str = ""
    changes: dict[str, Value] = field(default_factory=dict)
    is_own: bool = False
    automatic: str = ""  # model that "auto" stands for on the GPU of the preset; "" for own ones
    precision: str = ""  # of its transformer that suits the GPU; "" where it has none


def applied(preset: Preset, settings: JobSettings) -> JobSettings:
    """The settings with those of a preset.

    Raises:
        SettingsError: It names a setting that does not exist, or an impossible value.
    """
    changes: dict[str, Any] = dict(preset.changes)
    try:
        return dataclasses.replace(settings, **changes)
    except TypeError as err:
        known = {field.name for field in dataclasses.fields(JobSettings)}
        names = ", ".join(name for name in changes if name not in known)
        raise SettingsError("preset-of-another-version", title=preset.title, names=names) from err


def matching(presets: Sequence[Preset], settings: JobSettings) -> Preset | None:
    """The preset whose values these settings have; the one with the most, None for no preset."""
    same = (
        preset
        for preset in presets
        if all(getattr(settings, name, None) == value for name, value in preset.changes.items())
    )
    return max(same, key=lambda preset: len(preset.changes), default=None)
