"""States of the queue, its banner and its lines, for `tools.screenshots.render`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QLineEdit, QScrollArea

from engine.api import UnfinishedJob
from engine.core.errors import CheckpointMismatch, GpuLost, SettingsError
from engine.protocol import events
from engine.settings.schema import JobSettings

if TYPE_CHECKING:
    from tools.screenshots.player import Player


def queued(player: Player) -> None:
    """Three videos wait."""
    waiting = player.recording.until(events.JobStarted)
    player.add("sample", "upreel_sample.mp4")
    player.play(waiting)
    player.add("second", "upreel_sample.mp4", JobSettings(scale=4))
    player.play([e for e in waiting if isinstance(e, events.JobQueued)], "second")
    player.add("third", "upreel_sample.mp4", JobSettings(height=1080))
    player.play([e for e in waiting if isinstance(e, events.JobQueued)], "third")
    player.program.window.queue_column.view.select("sample")


def running(player: Player) -> None:
    """A video is upscaled, another one waits."""
    queued(player)
    player.play(player.recording.part(0.6)[len(player.recording.until(events.JobStarted)) :])


def _dropping(player: Player) -> None:
    queued(player)
    names = ("Tape 1.avi", "Tape 2.avi", "Tape 3.avi", "Tapes", "letter.docx", "notes.txt")
    folder = Path(tempfile.mkdtemp())
    (folder / "Tapes").mkdir()
    player.program.window.show_drop_hover([folder / name for name in names])
    shutil.rmtree(folder)


def _more(player: Player) -> None:
    queued(player)
    player.program.window.choices.more.unfold()


def _unfinished(player: Player, *names: str) -> None:
    player.program.offer_left_over(
        tuple(UnfinishedJob(job_id=name, source=Path(name), output=Path(name)) for name in names)
    )


def _unfinished_and_waiting(player: Player) -> None:
    queued(player)
    _unfinished(player, "Grandma's birthday, tape 3 of 7, digitised.avi", "b.mp4", "c.mp4")


def _unable(player: Player) -> None:
    """A job of an earlier run that can only fail again."""
    queued(player)
    name = "Grandma's birthday, tape 3 of 7.avi"
    problem = CheckpointMismatch("source", name=name).info()
    job = UnfinishedJob(job_id=name, source=Path(name), output=Path(name), problem=problem)
    player.program.offer_left_over((job,))


def _watched(player: Player, *, is_on: bool = True, is_away: bool = False) -> None:
    queued(player)
    line = player.program.window.queue_column.watch
    line.show_folder("/films/Incoming", is_on=is_on, is_away=is_away)


def _undo_and_watched(player: Player) -> None:
    _watched(player, is_away=True)
    player.program.controller.remove(["third"])


def _wrong_time(player: Player) -> None:
    _more(player)
    window = player.program.window
    window.choices.choose({"start": "half past two"})
    error = SettingsError("not-a-time", text="half past two")
    player.say([events.PlanFailed(job_id="sample", error=error.info())])
    field = window.choices.more.editors["start"]
    area = next(a for a in window.findChildren(QScrollArea) if a.isAncestorOf(field))
    area.ensureWidgetVisible(field, 0, 120)


def _wrong_name(player: Player) -> None:
    queued(player)
    field = player.program.window.choices.result.findChild(QLineEdit, "outputName")
    field.setText("what? 1:30")
    field.editingFinished.emit()


def _many(player: Player) -> None:
    """A video is upscaled, and 199 wait."""
    running(player)
    _add(player, [f"Holiday {number:03}.mp4" for number in range(1, 198)])


def _add(player: Player, names: list[str], **media: Any) -> None:
    """Files that wait, each with its plan.

    Args:
        player: Engine that says so.
        names: Names of the files, which are those of their jobs.
        media: Other values of what was read of them.
    """
    said = list[events.Event]()
    for name in names:
        player.add(name, name)
        for event in player.recording.until(events.JobStarted):
            match event:
                case events.JobQueued():
                    found = replace(event.media, path=Path(name), **media)
                    said.append(replace(event, job_id=name, media=found))
                case events.PlanChosen(plan=plan):
                    output = plan.output.with_name(f"{Path(name).stem}_x2{Path(name).suffix}")
                    plan = replace(plan, output=output, streams=())
                    said.append(replace(event, job_id=name, plan=plan, media=None))
    player.say(said)


def _stills(player: Player) -> None:
    """Photographs wait."""
    recorded = next(e for e in player.recording.said if isinstance(e, events.JobQueued))
    video = replace(recorded.media.video, frame_count=1, duration=Fraction(1, 24))
    names = [f"DSC_{number:04}.png" for number in range(41, 45)]
    _add(player, names, kind="image", video=video, streams=())
    player.program.window.queue_column.view.select(names[0])


def _trimmed(player: Player) -> None:
    """Two of four seconds are upscaled."""
    queued(player)
    player.program.window.choices.choose({"start": "1", "stop": "3"})
    for event in player.recording.until(events.JobStarted):
        if isinstance(event, events.PlanChosen):
            plan = replace(event.plan, start=Fraction(1), stop=Fraction(3))
            player.play([replace(event, plan=plan)])


def _gpu_lost(player: Player) -> None:
    running(player)
    error = GpuLost("running", reason="CUDA error: an illegal memory access was encountered")
    player.say([events.JobFailed(job_id="sample", error=error.info())])


STATES: dict[str, Callable[[Player], None]] = {
    "unfinished": lambda player: _unfinished(player, "upreel_sample.mp4"),
    "unfinished_and_waiting": _unfinished_and_waiting,
    "unfinished_unable": _unable,
    "queued": queued,
    "many": _many,
    "stills": _stills,
    "trimmed": _trimmed,
    "gpu_lost": _gpu_lost,
    "dropping": _dropping,
    "more": _more,
    "watched": _watched,
    "watched_off": lambda player: _watched(player, is_on=False),
    "watched_away": _undo_and_watched,
    "wrong_time": _wrong_time,
    "wrong_name": _wrong_name,
}
