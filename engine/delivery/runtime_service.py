"""Answers commands about NVIDIA runtimes: a list at once, everything else as a task."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from engine.core.control import Control
from engine.core.errors import (
    RuntimeBlocked,
    RuntimeBroken,
    RuntimeBusy,
    is_refused_process,
    states_code_refusal,
)
from engine.core.messages import Message, message
from engine.core.serialization import from_plain, read_json
from engine.delivery.runtimes import RuntimeStore
from engine.files.transfer import Listener
from engine.hardware import devices
from engine.hardware.code_policy import smart_app_control
from engine.hardware.devices import Gpu
from engine.hardware.process import NO_CONSOLE
from engine.jobs.task_runner import Outcome, RunningTask, Task
from engine.protocol import commands as c
from engine.protocol.delivery import RuntimeState
from engine.protocol.events import RuntimesListed
from engine.protocol.plan import Notice
from engine.protocol.report import RuntimeTrial
from engine.protocol.tasks import Phase, TaskKind
from engine.runtimes import bytecode, start
from engine.runtimes import installation as folders
from engine.runtimes.advice import advice
from engine.runtimes.catalogue import Runtime, RuntimeCatalogue

Try = Callable[[Path, Control], RuntimeTrial]
Compile = Callable[[Path, Listener], None]

logger = logging.getLogger(__name__)

_LONGEST_TRIAL_S = 300.0  # a virus scanner reads gigabytes of new libraries at the first start
_LONGEST_COMPILING_S = 1800.0
_CHECK_EVERY_S = 0.1
_LAST_LINES = 3


class RuntimeService:
    """Makes tasks of commands; a second one is refused while the first runs.

    Args:
        store: Store of this computer; made on first use.
        try_: Loads an installed runtime and reports what it computes; by default in a process.
        compile_: Gives its modules bytecode; by default in a process.
    """

    kind = TaskKind.RUNTIME
    commands = c.RuntimeCommand

    def __init__(
        self,
        store: RuntimeStore | None = None,
        try_: Try | None = None,
        compile_: Compile | None = None,
    ) -> None:
        self._own_store = store
        self._try = try_ or try_runtime
        self._compile = compile_ or compile_runtime

    def answer(self, command: c.RuntimeCommand) -> Task | tuple[RuntimesListed]:
        """The list, or a task."""
        match command:
            case c.InstallRuntime(runtime=name):
                return self._task(name, "download", partial(self._install, name))
            case c.ImportRuntime(paths=paths):
                names = ", ".join(path.name for path in paths)
                return self._task(names, "import", partial(self._import, paths))
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
            kind=self.kind,
            subject=name,
            phase=phase,
            do=do,
            busy=lambda running: RuntimeBusy("at-work", runtime=running),
            state=self._listed,
        )

    # --- tasks

    def _install(self, name: str, work: RunningTask) -> Outcome:
        if not self._store.is_whole(name):
            wheels = self._store.download(name, Listener.of(work))
            self._unpack(self._store.catalogue.runtime(name), wheels, work)
        return self._use(name, work)

    def _import(self, paths: Sequence[Path], work: RunningTask) -> Outcome:
        runtime, wheels = self._store.recognise(paths, Listener.of(work))
        self._unpack(runtime, wheels, work)
        return self._use(runtime.id, work)

    def _unpack(self, runtime: Runtime, wheels: Sequence[Path], work: RunningTask) -> None:
        work.begin("unpack", runtime.id)
        self._store.install(runtime, wheels, Listener.of(work))

    def _use(self, name: str, work: RunningTask) -> Outcome:
        """Compile its modules, try it, then let the next start use it."""
        if not name:
            self._store.use("")
            return _changed()
        folder = self._store.folder_of(name)
        self._store.forgive(name)
        self._store.check(name)
        work.begin("compile")
        self._compile(folder, Listener.of(work))
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
        """State of every runtime, and which suits this computer."""
        store, gpu = self._store, devices.in_use()
        found = advice(gpu, store.catalogue)
        return RuntimesListed(
            runtimes=tuple(_on(gpu, state, store.catalogue) for state in store.states()),
            used=start.current().why,
            advice=found.text,
            suited=found.runtime,
            free_mb=store.wheels.free_bytes() / 1e6,
            card=gpu.name if gpu else "",
            driver=gpu.driver if gpu else "",
            driver_needed=found.driver,
            follows_choice=start.follows_choice(),
            smart_app_control=smart_app_control(),
        )


def _changed(case: str = "", **params: str) -> Outcome:
    notice = Notice(code="runtime-changed", case=case, severity="info", params=params)
    return Outcome(notice=notice)


def _on(gpu: Gpu | None, state: RuntimeState, known: RuntimeCatalogue) -> RuntimeState:
    runtime = next((one for one in known if one.id == state.id), None)
    if runtime is None or gpu is None:
        return state
    return dataclasses.replace(state, suits_card=runtime.runs_on(gpu.driver, gpu.capability))


# --- processes of an installed runtime: a crash in them, or a lock of Python, does no harm here


def compile_runtime(folder: Path, listener: Listener) -> None:
    """Give every module of a runtime bytecode: torch is then imported about twice as fast.

    A runtime also works without, so a failure is only logged. Python lets no other thread run while
    it compiles a module (up to 0.17 s, torch 2.13): in this process the window would stutter.

    Args:
        folder: Folder of the runtime.
        listener: Receives bytes of modules.

    Raises:
        Cancelled: The control was cancelled; a module has its whole bytecode or none.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        out, errors = Path(temporary) / "done.txt", Path(temporary) / "errors.txt"

        def look() -> None:
            with contextlib.suppress(OSError, ValueError):
                done, total, _unit = out.read_text("utf-8").removesuffix("bytes").split(" ")
                listener.on_progress(int(done), int(total))

        with errors.open("wb") as output:
            status = _run(
                _Order("compile", out, folder, _LONGEST_COMPILING_S), output, listener.control, look
            )
        if status != 0:
            text = errors.read_text(encoding="utf-8", errors="replace")
            logger.warning("modules of %s were not all compiled: %s", folder, text[-500:])


def compile_in_background() -> None:
    """Compile modules of the runtime in use that have no bytecode, as older versions left them.

    The process that does it ends with this one; the next start goes on.
    """
    folder = start.current().folder
    if folder is not None and sys.dont_write_bytecode:
        threading.Thread(
            target=_compile_missing, args=(folder,), name="runtime bytecode", daemon=True
        ).start()


def _compile_missing(folder: Path) -> None:
    installed = folders.read(folder)
    count = bytecode.missing(folder, installed) if installed is not None else 0
    if count:
        logger.info("%d modules of %s are compiled in the background", count, folder.name)
        compile_runtime(folder, Listener())


def try_runtime(folder: Path, control: Control) -> RuntimeTrial:
    """Load the torch of a runtime and compute with it, on the GPU too where there is one.

    Args:
        folder: Folder of the runtime.
        control: Cancels the trial.

    Raises:
        RuntimeBlocked: Windows refuses to load a library of it.
        RuntimeBroken: It does not load or computes wrongly; with the last lines of its output.
        Cancelled: The control was cancelled.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        out, errors = Path(temporary) / "trial.json", Path(temporary) / "errors.txt"
        with errors.open("wb") as output:
            status = _run(_Order("try", out, folder, _LONGEST_TRIAL_S), output, control)
        if status is None:
            seconds = f"{_LONGEST_TRIAL_S:.0f}"
            raise _broken(folder, message("reason.runtime.trial-timeout", seconds=seconds))
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            found = from_plain(RuntimeTrial, read_json(out))
            if status == 0:
                return found
        text = errors.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    why = " ".join(lines)
    refusal = folders.blocked(folder)  # noted by the process itself
    if refusal is not None:
        raise RuntimeBlocked("trial", runtime=folder.name, why=refusal, advice=refusal.hint)
    if is_refused_process(status):
        raise start.blocked("trial", folder, f"0x{status & 0xFFFFFFFF:08X}")
    if states_code_refusal(text):
        raise start.blocked("trial", folder, why)
    raise _broken(folder, why or message("reason.runtime.trial-status", status=status))


def _broken(folder: Path, why: str | Message) -> RuntimeBroken:
    return RuntimeBroken("trial", runtime=folder.name, why=why)


def _program() -> list[str]:
    """The command line of this program."""
    if not getattr(sys, "frozen", False):
        return [sys.executable, "-m", "engine"]
    is_console = Path(sys.executable).stem.endswith("-cli")
    return [sys.executable] if is_console else [sys.executable, "--headless"]


@dataclass(frozen=True, slots=True)
class _Order:
    """A verb of `runtime` for a process of this program."""

    verb: str
    out: Path  # file that it writes
    folder: Path  # folder of the runtime that it uses
    limit_s: float

    @property
    def command(self) -> list[str]:
        """Its command line."""
        return [*_program(), "runtime", self.verb, "--out", str(self.out)]


def _run(
    order: _Order, output: BinaryIO, control: Control, look: Callable[[], None] = lambda: None
) -> int | None:
    """Exit status of a process; None where it was ended at its time limit."""
    root = None if getattr(sys, "frozen", False) else Path(__file__).parents[2]
    child = subprocess.Popen(  # noqa: S603 - this program with words of its own
        order.command,
        env=os.environ | {"UPREEL_RUNTIME": order.folder.name},
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=output,
        creationflags=NO_CONSOLE,
    )
    end = time.monotonic() + order.limit_s
    try:
        while child.poll() is None:
            control.check()
            look()
            if time.monotonic() > end:
                return None
            time.sleep(_CHECK_EVERY_S)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    return child.returncode
