"""The part of FakeEngine other than the jobs: lists at once, and tasks that a test moves."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.core.errors import ErrorInfo
from engine.core.messages import message
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol import machines as m
from engine.protocol.delivery import RuntimeState
from engine.protocol.model_file_state import State
from engine.protocol.plan import Notice
from engine.protocol.tasks import Phase, Result, TaskKind
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings
from tests.helpers.fake_states import (
    GB,
    MB,
    MISSING,
    NEWER,
    NO_GPU,
    NO_MACHINES,
    OFFLINE,
    OWN,
    PRESET_GPU,
    TAKEN,
    flat,
    made_read,
    make_files,
    make_presets,
    make_report,
)

FILE, RUNTIME, UPDATE, BENCHMARK = list(TaskKind)[:4]


@dataclass(frozen=True)
class Task:
    """What runs or waits."""

    kind: TaskKind
    subject: str = ""
    phase: Phase = ""


@dataclass
class Latents:
    """How ShowLatent is answered."""

    is_silent: bool = False
    needs: str = ""  # id of a file; while it is not here there are no pictures
    refuse: dict[str, ErrorInfo] = field(default_factory=dict)  # by name of the file
    reads: dict[str, e.LatentRead] = field(default_factory=dict)
    is_whole: bool = True


class FakeTasks:
    """Answers as the engine does; a task stands still until `advance`, `finish` or `fail`.

    On a machine without a GPU; a newer version is found unless a test changes `found`.
    """

    def __init__(self, sink: e.EventSink) -> None:
        self.sink = sink
        self.tasks: list[Task] = []  # the first of a kind has its turn
        self.files = {file.id: file for file in make_files()}
        self.free_mb = 212_000.0
        self.runtimes = NO_GPU
        self.update, self.found = OWN, NEWER
        self.update_error: ErrorInfo | None = None  # how the next thing about updates ends
        self.check_waits = False
        self.presets: tuple[Preset, ...] = make_presets()
        self.is_quick = True
        self.latents = Latents()
        self.machines = NO_MACHINES

    def answer(self, command: c.Command) -> None:
        """Do what is asked, as far as it needs neither network nor GPU."""
        match command:
            case c.ListModelFiles():
                self.list(FILE)
            case c.DownloadModelFile(file=file):
                self.begin(FILE, file, "download")
            case c.VerifyModelFile(file=file):
                self._end(Task(FILE, file, "verify"))
            case c.RemoveModelFile(file=file):
                self._end(Task(FILE, file, "remove"))
            case c.ListRuntimes():
                self.list(RUNTIME)
            case c.InstallRuntime(runtime=name):
                self.begin(RUNTIME, name, "download")
            case c.ImportRuntime(paths=paths):
                self.begin(RUNTIME, ", ".join(path.name for path in paths), "import")
            case c.UseRuntime(runtime=name):
                self._end(Task(RUNTIME, name, "use"))
            case c.RemoveRuntime(runtime=name):
                self._end(Task(RUNTIME, name, "remove"))
            case c.UpdateCommand():
                self._answer_update(command)
            case c.RunBenchmark(quick=quick, archive=archive):
                self.is_quick = quick
                self.begin(BENCHMARK, "" if archive is None else str(archive))
            case c.WriteDiagnostics(path=path):
                self.begin(TaskKind.DIAGNOSTICS, str(path))
            case c.ExcerptCommand(job_id=job_id):
                self.begin(TaskKind.EXCERPT, job_id)
            case c.MakeLook(job_id=job_id):
                self.begin(TaskKind.LOOK, job_id)
            case c.ReadOverview(job_id=job_id):
                self.begin(TaskKind.OVERVIEW, job_id)
            case c.StopTask(kind=kind, subject=subject):
                self._stop(kind, subject)
            case c.ShowLatent():
                self._show_latent(command)
            case c.PresetCommand():
                self._answer_preset(command)
            case m.MachineCommand():
                self._answer_machine(command)

    def _answer_machine(self, command: m.MachineCommand) -> None:
        match command:
            case m.PairMachine(address=address):
                self.begin(TaskKind.PAIRING, address)
                return
            case m.ConfirmPairing(are_same=False):
                self.fail(TaskKind.PAIRING)
                return
            case m.ForgetMachine(fingerprint=gone):
                left = tuple(one for one in self.machines.machines if one.fingerprint != gone)
                self.machines = replace(self.machines, machines=left)
            case m.LendMachine(is_lent=is_lent):
                self.machines = replace(self.machines, is_lent=is_lent)
        self.sink.emit(m.MachinesKnown(state=self.machines))

    # What a test makes happen

    def waiting(self, kind: TaskKind) -> list[str]:
        """Subjects of what runs or waits."""
        return [task.subject for task in self.tasks if task.kind is kind]

    def begin(self, kind: TaskKind, subject: str = "", phase: Phase = "") -> None:
        """A task, or its next phase: only model files wait for each other."""
        if kind is not FILE:
            self.tasks = [task for task in self.tasks if task.kind is not kind]
        self.tasks.append(Task(kind, subject, phase))
        self.sink.emit(e.TaskProgress(kind=kind, subject=subject, phase=phase))

    def advance(
        self, kind: TaskKind, done: float, *, total: float = 0.0, speed: float = 12.5
    ) -> None:
        """What has its turn has come so far: MB, or steps of twelve."""
        task = self._first(kind)
        if kind is BENCHMARK:
            step = message("bench.step.vae")
            about = {"kind": kind, "subject": task.subject, "step": step}
            self.sink.emit(e.TaskProgress(**about, done=done, total=12))
            return
        if kind is RUNTIME and task.phase == "download":
            self.put_runtime(task.subject, state="partial", done_bytes=round(done * MB))
        if kind is UPDATE:
            self.update = replace(self.update, done_bytes=round(done * MB))
        total = (
            total
            or {
                FILE: lambda: self.files[task.subject].bytes / MB,
                RUNTIME: lambda: 1900.0,
                UPDATE: lambda: self.update.bytes / MB,
            }[kind]()
        )
        self.sink.emit(
            e.TaskProgress(
                kind=kind,
                subject=task.subject,
                phase=task.phase,
                done=done,
                total=total,
                per_second=speed,
                seconds_left=(total - done) / speed,
            )
        )

    def finish(self, kind: TaskKind) -> None:
        """What has its turn ends well: a download is there, an installed runtime is chosen."""
        self._end(self._first(kind))

    def fail(self, kind: TaskKind, error: ErrorInfo = OFFLINE, *, megabytes: float = 0.0) -> None:
        """What has its turn ends badly; that much of a model file is there."""
        task = self._first(kind)
        if kind is FILE:
            self.put(task.subject, "partial" if megabytes else "missing", megabytes=megabytes)
        self._ends(task, e.TaskFailed, error=error)

    def list(self, kind: TaskKind) -> None:
        """How everything of a kind stands."""
        if kind is FILE:
            files = tuple(self.files.values())
            self.sink.emit(e.ModelFilesListed(files=files, free_mb=self.free_mb))
        elif kind is RUNTIME:
            self.sink.emit(self.runtimes)
        elif kind is UPDATE:
            self.sink.emit(e.UpdateKnown(state=self.update))
        elif kind is TaskKind.PRESET:
            self.sink.emit(e.PresetsListed(presets=self.presets, card=PRESET_GPU))

    def put(self, file: str, state: State, *, megabytes: float | None = None) -> None:
        """Let a model file stand in a state, with as much of it here."""
        is_whole = state in ("here", "unverified", "damaged")
        whole = self.files[file].bytes if is_whole else 0
        done = whole if megabytes is None else round(megabytes * MB)
        path = Path("models") / self.files[file].filename if done else None
        self.files[file] = replace(self.files[file], state=state, done_bytes=done, path=path)

    def put_package(self, file: str) -> None:
        """A transformer with VAE and text embedding is here and checked."""
        for name in (file, "seedvr2-vae", "seedvr2-text"):
            self.put(name, "here")

    def put_runtime(self, name: str, **changes: Any) -> None:
        """Let a runtime stand differently."""
        self._each_runtime(lambda s: replace(s, **changes) if s.id == name else s)

    # How

    def _first(self, kind: TaskKind) -> Task:
        return next((task for task in self.tasks if task.kind is kind), Task(kind))

    def _end(self, task: Task) -> None:
        result: Result | None = None
        notice = None
        if task.kind is FILE:
            self.put(task.subject, "missing" if task.phase == "remove" else "here")
            result = self.files[task.subject]
        elif task.kind is RUNTIME:
            task, notice = self._end_runtime(task)
        elif task.kind is BENCHMARK:
            result = None if task.subject else make_report(quick=self.is_quick)
        elif self.update_error is not None:
            error, self.update_error = self.update_error, None
            self._ends(task, e.TaskFailed, error=error)
            return
        elif task.phase == "check":
            self.update = self.found
        elif task.phase == "download":
            self.update = replace(self.update, done_bytes=self.update.bytes, is_ready=True)
        self._ends(task, e.TaskDone, result=result, notice=notice)

    def _end_runtime(self, task: Task) -> tuple[Task, Notice]:
        name = task.subject
        if task.phase == "remove":
            self.put_runtime(name, state="missing", done_bytes=0, path=None, is_chosen=False)
        else:
            if task.phase != "use":
                name = name if name in [state.id for state in self.runtimes.runtimes] else "cu130"
                path = Path("runtimes") / name
                self.put_runtime(name, state="here", path=path, done_bytes=5 * GB)
            self._each_runtime(lambda state: replace(state, is_chosen=state.id == name))
        phase: Phase = "remove" if task.phase == "remove" else "use"
        case = "removed" if phase == "remove" else "no-gpu" if name else ""
        params = {"torch": f"2.13.0+{name}", "runtime": name}
        notice = Notice(code="runtime-changed", case=case, severity="info", params=params)
        return Task(RUNTIME, name, phase), notice

    def _each_runtime(self, change: Any) -> None:
        runtimes: tuple[RuntimeState, ...] = tuple(map(change, self.runtimes.runtimes))
        self.runtimes = replace(self.runtimes, runtimes=runtimes)

    def _ends(self, task: Task, event: type[e.TaskEvent], **values: Any) -> None:
        """The end, after how everything stands then."""
        first = self._first(task.kind)
        gone = first if task.kind is not FILE else task
        self.tasks = [other for other in self.tasks if other != gone]
        self.list(task.kind)
        about = {"kind": task.kind, "subject": task.subject, "phase": task.phase}
        self.sink.emit(event(**about, **values))

    def _stop(self, kind: TaskKind, subject: str) -> None:
        for task in [t for t in self.tasks if t.kind is kind and subject in ("", t.subject)]:
            self._ends(task, e.TaskStopped)

    def _answer_update(self, command: c.UpdateCommand) -> None:
        match command:
            case c.ShowUpdate():
                self.list(UPDATE)
            case c.CheckUpdate():
                self.begin(UPDATE, phase="check")
                if not self.check_waits:
                    self.finish(UPDATE)
            case c.DownloadUpdate():
                self.begin(UPDATE, phase="download")
                self.advance(UPDATE, 61.3, speed=12)
            case c.InstallUpdate():
                self.begin(UPDATE, phase="install")
                self.finish(UPDATE)

    def _answer_preset(self, command: c.PresetCommand) -> None:
        match command:
            case c.ImportPreset():
                self.sink.emit(e.TaskFailed(kind=TaskKind.PRESET, error=TAKEN))
                return
            case c.ExportPreset():
                return
            case c.RemovePreset(name=name):
                self.presets = tuple(preset for preset in self.presets if preset.name != name)
            case c.SavePreset(title=title, settings=settings):
                plain = asdict(JobSettings())
                chosen = asdict(settings).items()
                changes = {name: value for name, value in chosen if value != plain[name]}
                made = Preset(name=title.casefold(), title=title, changes=changes, is_own=True)
                self.presets = (*self.presets, made)
        self.list(TaskKind.PRESET)

    def _show_latent(self, command: c.ShowLatent) -> None:
        path, latents, kind = command.path, self.latents, TaskKind.LATENT
        if latents.is_silent:
            return
        if path.name in latents.refuse:
            error = latents.refuse[path.name]
            self.sink.emit(e.TaskFailed(kind=kind, subject=str(path), error=error))
            return
        self.sink.emit(replace(latents.reads.get(path.name, made_read(path)), path=path))
        is_here = latents.needs in self.files and self.files[latents.needs].is_here
        if latents.needs and not is_here and not command.vae:
            self.sink.emit(e.TaskFailed(kind=kind, subject=str(path), error=MISSING))
            return
        shown = e.LatentShown(
            path=path, raw=flat(60), normalised=flat(200), is_whole=latents.is_whole
        )
        self.sink.emit(shown)
        self.sink.emit(e.TaskDone(kind=kind, subject=str(path)))
