"""The part of FakeEngine that keeps NVIDIA runtimes; nothing is downloaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.core.errors import ErrorInfo
from engine.protocol import commands, events
from engine.protocol.runtime_state import Phase, RuntimeState

CARD = "NVIDIA GeForce RTX 5070 Ti"
OFFLINE = ErrorInfo(
    code="download-failed",
    message="The server cannot be reached.",
    hint="Look at the network, then try again.",
)
GB = 10**9


def make_runtime(**changes: Any) -> RuntimeState:
    """One with round figures, that suits card and program; nothing of it is here."""
    made = RuntimeState(
        id="cu130",
        title="NVIDIA runtime, CUDA 13.0",
        torch="2.13.0+cu130",
        cuda="13.0",
        driver="580.0",
        bytes=1_900_000_000,
        about_bytes=1_900_000_000,
        disk_bytes=5_700_000_000,
        can_download=True,
        suits_card=True,
    )
    return replace(made, **changes)


def make_older(**changes: Any) -> RuntimeState:
    """A second one, for older drivers."""
    older = make_runtime(id="cu126", torch="2.13.0+cu126", cuda="12.6", driver="528.33")
    return replace(older, bytes=2_500_000_000, disk_bytes=7_500_000_000, **changes)


def make_listed(*runtimes: RuntimeState, **changes: Any) -> events.RuntimesListed:
    """What a packed program says on a machine with a card."""
    made = events.RuntimesListed(
        runtimes=runtimes or (make_runtime(), make_older()),
        used="No NVIDIA runtime is chosen.",
        advice=f"NVIDIA runtime, CUDA 13.0 suits {CARD} with driver 581.29.",
        suited="cu130",
        free_mb=212_000.0,
        card=CARD,
        driver="581.29",
    )
    return replace(made, **changes)


NO_CARD = make_listed(
    advice="There is no NVIDIA card here: no runtime is needed.", suited="", card="", driver=""
)


class FakeRuntimes:
    """Answers RuntimeCommand as the engine does, one at a time; on a machine without a card.

    A download stands still until `advance`, `finish` or `fail` is called.
    """

    def __init__(self, sink: events.EventSink) -> None:
        self._sink = sink
        self.listed = NO_CARD
        self.running: tuple[Phase, str] | None = None

    def answer(self, command: commands.RuntimeCommand) -> None:
        """Do what is asked, as far as it needs neither network nor card."""
        match command:
            case commands.ListRuntimes():
                self.say()
            case commands.InstallRuntime(runtime=name):
                self.begin("download", name)
            case commands.ImportRuntime(paths=paths):
                self.begin("import", ", ".join(path.name for path in paths))
            case commands.StopRuntime() if self.running is not None:
                phase, name = self.running
                self.running = None
                self._sink.emit(events.RuntimeStopped(runtime=name, phase=phase))
                self.say()
            case commands.UseRuntime(runtime=name):
                self.choose(name)
                self.done("use", name, "It is chosen.")
            case commands.RemoveRuntime(runtime=name):
                self.put(name, state="missing", done_bytes=0, path=None, is_chosen=False)
                self.done("remove", name, "It is removed.")

    def put(self, name: str, **changes: Any) -> None:
        """Let a runtime stand differently."""
        runtimes = tuple(
            replace(state, **changes) if state.id == name else state
            for state in self.listed.runtimes
        )
        self.listed = replace(self.listed, runtimes=runtimes)

    def choose(self, name: str) -> None:
        """Let the next start take one; "" for the program's own."""
        for state in self.listed.runtimes:
            self.put(state.id, is_chosen=state.id == name)

    def say(self, listed: events.RuntimesListed | None = None) -> None:
        """Where everything stands."""
        self.listed = listed or self.listed
        self._sink.emit(self.listed)

    def begin(self, phase: Phase, name: str) -> None:
        """Something is done to a runtime from now on."""
        self.running = (phase, name)
        self._sink.emit(events.RuntimeProgress(runtime=name, phase=phase))

    def advance(self, megabytes: float, *, speed: float = 12.5, total: float = 1900.0) -> None:
        """What is done has come so far."""
        assert self.running is not None
        phase, name = self.running
        if phase == "download":
            self.put(name, state="partial", done_bytes=round(megabytes * 1e6))
        self._sink.emit(
            events.RuntimeProgress(
                runtime=name,
                phase=phase,
                done_mb=megabytes,
                total_mb=total,
                mb_per_second=speed,
                seconds_left=(total - megabytes) / speed,
            )
        )

    def finish(self, name: str = "cu130") -> None:
        """The runtime is installed, was tried, and is taken by the next start."""
        path = Path("runtimes") / name
        self.put(name, state="here", path=path, done_bytes=5 * GB)
        self.choose(name)
        self.done("use", name, f"The next start takes torch 2.13.0+{name}.")

    def fail(self, error: ErrorInfo = OFFLINE) -> None:
        """It ended badly; what came stays."""
        assert self.running is not None
        phase, name = self.running
        self.running = None
        self._sink.emit(events.RuntimeFailed(runtime=name, phase=phase, error=error))
        self.say()

    def done(self, phase: Phase, name: str, message: str) -> None:
        """It went well."""
        self.running = None
        self._sink.emit(events.RuntimeDone(runtime=name, phase=phase, message=message))
        self.say()
