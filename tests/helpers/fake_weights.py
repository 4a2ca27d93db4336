"""FakeWeights: the part of FakeEngine that keeps files of models; nothing is downloaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.core.errors import ErrorInfo
from engine.protocol import commands, events
from engine.protocol.model_file_state import (
    Kind,
    Phase,
    PublishedState,
    State,
)

MB = 10**6
OFFLINE = ErrorInfo(
    code="weights-error",
    message="The server cannot be reached.",
    hint="Look at the network, then try again.",
)
_LARGE = {"seedvr2-7b": "7B", "seedvr2-7b-sharp": "7B sharp"}


def make_files() -> tuple[PublishedState, ...]:
    """A catalogue with round figures; nothing of it is here."""
    small = [
        _file(f"seedvr2-3b-{precision}", "dit", ("seedvr2-3b",), precision, size)
        for precision, size in (("fp16", 6800), ("fp8", 3400), ("q8", 3600), ("q4", 1900))
    ]
    large = [
        _file(f"{model}-{precision}", "dit", (model,), precision, size)
        for model in _LARGE
        for precision, size in (("fp16", 16400), ("fp8", 8400), ("q4", 4600))
    ]
    models = ("seedvr2-3b", *_LARGE)
    vae = _file("seedvr2-vae", "vae", models, "fp16", 500)
    text = _file("seedvr2-text", "text", models, "bf16", 1)
    wan = [
        _file("wan-2x-fp32", "vae", ("wan-2x",), "fp32", 508),
        _file("wan21-vae-fp32", "vae", ("wan21-vae",), "fp32", 507),
        _file("wan21-vae-16bit", "vae", ("wan21-vae",), "16-bit", 254),
        _file("wan22-vae-fp32", "vae", ("wan22-vae",), "fp32", 2819),
    ]
    return (*small, *large, vae, text, *wan)


def _file(
    name: str, kind: Kind, models: tuple[str, ...], precision: str, megabytes: int
) -> PublishedState:
    return PublishedState(
        id=name,
        title=name,
        kind=kind,
        models=models,
        precision=precision,
        filename=f"{name}.safetensors",
        bytes=megabytes * MB,
        sha256="0" * 64,
        licence="Apache-2.0",
        repository="somebody/SeedVR2",
    )


class FakeWeights:
    """Answers WeightsCommand as the engine does: one file after the other, others wait.

    A download stands still until `advance`, `finish` or `fail` is called.
    """

    def __init__(self, sink: events.EventSink) -> None:
        self._sink = sink
        self.files = {file.id: file for file in make_files()}
        self.waiting: list[str] = []  # ids, the first one has its turn
        self.free_mb = 212_000.0

    def answer(self, command: commands.WeightsCommand) -> None:
        """Do what is asked, as far as it needs no network."""
        match command:
            case commands.ListWeights():
                self.say_list()
            case commands.GetWeights(file=file):
                self.waiting.append(file)
                self._progress(file, 0.0, 0.0)
            case commands.StopWeights(file=file) if file in self.waiting:
                self.waiting.remove(file)
                self._sink.emit(events.WeightsStopped(file=file, phase="download"))
                self.say_list()
            case commands.VerifyWeights(file=file):
                self.put(file, "here")
                self._done(file, "verify")
            case commands.RemoveWeights(file=file):
                self.put(file, "missing")
                self._done(file, "remove")

    def put(self, file: str, state: State, *, megabytes: float | None = None) -> None:
        """Let a file stand in a state, with as much of it here."""
        is_whole = state in ("here", "unverified", "damaged")
        whole = self.files[file].bytes if is_whole else 0
        done = whole if megabytes is None else round(megabytes * MB)
        path = Path("models") / self.files[file].filename if done else None
        self.files[file] = replace(self.files[file], state=state, done_bytes=done, path=path)

    def put_package(self, file: str) -> None:
        """A transformer with VAE and text embedding is here and checked."""
        for name in (file, "seedvr2-vae", "seedvr2-text"):
            self.put(name, "here")

    def say_list(self) -> None:
        """Where every file stands."""
        self._sink.emit(
            events.WeightsListed(files=tuple(self.files.values()), free_mb=self.free_mb)
        )

    def advance(self, megabytes: float, *, speed: float = 12.5) -> None:
        """The file that has its turn has come so far."""
        file = self.waiting[0]
        self._progress(file, megabytes, self.files[file].bytes / MB, speed)

    def finish(self) -> None:
        """The file that has its turn is there."""
        file = self.waiting.pop(0)
        self.put(file, "here")
        self._done(file, "download")

    def fail(self, error: ErrorInfo = OFFLINE, *, megabytes: float = 0.0) -> None:
        """The download that has its turn ends badly; a part of the file stays."""
        file = self.waiting.pop(0)
        self.put(file, "partial" if megabytes else "missing", megabytes=megabytes)
        self._sink.emit(events.WeightsFailed(file=file, phase="download", error=error))
        self.say_list()

    def _progress(self, file: str, done: float, total: float, speed: float = 0.0) -> None:
        self._sink.emit(
            events.WeightsProgress(
                file=file,
                phase="download",
                done_mb=done,
                total_mb=total,
                mb_per_second=speed,
                seconds_left=(total - done) / speed if speed else 0.0,
            )
        )

    def _done(self, file: str, phase: Phase) -> None:
        self._sink.emit(events.WeightsDone(file=file, phase=phase, result=self.files[file]))
        self.say_list()
