"""States of what is tried before a job, for `tools.screenshots.render`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QPushButton

from app.preview.scene import to_image
from engine.core.errors import DiskFull
from engine.protocol import events
from engine.protocol.excerpt import Excerpt, Scene
from engine.protocol.tasks import TaskKind
from engine.settings.presets import applied

if TYPE_CHECKING:
    from tools.screenshots.player import Player

_KIND = TaskKind.EXCERPT


def waiting(player: Player) -> None:
    """A video that waits, at the frame of which the recording has the result."""
    player.add("sample", "upreel_sample.mp4")
    player.play(player.recording.until(events.JobStarted))
    frame = next(e for e in player.recording.frame if isinstance(e, events.PreviewReady))
    view = player.program.window.preview
    view.timeline.strip.setValue(frame.frame)
    player.settle()
    player.play([replace(frame, result=None)])


def _trying(player: Player) -> None:
    waiting(player)
    player.program.window.actions_["try_seconds"].trigger()
    player.say([events.TaskProgress(kind=_KIND, subject="sample", done=29, total=72)])


def _tried(player: Player) -> None:
    waiting(player)
    player.program.window.actions_["try_seconds"].trigger()
    row = player.program.queue.find("sample")
    assert row is not None
    assert row.plan is not None
    plan = replace(row.plan, start=Fraction(0), stop=Fraction(3))
    excerpt = Excerpt(
        settings=row.settings, plan=plan, frames=72, frames_per_second=11.0, device_bytes=0
    )
    made = events.ExcerptReady(job_id="sample", excerpt=excerpt)
    player.say([made, events.TaskDone(kind=_KIND, subject="sample")])
    player.play([e for e in player.recording.frame if isinstance(e, events.PreviewReady)])


def _failed(player: Player) -> None:
    waiting(player)
    player.program.window.actions_["try_frame"].trigger()
    error = DiskFull("while-writing", name="upreel_sample_x2.mp4").info()
    player.say([events.TaskFailed(kind=_KIND, subject="sample", error=error)])


def _compared(player: Player) -> None:
    """Two presets on the first of two places; the frames are those of the recording."""
    waiting(player)
    program = player.program
    program.window.preview.findChild(QPushButton, "tryCompare").click()
    view, row = program.taste.view, program.queue.find("sample")
    assert row is not None
    assert row.plan is not None
    scenes = Scene(kind="dark", seconds=0.5), Scene(kind="motion", seconds=2.2)
    found = events.ScenesFound(job_id="sample", scenes=scenes)
    player.say([found, events.TaskDone(kind=_KIND, subject="sample")])
    plan = replace(row.plan, start=Fraction(1, 2), stop=Fraction(5, 2))
    for number, name in enumerate(view.presets):
        preset = next(one for one in program.presets.presets if one.name == name)
        excerpt = Excerpt(
            settings=applied(preset, row.settings),
            plan=plan,
            frames=48,
            frames_per_second=21.4 - 9 * number,
            device_bytes=0,
        )
        player.say([events.ExcerptReady(job_id="sample", excerpt=excerpt)])
    frame = next(e for e in player.recording.frame if isinstance(e, events.PreviewReady))
    assert frame.source is not None
    assert frame.result is not None
    pictures = {"": frame.source} | dict.fromkeys(view.presets, frame.result)
    view.show_images({name: to_image(picture) for name, picture in pictures.items()})


STATES: dict[str, Callable[[Player], None]] = {
    "trying": _trying,
    "tried": _tried,
    "try_failed": _failed,
    "compared": _compared,
}
