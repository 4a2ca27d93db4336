"""States of two videos next to each other, for `tools.screenshots.render`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtGui import QImage
from PySide6.QtWidgets import QComboBox, QPushButton

from engine.core.errors import ResultGone
from engine.protocol import events
from engine.settings.schema import JobSettings
from tools.screenshots import excerpt_states

if TYPE_CHECKING:
    from tools.screenshots.player import Player


def _two_results(player: Player) -> None:
    """Twice and four times the size; the frame of both is that of the recording."""
    player.add("sample", "upreel_sample.mp4")
    player.play(player.recording.said)
    player.add("larger", "upreel_sample.mp4", JobSettings(scale=4))
    player.play([_four_times(event) for event in player.recording.said], "larger")
    player.program.window.preview.pair_bar.chosen.emit("sample", "larger")
    player.settle()


def _four_times(event: events.Event) -> events.Event:
    """A plan for twice the size, as if it were for four times; other events as they are."""
    if not isinstance(event, events.PlanChosen):
        return event
    size = event.plan.picture.size.scaled(2)
    output = event.plan.output.with_name("upreel_sample_x4.mp4")
    picture = replace(event.plan.picture, size=size)
    return replace(event, plan=replace(event.plan, picture=picture, output=output))


def _long_names(player: Player) -> None:
    """Names that have no room; the list B is open."""
    _two_results(player)
    box = player.program.window.preview.findChild(QComboBox, "filmB")
    box.setItemText(
        box.currentIndex(), "Grandma's birthday, tape 3 of 7, digitised_x4.mp4 1280×720"
    )
    box.showPopup()
    player.settle()


def _lost(player: Player) -> None:
    """One of the two results was deleted."""
    _two_results(player)
    error = ResultGone("deleted", name="upreel_sample_x4.mp4").info()
    player.say([events.ResultLost(job_id="larger", error=error)])


def _no_result(player: Player) -> None:
    """The difference is asked for before there is a result."""
    excerpt_states.waiting(player)
    view = player.program.window.preview
    view.pair.show(view.pair.images[0], QImage())
    view.findChild(QPushButton, "segment-difference").click()


STATES: dict[str, Callable[[Player], None]] = {
    "two_results": _two_results,
    "two_results_lost": _lost,
    "two_results_long": _long_names,
    "no_result": _no_result,
}
