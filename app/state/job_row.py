"""Knowledge of one job in the window, and the actions that its state allows."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtGui import QImage

from engine.core.errors import ErrorInfo, SourceMissing, SourceUnreadable
from engine.core.plain_text import one_line
from engine.protocol.events import Picture
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Notice, Plan
from engine.protocol.report import Report
from engine.settings.schema import JobSettings

WAITS_FOR_ROOM = "waits-for-room"  # a warning that is true only until the job goes on, or ends


class JobState(enum.Enum):
    """State of a job, as the user sees it."""

    READING = "reading"
    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"

    @property
    def is_active(self) -> bool:
        """True for the one job that holds the engine."""
        return self in (JobState.RUNNING, JobState.PAUSED)

    @property
    def can_change(self) -> bool:
        """True while other choices can still be made."""
        return self in (JobState.READING, JobState.WAITING)

    @property
    def can_retry(self) -> bool:
        """True when the job may wait again."""
        return self in (JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True)
class Downgrade:
    """Why a running job's plan became smaller, and the notice of the engine."""

    why: str
    notice: Notice | None = None


@dataclass(slots=True, kw_only=True)
class JobRow:
    """One row of the queue; changed by QueueModel only."""

    job_id: str
    source: Path
    settings: JobSettings = field(default_factory=JobSettings)
    output: Path | None = None
    state: JobState = JobState.READING
    media: MediaInfo | None = None
    picture: Picture | None = None
    thumbnail: QImage | None = None
    plan: Plan | None = None
    awaits_plan: bool = False  # its choices were changed after `plan` was made
    asked: str = ""  # "pause", "resume", "cancel" or "retry", until its state changes
    stage: str = ""
    stage_share: float = 0.0  # progress of joining and checking, 0 to 1
    done: int = 0
    kept: int = 0  # frames of finished segments, which survive an end
    total: int = 0
    frames_per_second: float = 0.0
    seconds_left: float = 0.0
    peak_bytes: int = 0  # memory of this program at most, where its plan is the tightest
    report: Report | None = None
    error: ErrorInfo | None = None
    lost: ErrorInfo | None = None  # why its finished result cannot be looked at any more
    is_watched: bool = False  # it came from the watched folder
    is_left_over: bool = False  # an earlier run of the program began it
    is_accepted: bool = False  # the user keeps its result as it is
    is_downloading: bool = False  # its missing files are being downloaded
    warnings: tuple[Notice, ...] = ()
    downgrades: tuple[Downgrade, ...] = ()

    @property
    def share(self) -> float:
        """Finished part, 0 to 1."""
        if self.state is JobState.DONE:
            return 1.0
        return min(1.0, self.done / self.total) if self.total else 0.0

    @property
    def seconds_to_go(self) -> float | None:
        """Predicted remaining seconds; None while nothing is known of them."""
        if self.state.is_active and self.seconds_left:
            return self.seconds_left
        return self.plan.seconds * (1 - self.share) if self.plan is not None else None

    @property
    def current_plan(self) -> Plan | None:
        """The plan; None where the present settings cannot be planned."""
        return None if self.state is JobState.WAITING and self.error is not None else self.plan

    @property
    def can_start(self) -> bool:
        """True where it waits, and nothing that is known keeps it from starting."""
        is_possible = self.error is None and (self.plan is None or self.plan.fits)
        return self.state is JobState.WAITING and is_possible and not self.awaits_plan

    @property
    def is_refused(self) -> bool:
        """True where it waits, and something keeps it from starting as it is."""
        is_waiting = self.state is JobState.WAITING and not self.awaits_plan
        return is_waiting and not self.can_start

    @property
    def is_doubtful(self) -> bool:
        """True where the result differs from its source and the user has not accepted that."""
        has_problems = self.report is not None and not self.report.passed
        return self.state is JobState.DONE and has_problems and not self.is_accepted

    @property
    def waits_for_room(self) -> bool:
        """True where it has paused because a disk is full; it goes on by itself."""
        codes = [one.code for one in self.warnings]
        return self.state is JobState.PAUSED and WAITS_FOR_ROOM in codes

    @property
    def name(self) -> str:
        """The name of the source, for display."""
        return one_line(self.source.name)

    @property
    def awaits_source(self) -> bool:
        """True when a file was refused that can be read another time: on a drive that is away."""
        if self.state is not JobState.REJECTED or self.error is None:
            return False
        return self.error.code in (SourceMissing.code, SourceUnreadable.code)

    @property
    def awaits_adoption(self) -> bool:
        """True where an unfinished job was refused that can go on another time."""
        is_over = self.error is not None and self.error.is_permanent
        return self.is_left_over and self.state is JobState.REJECTED and not is_over

    @property
    def can_clear(self) -> bool:
        """True when the result is there and nothing is left to decide."""
        return self.state is JobState.DONE and not self.is_doubtful

    @property
    def can_retry(self) -> bool:
        """True when the job may wait again, and need not fail again."""
        is_over = self.error is not None and self.error.is_permanent
        return (self.state.can_retry and not is_over) or self.is_doubtful

    @property
    def refusals(self) -> tuple[str, ...]:
        """Codes of what keeps the job from starting."""
        notices = self.plan.notices if self.plan is not None else ()
        refused = [notice.code for notice in notices if notice.severity == "refusal"]
        return (*refused, self.error.code) if self.error is not None else tuple(refused)

    @property
    def result(self) -> Path | None:
        """The finished file, once there is one."""
        if self.report is not None:
            return self.report.output
        return None

    @property
    def chosen_folder(self) -> Path | None:
        """Path of the finished file, if it was chosen for this video alone."""
        return self.result.parent if self.output is not None and self.result is not None else None


def image_of(picture: Picture) -> QImage:
    """A QImage that owns its pixels."""
    width, height = picture.size.width, picture.size.height
    return QImage(picture.rgb, width, height, 3 * width, QImage.Format.Format_RGB888).copy()
