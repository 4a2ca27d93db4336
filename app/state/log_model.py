"""Log of events, in sentences with the time of day."""

from __future__ import annotations

import time
from collections import deque

from PySide6.QtCore import QObject, Signal

from app.bridge.engine_bridge import EventHub
from app.engine_messages import hint, text
from app.i18n import mark, tr
from engine.core.messages import message
from engine.core.plain_text import one_line
from engine.protocol import events
from engine.protocol.model_file_state import PublishedState
from engine.protocol.tasks import TaskKind

KEPT_LINES = 1000
_ENDED = {
    "download": mark("downloaded and verified"),
    "verify": mark("verified: matches the published file"),
    "import": mark("imported"),
    "convert": mark("converted"),
    "remove": mark("removed"),
}


class LogModel(QObject):
    """The last lines of the log; `line_added` brings each new one."""

    line_added = Signal(str)

    def __init__(self, hub: EventHub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._names: dict[str, str] = {}
        for kind in (events.EngineReady, events.JobEvent, events.TaskDone, events.TaskFailed):
            hub.subscribe(kind, self._write)

    def _write(self, event: events.Event) -> None:
        """Write a line for what is worth reading afterwards."""
        if isinstance(event, events.JobQueued):
            self._names[event.job_id] = event.media.name
        sentence = self._sentence(event)
        if sentence:
            name = self._names.get(event.job_id, "") if isinstance(event, events.JobEvent) else ""
            self.add(f"{name}: {sentence}" if name else sentence)

    def add(self, sentence: str) -> None:
        """Write a line of the window itself."""
        line = f"{time.strftime('%H:%M:%S')}  {one_line(sentence)}"
        self.lines.append(line)
        self.line_added.emit(line)

    def _sentence(self, event: events.Event) -> str:
        match event:
            case events.EngineReady():
                return tr("Engine ready after {seconds} s.", seconds=f"{event.seconds:.1f}")
            case events.JobQueued():
                return tr("added to the queue")
            case events.JobRejected():
                return f"{event.source}: {text(event.error)}"
            case events.JobStarted():
                if event.done:
                    return tr(
                        "continued after {done} of {total} {total:frame|frames}",
                        done=event.done,
                        total=event.total,
                    )
                return tr("started")
            case events.PlanDowngraded():
                why = text(message(f"reason.downgrade.{event.why}"))
                changed = text(event.notice) if event.notice is not None else ""
                return " ".join([tr("switched to another plan: {why}", why=why), changed]).strip()
            case events.SegmentDone():
                return tr(
                    "part {number} saved to disk, {done} of {total} {total:frame|frames}",
                    number=event.segment + 1,
                    done=event.frames_done,
                    total=event.frames_total,
                )
            case events.Warned():
                return text(event.notice)
            case events.JobPaused():
                return tr("paused")
            case events.JobResumed():
                return tr("resumed")
            case events.JobFinished():
                passed = sum(check.passed for check in event.report.checks)
                return tr(
                    "finished, {passed} of {total} checks passed",
                    passed=passed,
                    total=len(event.report.checks),
                )
            case events.JobFailed() | events.PlanFailed():
                return f"{text(event.error)} {hint(event.error)}".strip()
            case events.JobCancelled():
                return tr("cancelled")
            case events.TaskDone(kind=TaskKind.MODEL_FILE, result=PublishedState(filename=file)):
                return f"{file}: {tr(_ENDED[event.phase])}"
            case events.TaskFailed(kind=TaskKind.MODEL_FILE, subject=file, error=error):
                return f"{file}: {text(error)} {hint(error)}".strip()
        return ""
