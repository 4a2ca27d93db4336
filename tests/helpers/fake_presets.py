"""The part of FakeEngine that answers about presets."""

from __future__ import annotations

import dataclasses

from engine.core.errors import ErrorInfo
from engine.protocol import commands, events
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings

CARD = "RTX 5070 Ti, 16 GB"
TAKEN = ErrorInfo(code="settings-error", message="This file holds no preset.", hint="Choose one.")


def make_presets() -> tuple[Preset, ...]:
    """As for a card of 16 GB."""
    goals = {
        "fast": {"model": "lite"},
        "balanced": {"model": "seedvr2-3b", "precision": "auto"},
        "best": {"model": "seedvr2-7b-sharp", "precision": "q4"},
    }
    return tuple(
        Preset(
            name=goal,
            title=f"{CARD}: {goal.capitalize()}",
            goal=goal,
            tier="16gb",
            description=f"What {goal} means.",
            changes=changes,
        )
        for goal, changes in goals.items()
    )


class FakePresets:
    """Keeps presets in memory."""

    def __init__(self, sink: events.EventSink) -> None:
        self._sink = sink
        self.presets: tuple[Preset, ...] = make_presets()
        self.card = CARD

    def answer(self, command: commands.Command) -> bool:
        """Answer at once; False for commands about something else."""
        match command:
            case commands.ListPresets():
                self.say_list()
            case commands.SavePreset():
                self._save(command)
            case commands.RemovePreset(name=name):
                self.presets = tuple(p for p in self.presets if p.name != name)
                self.say_list()
            case commands.ImportPreset():
                self._sink.emit(events.PresetFailed(error=TAKEN))
            case commands.ExportPreset():
                pass
            case _:
                return False
        return True

    def say_list(self) -> None:
        """All of them."""
        self._sink.emit(events.PresetsListed(presets=self.presets, card=self.card))

    def _save(self, command: commands.SavePreset) -> None:
        plain = dataclasses.asdict(JobSettings())
        chosen = dataclasses.asdict(command.settings)
        changes = {name: value for name, value in chosen.items() if value != plain[name]}
        made = Preset(
            name=command.title.casefold(), title=command.title, changes=changes, is_own=True
        )
        self.presets = (*self.presets, made)
        self.say_list()
