"""Which presets there are on this machine: those of its card's tier, then the user's own."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from engine.core.errors import EngineError, SettingsError
from engine.hardware.budget import gpu_here
from engine.hardware.gpu_table import GpuSpec
from engine.planner.gpu_presets import presets_of
from engine.settings import preset_store
from engine.settings.presets import Preset, applied
from engine.settings.schema import JobSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """Presets to choose from.

    Attributes:
        presets: Fast, Balanced, Best, then the user's own by title.
        card: That they are for; "" for a processor.
        failures: Files of the user's presets that cannot be read.
    """

    presets: tuple[Preset, ...]
    card: str
    failures: tuple[EngineError, ...]


def offered(pretend: GpuSpec | None = None) -> Offered:
    """All of them; looks at the driver and reads a folder, which takes milliseconds.

    Args:
        pretend: A card in the place of this machine's own.
    """
    card, memory = gpu_here(pretend)
    own, failures = preset_store.load_all()
    return Offered(presets=(*presets_of(card, memory), *own), card=card, failures=failures)


def named(name: str, pretend: GpuSpec | None = None) -> Preset:
    """The preset of a name, or of a title, however it is written.

    Raises:
        SettingsError: There is none; names the nearest ones.
    """
    wanted = name.strip().casefold()
    known = offered(pretend).presets
    for preset in known:
        if wanted in (preset.name.casefold(), preset.title.casefold()):
            return preset
    names = [preset.name for preset in known]
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names)}."
    raise SettingsError(f"There is no preset {name!r}.", hint=hint, value=name)


def chosen(name: str, settings: JobSettings, pretend: GpuSpec | None = None) -> JobSettings:
    """The settings with those of a preset.

    Raises:
        SettingsError: There is no such preset.
    """
    return applied(named(name, pretend), settings)
