"""Values of commands that no window sends: each is taken, or refused with a sentence."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine import diagnostics
from engine.bench.wing import BenchmarkService
from engine.jobs import engine_thread, task_runner
from engine.jobs.engine_thread import EngineThread
from engine.jobs.task_runner import Task
from engine.pipeline.prepare import Machine
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol import machines as m
from engine.protocol.commands import check
from engine.protocol.excerpt import Excerpt
from engine.protocol.tasks import TaskKind
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.clips import Clip, make_clip
from tests.helpers.plans import a_media, a_plan

FAST = JobSettings(model="none")
EXCERPT = Excerpt(settings=FAST, plan=a_plan(), frames=1, frames_per_second=1.0, device_bytes=0)
COMMANDS = (
    c.AddJob(job_id="b", source=Path("film.mkv"), settings=FAST),
    c.ExamineSource(job_id="a", media=a_media()),
    c.SourceExamined(job_id="a", media=a_media()),
    c.AdoptJob(job_id="left"),
    c.ChangeJob(job_id="a", settings=FAST),
    c.ShowPlan(job_id="a", settings=FAST),
    c.StartQueue(),
    c.RemoveJob(job_id="b"),
    c.RestoreJob(job_id="b", position=0),
    c.MoveJob(job_id="a", position=0),
    c.RetryJob(job_id="a"),
    c.PauseJob(job_id="a"),
    c.ResumeJob(job_id="a"),
    c.CancelJob(job_id="b"),
    c.ShowFrame(job_id="a", seconds=0.0),
    c.FindScenes(job_id="a"),
    c.MakeExcerpt(job_id="a", start=0.0),
    c.MakeLook(job_id="a", start=0.0),
    c.ReadOverview(job_id="a"),
    c.ExcerptMade(job_id="a", excerpt=EXCERPT),
    c.ShowLatent(path=Path("film.latent")),
    c.SavePreset(title="Mine", settings=FAST),
    c.RemovePreset(name="mine"),
    c.ExportPreset(name="lite", path=Path("preset.toml")),
    c.ImportPreset(path=Path("preset.toml")),
    c.ChangeEngine(settings=EngineSettings()),
    c.RunBenchmark(),
    c.WriteDiagnostics(path=Path("report.zip")),
    c.DownloadModelFile(file="unknown"),
    c.VerifyModelFile(file="unknown"),
    c.ImportModelFile(path=Path("model.pth")),
    c.ConvertModelFile(file="unknown"),
    c.RemoveModelFile(file="unknown"),
    c.InstallRuntime(runtime="unknown"),
    c.ImportRuntime(paths=(Path("torch.whl"),)),
    c.UseRuntime(runtime="unknown"),
    c.RemoveRuntime(runtime="unknown"),
    c.StopTask(kind=TaskKind.MODEL_FILE),
    m.ShowMachines(are_shown=False),
    m.PairMachine(address="127.0.0.1:1"),
    m.ConfirmPairing(words=("one", "two"), are_same=False),
    m.ForgetMachine(fingerprint="unknown"),
    m.LendMachine(is_lent=False),
)
NAMES = ("", " ", ".", "..", "unknown", "excerpts", "con", "a/b", "\0", "\udc80", "a" * 5000, "字")
VALUES: dict[type, tuple[Any, ...]] = {
    str: NAMES,
    Path: (*(Path(name) for name in NAMES), Path("/")),
    float: (math.nan, math.inf, -math.inf, -1.0, 0.0, 1e308, -1e308, 5e-324, 10**400),
    int: (-1, 0, 10**9, 2**63 - 1, -(2**63), 10**400, 10**5000),
    tuple: ((), ("",), (None,), (Path(),), (Path("a" * 5000),)),
}
OTHER = (None, b"", "1", 1, 1.5, True, [], Path("x"), EngineSettings(), a_media(), object())


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """An engine that answers in this thread, tasks too; it has a job "a"."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(diagnostics, "examine", lambda: ())
    monkeypatch.setattr(engine_thread, "Sampler", None)
    monkeypatch.setattr(socket, "getaddrinfo", no_address)
    for measures in ("_measure", "_archive"):  # a minute and ten minutes
        monkeypatch.setattr(BenchmarkService, measures, staticmethod(lambda *_: None))
    found: list[e.Event] = []
    sink = SimpleNamespace(emit=found.append)
    machine = Machine(settings=EngineSettings(threads=1), jobs_folder=tmp_path / "jobs")
    thread = EngineThread(sink, machine)

    def start(task: Task) -> None:
        found.append(task_runner._done(task_runner._Run(task, sink)))

    monkeypatch.setattr(thread._tasks, "start", start)
    film = make_clip(tmp_path / "film.mkv", Clip(frames=3, size=(32, 16)))

    def do(command: c.Command) -> None:
        thread.send(command)
        while thread._inbox:
            thread._answer(thread._next())
            while not thread._parts.empty():
                thread._do(thread._parts.get())

    do(c.AddJob(job_id="a", source=film, settings=FAST))
    yield SimpleNamespace(do=do, found=found)
    for end in thread._host.at_end:
        end(5)


def no_address(host: str, *_: Any, **__: Any) -> None:
    """A network without names; as `socket.getaddrinfo` otherwise."""
    host.encode("idna")
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def codes(found: list[e.Event]) -> set[str]:
    """Of the errors and notices of events."""
    about = [getattr(event, "error", getattr(event, "notice", None)) for event in found]
    return {one.code for one in about if one is not None}


def test_every_command_with_values_is_tried() -> None:
    every = {kind for module in (c, m) for kind in vars(module).values() if isinstance(kind, type)}
    ours = {kind for kind in every if issubclass(kind, c.Command) and fields(kind)}
    assert ours - {c.ExcerptCommand} == {type(command) for command in COMMANDS}
    for command in COMMANDS:
        check(command)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_no_value_of_a_command_is_an_internal_error(
    command: c.Command, engine: SimpleNamespace, expected_log_errors: list[str]
) -> None:
    expected_log_errors.append("a" * 5000)  # refused by the system, in its own words
    for field in fields(command):
        usual = getattr(command, field.name)
        kind = next((kind for kind in VALUES if isinstance(usual, kind)), None)
        for value in (*VALUES.get(kind, ()), *OTHER):
            if value is True and isinstance(usual, bool):
                continue  # opens ports
            engine.found.clear()
            engine.do(replace(command, **{field.name: value}))
            assert "internal-error" not in codes(engine.found), (field.name, value)
