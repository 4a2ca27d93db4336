"""Answers commands about presets: those that suit the card, and the user's own."""

from __future__ import annotations

import logging

from engine.core.errors import EngineError
from engine.hardware.gpu_table import GpuSpec
from engine.planner import preset_choice
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings import preset_store

logger = logging.getLogger(__name__)


class PresetDesk:
    """Works at once, in the caller's thread: small files and a look at the driver.

    Args:
        sink: Gets the answers.
        pretend: A card in the place of this machine's own.
    """

    def __init__(self, sink: e.EventSink, pretend: GpuSpec | None) -> None:
        self._sink = sink
        self._pretend = pretend

    def answer(self, command: c.Command) -> None:
        """Do it; a failure is an event, and what there is now is said after every change."""
        try:
            self._do(command)
        except EngineError as err:
            logger.warning("%s: %s", type(command).__name__, err.message)
            self._sink.emit(e.PresetFailed(error=err.info()))

    def _do(self, command: c.Command) -> None:
        match command:
            case c.SavePreset(title=title, settings=settings):
                preset_store.save(title, settings)
            case c.RemovePreset(name=name):
                preset_store.remove(name)
            case c.ImportPreset(path=path):
                preset_store.take(path)
            case c.ExportPreset(name=name, path=path):
                preset_store.export(preset_choice.named(name, self._pretend), path)
                return
        self._say_all(with_failures=isinstance(command, c.ListPresets))

    def _say_all(self, *, with_failures: bool) -> None:
        found = preset_choice.offered(self._pretend)
        self._sink.emit(e.PresetsListed(presets=found.presets, card=found.card))
        for failure in found.failures if with_failures else ():
            self._sink.emit(e.PresetFailed(error=failure.info()))
