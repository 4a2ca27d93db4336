"""Answers commands about NVIDIA runtimes: a list at once, everything else as a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from engine.core.control import Control
from engine.core.errors import (
    RuntimeBroken,
    RuntimeBusy,
    RuntimeNotAccepted,
    UnsuitableWheel,
)
from engine.core.messages import Message, message
from engine.core.units import bytes_text
from engine.files.transfer import Listener, host
from engine.hardware import devices
from engine.protocol import commands as c
from engine.protocol.events import RuntimesListed
from engine.protocol.plan import Notice
from engine.protocol.report import RuntimeTrial
from engine.protocol.runtime_state import RuntimeState
from engine.protocol.tasks import Outcome, Phase, RunningTask, Task, TaskKind
from engine.runtimes import installation as folders
from engine.runtimes import start, trial
from engine.runtimes.advice import DetectedGpu, advice
from engine.runtimes.catalogue import Runtime
from engine.runtimes.store import RuntimeStore

Try = Callable[[Path, Control], RuntimeTrial]


class RuntimeService:
    """Makes tasks of commands; a second one is refused while the first runs.

    Args:
        store: Store of this computer; made on first use.
        try_: Loads an installed runtime and reports what it computes; by default in a process.
    """

    kind = TaskKind.RUNTIME
    commands = c.RuntimeCommand

    def __init__(self, store: RuntimeStore | None = None, try_: Try | None = None) -> None:
        self._own_store = store
        self._try = try_ or trial.try_runtime

    def answer(self, command: c.RuntimeCommand) -> Task | tuple[RuntimesListed]:
        """The list, or a task.

        Raises:
            RuntimePackError: The program's own files are incomplete.
        """
        match command:
            case c.InstallRuntime(runtime=name, accepted=sums):
                return self._task(name, "download", partial(self._install, name, sums))
            case c.ImportRuntime(paths=paths, accepted=sums):
                names = ", ".join(path.name for path in paths)
                return self._task(names, "import", partial(self._import, paths, sums))
            case c.UseRuntime(runtime=name):
                return self._task(name, "use", partial(self._use, name))
            case c.RemoveRuntime(runtime=name):
                return self._task(name, "remove", partial(self._remove, name))
        return (self._listed(),)

    @property
    def _store(self) -> RuntimeStore:
        if self._own_store is None:
            self._own_store = RuntimeStore()
        return self._own_store

    def _task(self, name: str, phase: Phase, do: Callable[[RunningTask], Outcome]) -> Task:
        return Task(
            kind=self.kind, subject=name, phase=phase, do=do, busy=_busy, state=self._listed
        )

    # --- tasks

    def _install(self, name: str, sums: Sequence[str], work: RunningTask) -> Outcome:
        if not self._store.is_whole(name):
            runtime = self._store.find(name, _listener(work))
            self._accept(
                runtime, sums, host(runtime.wheels[0].address(self._store.catalogue.index))
            )
            wheels = self._store.download(name, _listener(work))
            self._unpack(self._store.catalogue.runtime(name), wheels, work)
        return self._use(name, work)

    def _import(self, paths: Sequence[Path], sums: Sequence[str], work: RunningTask) -> Outcome:
        runtime, wheels = self._store.recognise(paths, _listener(work))
        self._accept(runtime, sums, str(wheels[0].parent))
        self._unpack(runtime, wheels, work)
        return self._use(runtime.id, work)

    def _accept(self, runtime: Runtime, sums: Sequence[str], source: str) -> None:
        """Pin wheels that the user has accepted by their SHA-256; nothing to do for pinned ones.

        Raises:
            UnsuitableWheel: They have no code for the GPU, or its driver is too old.
            RuntimeNotAccepted: One is not among `sums`.
        """
        if self._store.is_accepted(runtime):
            return
        gpu = detected_gpu()
        if gpu.name and not runtime.runs_on(gpu.driver, gpu.capability):
            about = {"cuda": runtime.cuda, "gpu": gpu.name, "driver": gpu.driver}
            raise UnsuitableWheel("gpu", name=runtime.wheels[0].filename, **about)
        if not set(runtime.hashes) <= set(sums):
            raise RuntimeNotAccepted(
                name=tuple(wheel.filename for wheel in runtime.wheels),
                size=bytes_text(runtime.bytes),
                source=source,
                sha256=runtime.hashes,
            )
        self._store.accept(runtime)

    def _unpack(self, runtime: Runtime, wheels: Sequence[Path], work: RunningTask) -> None:
        work.begin("unpack", runtime.id)
        self._store.install(runtime, wheels, _listener(work))

    def _use(self, name: str, work: RunningTask) -> Outcome:
        """Try it, then let the next start use it."""
        if not name:
            self._store.use("")
            return _changed()
        folder = self._store.folder_of(name)
        self._store.forgive(name)
        self._store.check(name)
        work.begin("try")
        try:
            found = self._try(folder, work.control)
        except RuntimeBroken as err:
            why = err.as_message.params.get("why", err.as_message)
            if not isinstance(why, Message):
                why = message("reason.runtime.marked", why=why)
            folders.note_broken(folder, why)
            raise
        self._store.use(name)
        work.begin("use")
        case = "on-gpu" if found.card else "no-gpu"
        return _changed(case, torch=found.torch, runtime=name, gpu=found.card)

    def _remove(self, name: str, work: RunningTask) -> Outcome:
        self._store.remove(name)
        return _changed("removed", runtime=name)

    # --- the list

    def _listed(self) -> RuntimesListed:
        """State of every runtime, and which suits this machine."""
        store, gpu = self._store, detected_gpu()
        found = advice(gpu, store.catalogue)
        return RuntimesListed(
            runtimes=tuple(_on(gpu, state, store) for state in store.states()),
            used=start.current().why,
            advice=found.text,
            suited=found.runtime,
            free_mb=store.wheels.free_bytes() / 1e6,
            card=gpu.name,
            driver=gpu.driver,
            driver_needed=found.driver,
            follows_choice=start.follows_choice(),
        )


def _listener(work: RunningTask) -> Listener:
    return Listener(on_progress=work.progress, control=work.control)


def _changed(case: str = "", **params: str) -> Outcome:
    notice = Notice(code="runtime-changed", case=case, severity="info", params=params)
    return Outcome(notice=notice)


def _busy(running: str) -> RuntimeBusy:
    return RuntimeBusy("at-work", runtime=running)


def detected_gpu() -> DetectedGpu:
    """The GPU that torch would take, as its driver describes it."""
    gpu = devices.in_use()
    if gpu is None:
        return DetectedGpu()
    return DetectedGpu(name=gpu.name, driver=gpu.driver, capability=gpu.capability)


def _on(gpu: DetectedGpu, state: RuntimeState, store: RuntimeStore) -> RuntimeState:
    known = {runtime.id: runtime for runtime in store.catalogue}
    if state.id not in known or not gpu.name:
        return state
    suits = known[state.id].runs_on(gpu.driver, gpu.capability)
    return dataclasses.replace(state, suits_card=suits)
