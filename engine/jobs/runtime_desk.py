"""Answers commands about NVIDIA runtimes: one at a time, in a thread of its own."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from engine import commands as c
from engine import events as e
from engine.control import Control
from engine.errors import Cancelled, EngineError, RuntimeBroken, RuntimeBusy
from engine.hardware import devices
from engine.jobs import runtime_trial
from engine.jobs.meter import Amount, Meter
from engine.jobs.mistakes import internal
from engine.report import RuntimeTrial
from engine.runtime import folder as folders
from engine.runtime import start
from engine.runtime.catalogue import Runtime
from engine.runtime.state import Phase, RuntimeState
from engine.weights.runtime_check import Machine, advice
from engine.weights.runtime_store import RuntimeStore
from engine.weights.transfer import Listener

logger = logging.getLogger(__name__)

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
        self._try = try_ or runtime_trial.tried
        self._task: _Task | None = None

    def answer(self, command: c.RuntimeCommand) -> None:
        """Take a command; returns at once."""
        match command:
            case c.ListRuntimes():
                self._say_all()
            case c.StopRuntime():
                if self._task is not None:
                    self._task.control.cancel()
            case c.InstallRuntime(runtime=name):
                self._begin(_Task(self._sink, name, "download"), partial(self._install, name))
            case c.ImportRuntime(paths=paths):
                name = ", ".join(path.name for path in paths)
                self._begin(_Task(self._sink, name, "import"), partial(self._import, paths))
            case c.UseRuntime(runtime=name):
                self._begin(_Task(self._sink, name, "use"), partial(self._use, name))
            case c.RemoveRuntime(runtime=name):
                self._begin(_Task(self._sink, name, "remove"), partial(self._remove, name))

    def close(self, timeout_s: float) -> None:
        """End what runs within that time; what was loaded stays for the next start."""
        if self._task is not None and self._task.thread is not None:
            self._task.control.cancel()
            self._task.thread.join(timeout_s)

    @property
    def _store(self) -> RuntimeStore:
        if self._own_store is None:
            self._own_store = RuntimeStore()
        return self._own_store

    def _begin(self, task: _Task, do: Callable[[_Task], str]) -> None:
        running = self._task
        if running is not None and not running.has_ended:
            refusal = RuntimeBusy(
                f"Upreel is at work on the NVIDIA runtime {running.runtime} already.",
                hint="Wait until that has finished, or stop it.",
                runtime=running.runtime,
            )
            task.end(refusal)
            return
        self._task = task
        before = running.thread if running is not None else None
        task.thread = threading.Thread(
            target=self._work, args=(task, do, before), name="runtime", daemon=True
        )
        task.thread.start()

    # --- in the thread

    def _work(
        self, task: _Task, do: Callable[[_Task], str], before: threading.Thread | None
    ) -> None:
        if before is not None:
            before.join()  # it has ended but for its last words
        try:
            ended: str | EngineError | Cancelled = do(task)
        except (EngineError, Cancelled) as err:
            ended = err
        except Exception as err:  # a mistake of ours ends this task, not the program
            logger.exception("%s of the runtime %s", task.phase, task.runtime)
            ended = internal(err)
        task.end(ended)
        self._say_all()

    def _install(self, name: str, task: _Task) -> str:
        if self._store.is_whole(name):
            return self._use(name, task)
        wheels = self._store.download(name, task.listener)
        return self._unpack(self._store.catalogue.runtime(name), wheels, task)

    def _import(self, paths: Sequence[Path], task: _Task) -> str:
        runtime, wheels = self._store.recognise(paths, task.listener)
        task.runtime = runtime.id
        return self._unpack(runtime, wheels, task)

    def _unpack(self, runtime: Runtime, wheels: Sequence[Path], task: _Task) -> str:
        task.begin("unpack")
        self._store.install(runtime, wheels, task.listener)
        return self._use(runtime.id, task)

    def _use(self, name: str, task: _Task) -> str:
        """Try it, then let the next start take it."""
        if not name:
            self._store.use("")
            return "The next start takes the torch that came with the program."
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
        return f"The next start takes torch {found.torch} of the NVIDIA runtime {name}; {where}."

    def _remove(self, name: str, task: _Task) -> str:
        self._store.remove(name)
        return f"The NVIDIA runtime {name} is removed."

    def _say_all(self) -> None:
        try:
            self._sink.emit(listed(self._store))
        except EngineError as err:
            self._sink.emit(e.RuntimeFailed(runtime="", phase="use", error=err.info()))


class _Task:
    """One thing that is being done: its phases become events."""

    def __init__(self, sink: e.EventSink, runtime: str, phase: Phase) -> None:
        self.runtime = runtime
        self.phase: Phase = phase
        self.control = Control()
        self.thread: threading.Thread | None = None
        self.has_ended = False
        self._sink = sink

    @property
    def listener(self) -> Listener:
        """For the phase that runs."""
        return Listener(tell=Meter(self._say), control=self.control)

    def begin(self, phase: Phase) -> None:
        """The next phase."""
        self.phase = phase
        self._say(Amount())

    def end(self, how: str | EngineError | Cancelled) -> None:
        """Say how it ended."""
        self.has_ended = True  # before it is said: the answer to it may be the next wish
        event: e.RuntimeEvent
        match how:
            case str():
                event = e.RuntimeDone(runtime=self.runtime, phase=self.phase, message=how)
            case EngineError():
                logger.warning("%s of the runtime %s: %s", self.phase, self.runtime, how.message)
                error = how.info()
                event = e.RuntimeFailed(runtime=self.runtime, phase=self.phase, error=error)
            case _:
                event = e.RuntimeStopped(runtime=self.runtime, phase=self.phase)
        self._sink.emit(event)

    def _say(self, amount: Amount) -> None:
        event = e.RuntimeProgress(
            runtime=self.runtime,
            phase=self.phase,
            done_mb=amount.done_mb,
            total_mb=amount.total_mb,
            mb_per_second=amount.mb_per_second,
            seconds_left=amount.seconds_left,
        )
        self._sink.emit(event)


def listed(store: RuntimeStore) -> e.RuntimesListed:
    """Where every runtime stands, and which suits this machine.

    Raises:
        RuntimePackError: The program's own files are incomplete.
    """
    machine = this_machine()
    found = advice(machine, store.catalogue)
    return e.RuntimesListed(
        runtimes=tuple(_on(machine, state, store) for state in store.states()),
        used=start.current().why,
        advice=found.text,
        suited=found.runtime,
        free_mb=store.wheels.free_bytes() / 1e6,
        card=machine.card,
        driver=machine.driver,
        driver_needed=found.driver,
        follows_choice=start.follows_choice(),
    )


def this_machine() -> Machine:
    """The card that torch would take, as its driver describes it."""
    card = next(iter(devices.gpus()), None)
    if card is None:
        return Machine()
    return Machine(card=card.name, driver=card.driver, capability=card.capability)


def _on(machine: Machine, state: RuntimeState, store: RuntimeStore) -> RuntimeState:
    known = {runtime.id: runtime for runtime in store.catalogue}
    if state.id not in known or not machine.card:
        return state
    suits = known[state.id].runs_on(machine.driver, machine.capability)
    return dataclasses.replace(state, suits_card=suits)
