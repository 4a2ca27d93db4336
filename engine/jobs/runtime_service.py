"""Answers commands about NVIDIA runtimes: one at a time, in a thread of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from engine.core.control import Control
from engine.core.errors import EngineError, RuntimeBroken, RuntimeBusy
from engine.hardware import devices
from engine.jobs.progress_meter import Amount
from engine.jobs.task_runner import End, OneTask, Task
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.report import RuntimeTrial
from engine.protocol.runtime_state import Phase, RuntimeState
from engine.runtimes import installation as folders
from engine.runtimes import start, trial
from engine.runtimes.advice import DetectedGpu, advice
from engine.runtimes.catalogue import Runtime
from engine.runtimes.store import RuntimeStore

Try = Callable[[Path, Control], RuntimeTrial]


class RuntimeDesk:
    """Lists and stops at once; what takes time runs alone, and a second wish is refused meanwhile.

    Args:
        sink: Gets the answers.
        store: Of this machine; made when first asked for.
        try_: Loads an installed runtime somewhere and says how that went; by default in a process.
    """

    def __init__(
        self, sink: e.EventSink, store: RuntimeStore | None = None, try_: Try | None = None
    ) -> None:
        self._sink = sink
        self._own_store = store
        self._try = try_ or trial.try_runtime
        self._tasks: OneTask[_Task] = OneTask("runtime", afterwards=self._say_all)

    def answer(self, command: c.RuntimeCommand) -> None:
        """Take a command; returns at once."""
        match command:
            case c.ListRuntimes():
                self._say_all()
            case c.StopRuntime():
                self._tasks.stop()
            case c.InstallRuntime(runtime=name):
                self._begin(name, "download", partial(self._install, name))
            case c.ImportRuntime(paths=paths):
                names = ", ".join(path.name for path in paths)
                self._begin(names, "import", partial(self._import, paths))
            case c.UseRuntime(runtime=name):
                self._begin(name, "use", partial(self._use, name))
            case c.RemoveRuntime(runtime=name):
                self._begin(name, "remove", partial(self._remove, name))

    def close(self, timeout_s: float) -> None:
        """End what runs within that time; what was loaded stays for the next start."""
        self._tasks.close(timeout_s)

    @property
    def _store(self) -> RuntimeStore:
        if self._own_store is None:
            self._own_store = RuntimeStore()
        return self._own_store

    def _begin(self, name: str, phase: Phase, do: Callable[[_Task], None]) -> None:
        task, running = _Task(self._sink, name, phase), self._tasks.running
        if running is None:
            self._tasks.begin(task, do)
            return
        refusal = RuntimeBusy(
            f"Upreel is at work on the NVIDIA runtime {running.runtime} already.",
            hint="Wait until that has finished, or stop it.",
            runtime=running.runtime,
        )
        task.end(refusal)

    # --- in the thread

    def _install(self, name: str, task: _Task) -> None:
        if not self._store.is_whole(name):
            wheels = self._store.download(name, task.listener)
            self._unpack(self._store.catalogue.runtime(name), wheels, task)
        self._use(name, task)

    def _import(self, paths: Sequence[Path], task: _Task) -> None:
        runtime, wheels = self._store.recognise(paths, task.listener)
        task.runtime = runtime.id
        self._unpack(runtime, wheels, task)
        self._use(runtime.id, task)

    def _unpack(self, runtime: Runtime, wheels: Sequence[Path], task: _Task) -> None:
        task.begin("unpack")
        self._store.install(runtime, wheels, task.listener)

    def _use(self, name: str, task: _Task) -> None:
        """Try it, then let the next start take it."""
        if not name:
            self._store.use("")
            task.message = "The next start takes the torch that came with the program."
            return
        folder = self._store.folder_of(name)
        self._store.forgive(name)
        self._store.check(name)
        task.begin("try")
        try:
            found = self._try(folder, task.control)
        except RuntimeBroken as err:
            folders.note_broken(folder, str(err.params.get("why", err.message)))
            raise
        self._store.use(name)
        task.begin("use")
        where = f"it computes on {found.card}" if found.card else "no card was seen by it"
        task.message = (
            f"The next start takes torch {found.torch} of the NVIDIA runtime {name}; {where}."
        )

    def _remove(self, name: str, task: _Task) -> None:
        self._store.remove(name)
        task.message = f"The NVIDIA runtime {name} is removed."

    def _say_all(self) -> None:
        try:
            self._sink.emit(listed(self._store))
        except EngineError as err:
            self._sink.emit(e.RuntimeFailed(runtime="", phase="use", error=err.info()))


class _Task(Task):
    def __init__(self, sink: e.EventSink, runtime: str, phase: Phase) -> None:
        super().__init__(sink)
        self.runtime = runtime
        self.message = ""  # what was done
        self._phase: Phase = phase

    def __str__(self) -> str:
        return f"{self._phase} of the runtime {self.runtime}"

    def begin(self, phase: Phase) -> None:
        """The next phase."""
        self._phase = phase
        self.say(Amount())

    def progress(self, amount: Amount) -> e.RuntimeEvent:
        return e.RuntimeProgress(
            runtime=self.runtime,
            phase=self._phase,
            done_mb=amount.done_mb,
            total_mb=amount.total_mb,
            mb_per_second=amount.mb_per_second,
            seconds_left=amount.seconds_left,
        )

    def last_word(self, why: End) -> e.RuntimeEvent:
        about, phase = self.runtime, self._phase
        match why:
            case None:
                return e.RuntimeDone(runtime=about, phase=phase, message=self.message)
            case EngineError():
                return e.RuntimeFailed(runtime=about, phase=phase, error=why.info())
            case _:
                return e.RuntimeStopped(runtime=about, phase=phase)


def listed(store: RuntimeStore) -> e.RuntimesListed:
    """Where every runtime stands, and which suits this machine.

    Raises:
        RuntimePackError: The program's own files are incomplete.
    """
    gpu = detected_gpu()
    found = advice(gpu, store.catalogue)
    return e.RuntimesListed(
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


def detected_gpu() -> DetectedGpu:
    """The GPU that torch would use, as its driver describes it."""
    card = next(iter(devices.gpus()), None)
    if card is None:
        return DetectedGpu()
    return DetectedGpu(name=card.name, driver=card.driver, capability=card.capability)


def _on(gpu: DetectedGpu, state: RuntimeState, store: RuntimeStore) -> RuntimeState:
    known = {runtime.id: runtime for runtime in store.catalogue}
    if state.id not in known or not gpu.name:
        return state
    suits = known[state.id].runs_on(gpu.driver, gpu.capability)
    return dataclasses.replace(state, suits_card=suits)
