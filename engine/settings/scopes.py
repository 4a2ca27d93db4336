"""Settings that belong to one video alone, and those that other videos may get."""

from __future__ import annotations

import dataclasses

from engine.settings.schema import JobSettings, describe


def for_next_films(settings: JobSettings) -> JobSettings:
    """The settings without those that belong to one film only."""
    usual, fields = JobSettings(), describe(JobSettings)
    names = (name for name, about in fields.items() if about.scope == "source")
    return dataclasses.replace(settings, **{name: getattr(usual, name) for name in names})


def changes_for_others(before: JobSettings, after: JobSettings) -> dict[str, object]:
    """Differences by name, without those that belong to one video only."""
    before, after = for_next_films(before), for_next_films(after)
    values = dataclasses.asdict(after)
    return {name: value for name, value in values.items() if value != getattr(before, name)}


def with_latents_of(source: JobSettings, settings: JobSettings) -> JobSettings:
    """`settings` with those of `source` that say how latents are read."""
    names = (name for name, about in describe(JobSettings).items() if "latents" in about.families)
    return dataclasses.replace(settings, **{name: getattr(source, name) for name in names})
