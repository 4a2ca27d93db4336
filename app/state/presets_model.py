"""Presets that suit this machine and the user's own, as the engine listed them."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from engine.core.errors import ErrorInfo
from engine.protocol import events
from engine.settings.presets import Preset


class PresetsModel(QObject):
    """The last list; `failed` brings what could not be kept, read or written."""

    changed = Signal()
    failed = Signal(ErrorInfo)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.presets: tuple[Preset, ...] = ()
        self.card = ""  # "RTX 5070 Ti, 16 GB"; "" without a card that can be used

    def on_event(self, event: events.Event) -> None:
        """Take what concerns presets."""
        match event:
            case events.PresetsListed():
                self.presets, self.card = event.presets, event.card
                self.changed.emit()
            case events.PresetFailed():
                self.failed.emit(event.error)

    def own(self, title: str) -> Preset | None:
        """The user's preset of that title; case does not count."""
        plain = title.strip().casefold()
        own = (preset for preset in self.presets if preset.is_own)
        return next((preset for preset in own if preset.title.casefold() == plain), None)
