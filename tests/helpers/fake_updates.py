"""Updates of FakeEngine: a newer version is found and loaded, unless a test says otherwise."""

from __future__ import annotations

from dataclasses import replace

from engine.core.errors import EngineError
from engine.protocol import events
from engine.protocol import update_messages as m

OWN = m.UpdateState(version="0.1.0", is_in_build=True, installed_as="setup")
NEWER = replace(
    OWN,
    was_checked=True,
    newer="0.2.0",
    date="2026-12-01",
    notes={"en": "- Faster.\n- **Smaller.**", "zh_CN": "- 更快。"},
    setup="upreel-0.2.0-setup.exe",
    bytes=182_400_000,
)


class FakeUpdates:
    """Answers at once; a download stands still until `finish` is called."""

    def __init__(self, sink: events.EventSink) -> None:
        self._sink = sink
        self.state = OWN
        self.found = NEWER  # what a look finds
        self.error: EngineError | None = None  # how the next thing ends
        self.waits = False  # the next look stands still as well

    def answer(self, command: m.UpdateCommand) -> None:
        """As the engine would."""
        match command:
            case m.ShowUpdate():
                self._sink.emit(m.UpdateKnown(state=self.state))
            case m.CheckUpdate() if not self.waits:
                self.finish("check")
            case m.DownloadUpdate():
                self.progress(61.3)
            case m.InstallUpdate():
                self.finish("install")
            case m.StopUpdate():
                self._sink.emit(m.UpdateKnown(state=self.state))
                self._sink.emit(m.UpdateStopped(phase="download"))

    def progress(self, done_mb: float) -> None:
        """So much of the setup is here."""
        total = self.state.bytes / 1e6
        said = m.UpdateProgress(
            phase="download", done_mb=done_mb, total_mb=total, mb_per_second=12, seconds_left=10
        )
        self._sink.emit(said)
        self.state = replace(self.state, done_bytes=round(done_mb * 1e6))

    def finish(self, phase: m.Phase) -> None:
        """What was asked for ends, well or with `error`."""
        error, self.error = self.error, None
        if error is None and phase == "check":
            self.state = self.found
        if error is None and phase == "download":
            self.state = replace(self.state, done_bytes=self.state.bytes, is_ready=True)
        self._sink.emit(m.UpdateKnown(state=self.state))
        if error is None:
            self._sink.emit(m.UpdateDone(phase=phase))
        else:
            self._sink.emit(m.UpdateFailed(phase=phase, error=error.info()))
