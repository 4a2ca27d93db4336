"""An engine that plays back events of another one, for `tools.screenshots.render`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from engine.core import paths
from engine.core.errors import EngineError
from engine.protocol import commands, events
from engine.protocol.excerpt import Excerpt, for_look
from engine.protocol.tasks import TaskKind
from engine.settings.schema import EngineSettings, JobSettings

if TYPE_CHECKING:
    from PySide6.QtGui import QPixmap
    from PySide6.QtWidgets import QWidget

    from app.application import Program


_ROUNDS = 20  # of events, at least: a busy computer needs longer for each


@dataclass
class Recording:
    """Events of the engine for each job, in order, and the pictures of one frame."""

    said: list[events.Event] = field(default_factory=list)
    frame: list[events.Event] = field(default_factory=list)
    overview: list[events.Event] = field(default_factory=list)  # events that fill the timeline
    model_files: list[events.Event] = field(default_factory=list)
    community: list[events.Event] = field(default_factory=list)  # two seconds of the same video
    community_frame: list[events.Event] = field(default_factory=list)  # a frame of that result
    seedvr2: list[events.Event] = field(default_factory=list)  # a video, not started
    wan: list[events.Event] = field(default_factory=list)
    presets: list[events.Event] = field(default_factory=list)  # for the machine at hand
    on_gpu: list[events.Event] = field(default_factory=list)  # planned for a GPU of the table
    too_much: list[events.Event] = field(default_factory=list)  # for a GPU that is too small

    def until(self, kind: type[events.Event]) -> list[events.Event]:
        """Events before the first of a class."""
        at = next(i for i, event in enumerate(self.said) if isinstance(event, kind))
        return self.said[:at]

    def part(self, share: float) -> list[events.Event]:
        """Events until a share of the frames is written."""
        for at, event in enumerate(self.said):
            is_progress = isinstance(event, events.StageProgress) and event.stage == "upscale"
            if is_progress and event.done >= share * event.total:
                return self.said[: at + 1]
        return self.said


class Player:
    """An engine that plays back a recording, under other names where one video is not enough."""

    def __init__(self, program: Program, recording: Recording) -> None:
        self._program, self._recording = program, recording
        self._looks: dict[str, Excerpt] = {}  # by job_id
        for rest in (program.excerpts.rest, program.overviews.rest):
            rest.setInterval(0)  # what follows a moment later is in each picture

    def start(self) -> None:
        """Nothing runs."""

    def send(self, command: commands.Command) -> None:
        """Questions are answered, as recorded; of plans for a look at times, by the planner."""
        match command:
            case commands.ShowPlan():
                self._show_plan(command)
            case commands.ShowFrame():
                self._show_frame(command)
            case commands.MakeLook(job_id=job_id, start=start):
                self._look(job_id, Fraction(start))
            case commands.ReadOverview(job_id=job_id):
                for event in self._recording.overview:
                    if isinstance(event, events.OverviewRead):
                        self._say(replace(event, job_id=job_id))
                self._say(events.TaskDone(kind=TaskKind.OVERVIEW, subject=job_id))

    def _show_frame(self, command: commands.ShowFrame) -> None:
        row = self._program.queue.find(command.job_id)
        if row is not None and row.media is not None and row.media.holds_latents:
            return  # nothing of it was decoded
        report = row.report if row is not None else None
        result = self._recording.frame
        if report is not None and report.model_files:
            result = self._recording.community_frame
        look = self._looks.get(command.job_id)
        has_result = report is not None or (look is not None and look.holds(command.seconds))
        for event in result if has_result else self._recording.said:
            if isinstance(event, events.PreviewReady):
                self._say(replace(event, job_id=command.job_id, seconds=command.seconds))

    def _look(self, job_id: str, start: Fraction) -> None:
        """The result that was recorded, as a look at the frame of the playhead."""
        row = self._program.queue.find(job_id)
        assert row is not None
        assert row.plan is not None
        work = replace(row.plan.work, model="lite")
        plan = replace(row.plan, work=work, start=start, stop=start + Fraction(1, 100))
        self._looks[job_id] = Excerpt(
            settings=for_look(row.settings),
            plan=plan,
            frames=1,
            frames_per_second=0.0,
            device_bytes=0,
        )
        self._say(events.ExcerptReady(job_id=job_id, excerpt=self._looks[job_id]))
        self._say(events.TaskDone(kind=TaskKind.LOOK, subject=job_id))

    def _show_plan(self, command: commands.ShowPlan) -> None:
        from engine.api import pretended
        from engine.pipeline.prepare import Machine, make_plan

        row = self._program.queue.find(command.job_id)
        if row is None or row.plan is None or row.media is None:
            return
        gpus = pretended(row.plan.card.split(",")[0]) if row.plan.card else ()
        machine = Machine(settings=EngineSettings(), jobs_folder=paths.jobs_folder(), pretend=gpus)
        shown = None
        with suppress(EngineError):
            shown = make_plan(row.media, command.settings, row.output, machine)
        settings = command.settings
        self._say(events.PlanShown(job_id=command.job_id, settings=settings, plan=shown))

    def close(self, timeout_s: float = 20.0) -> None:
        """Nothing ends."""

    def emit_telemetry(self) -> None:
        """The last reading of the machine."""
        found = [e for e in self._recording.said if isinstance(e, events.Telemetry)]
        self.say(found[-1:])

    def add(self, job_id: str, name: str, settings: JobSettings | None = None) -> None:
        """Adds a video to the queue."""
        folder = paths.resource("samples")
        self._program.controller.settings = settings or JobSettings()
        self._program.queue.add(job_id, folder / name, settings or JobSettings())

    def play(self, said: list[events.Event], job_id: str = "sample") -> None:
        """Emit recorded events of a job."""
        for event in said:
            if isinstance(event, events.JobEvent):
                self._say(replace(event, job_id=job_id))
        self.settle()

    def say(self, said: list[events.Event]) -> None:
        """Emit any events."""
        for event in said:
            self._say(event)
        self.settle()

    def settle(self) -> None:
        """Let the window take events, request frames, and paint."""
        from PySide6.QtCore import QDeadlineTimer, QEventLoop
        from PySide6.QtWidgets import QApplication

        deadline, rounds = QDeadlineTimer(300), 0
        while not deadline.hasExpired() or rounds < _ROUNDS:
            QApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 20)
            rounds += 1

    @property
    def model_files(self) -> events.ModelFilesListed:
        """The list of model files, as the engine reported it."""
        listed = events.ModelFilesListed
        return next(e for e in self._recording.model_files if isinstance(e, listed))

    @property
    def dialog(self) -> QWidget | None:
        """A page that is open in front of the window."""
        from app.jobs.report_dialog import ReportDialog

        program = self._program
        views = (
            program.models.view,
            program.latents.sheet,
            program.bench.view,
            program.taste.view,
            program.settings.dialog,
            program.runtime.view,
            program.updates.view,
            program.window.help,
            program.machines.dialog,
            program.machines.page,
            *program.window.findChildren(ReportDialog),
        )
        return next((view for view in views if view.isVisible()), None)

    def picture(self, part: str = "") -> QPixmap:
        """The window, or the page in front of it, with a menu that is open; or a widget of it.

        Args:
            part: Object name of that widget.
        """
        from PySide6.QtGui import QPainter
        from PySide6.QtWidgets import QApplication, QWidget

        shown = self.dialog or self._program.window
        shown = shown.findChild(QWidget, part) if part else shown
        picture = shown.grab()
        popup = QApplication.activePopupWidget()
        if popup is not None:
            painter = QPainter(picture)
            opener = popup.parentWidget() or shown
            below = opener.mapTo(shown, opener.rect().bottomRight())
            painter.drawPixmap(max(0, below.x() - popup.width()), below.y() + 4, popup.grab())
            painter.end()
            popup.close()
        return picture

    @property
    def recording(self) -> Recording:
        """The events that are played back."""
        return self._recording

    @property
    def program(self) -> Program:
        """The window that is shown."""
        return self._program

    def _say(self, event: events.Event) -> None:
        self._program.bridge.emit(event)
