"""The process that runs jobs on a GPU, started, fed and ended by the process of the window.

A GPU that is lost answers nothing more to the process that used it. So jobs on a GPU run outside
the window's process: another process goes on with the job, at the next segment, as a start after
any interruption does. All that a job receives and reports is plain data, which goes through a pipe.
A process stays for the next job, and ends after some minutes without one.

The window's process opens no CUDA context for jobs. Jobs on a CPU, jobs with several workers, and
jobs of a computer that starts no process run in the window's, see `run_here`.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import pickle
import queue
import signal
import threading
import traceback
from dataclasses import dataclass, fields, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from engine.core import log
from engine.core.control import Control
from engine.core.errors import Cancelled, EngineError, GpuLost, OutOfMemory
from engine.core.file_access import reported
from engine.hardware import devices, shared_memory, torch_memory
from engine.hardware.budget import gpus_here
from engine.hardware.process import OwnProcess, OwnProcesses
from engine.jobs.checkpoint import Checkpoint
from engine.jobs.run_here import prepared, run_here
from engine.pipeline.source_watch import SourceWatch
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Report

if TYPE_CHECKING:
    from engine.pipeline.context import JobContext

logger = logging.getLogger(__name__)

PRELOADED: list[str] = []  # modules that a process loads first
_POLL_S = 0.05  # between looks whether the job was paused or cancelled
_READY_S = 120.0  # until a process has loaded its libraries: some seconds, of a cold disk more
_IDLE_S = 300.0  # without a job, after which a process ends and gives its memory back
_ENDING_S = 10.0  # for a process that ends by itself
_MEMORY_S = 1.0  # between reports of memory


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """A job as its process gets it: fields of its context, and the arguments of `run_here`."""

    folder: Path
    overwrite: bool
    is_paused: bool
    job_id: str
    media: MediaInfo
    plan: Plan
    source: SourceWatch | None
    pictures: bool
    is_learned_from: bool
    is_excerpt: bool
    accepts_damage: bool
    uses_last_room: bool


_OWN = ("folder", "overwrite", "is_paused")  # fields that a context does not have
_SHARED = tuple(one.name for one in fields(_Order) if one.name not in _OWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """End of a job in its process."""

    plan: Plan
    report: Report | None = None
    error: Exception | None = None
    details: str = ""  # traceback of the error


class NoProcess(Exception):
    """This computer starts no process, or one that ends while it loads its libraries."""


def run_in(folder: Path, context: JobContext, checkpoint: Checkpoint, *, overwrite: bool) -> Report:
    """Run the rest of a job where it belongs, with its log and what else it writes in a folder.

    Args:
        folder: Folder of the job.
        context: Its context; its plan may be another one afterwards.
        checkpoint: Its finished segments; read again from the folder by another process.
        overwrite: The result may replace a file of its name.

    Raises:
        GpuLost: The GPU was lost again and again, with the smallest plan.
        EngineError: Whatever else stopped the job; finished segments stay.
        Cancelled: The user did.
    """
    if not _is_for_gpu(context) or not PROCESS.is_used:
        return run_here(folder, context, checkpoint, overwrite=overwrite)
    try:
        PROCESS.start()
    except NoProcess as err:
        logger.warning("the job runs in this process: %s", err)
        return run_here(folder, context, checkpoint, overwrite=overwrite)
    from engine.pipeline.recovery import Failure, Recovery

    recovery = Recovery(context)
    while True:
        try:
            return PROCESS.run(folder, context, overwrite=overwrite)
        except GpuLost as err:
            logger.warning("%s", err)
            again = GpuLost("again", reason=err.params.get("reason", err.params.get("status")))
            recovery.go_on(Failure(why="gpu-lost", error=again), Checkpoint(folder).frames)


def warm() -> None:
    """Let a process load its libraries for the first job, where there is a GPU; does not wait."""

    def start() -> None:
        try:
            PROCESS.start()
        except NoProcess as err:
            logger.warning("jobs run in this process: %s", err)

    if PROCESS.is_used and gpus_here():
        threading.Thread(target=start, name="process of the GPU", daemon=True).start()


def _is_for_gpu(context: JobContext) -> bool:
    """Whether one GPU alone makes a job, or decodes the latents that it begins with."""
    plan = context.plan
    is_on_gpu = "cuda" in (plan.work.device, plan.latent.device if plan.latent else "")
    return is_on_gpu and not plan.workers and context.hand_out is None


class GpuProcess:
    """The process, while there is one; a job at a time.

    Attributes:
        is_used: False: jobs on a GPU run in the window's process, too.

    Memory: that of a program without a window, also between two jobs.
    """

    def __init__(self) -> None:
        self.is_used = True
        self._lock = threading.RLock()  # of the following; a job holds it
        self._process: OwnProcess | None = None
        self._pipe: Any = None  # a connection, whose class depends on the system
        self._idle: threading.Timer | None = None

    @property
    def pid(self) -> int:
        """Its id; 0 where there is none."""
        process = self._process
        return 0 if process is None else process.pid or 0

    def start(self) -> None:
        """Start a process if there is none, and wait until it has loaded its libraries.

        Raises:
            NoProcess: That is not possible.
        """
        with self._lock:
            self._keep()
            if self._process is not None and self._process.is_alive():
                self._wait_idle()
                return
            self._end()
            spawn = OwnProcesses()
            here, there = spawn.Pipe()
            about = there, tuple(PRELOADED)
            process = spawn.Process(target=_serve, args=about, name="gpu", daemon=True)
            self._process, self._pipe = process, here
            try:
                process.start()
                there.close()
                if not here.poll(_READY_S):
                    raise EOFError("it does not get ready")
                here.recv()
            except (OSError, EOFError, RuntimeError) as err:
                self._end()
                raise NoProcess(f"{type(err).__name__}: {err}") from err
            self._wait_idle()

    def run(self, folder: Path, context: JobContext, *, overwrite: bool) -> Report:
        """Run the rest of a job there; raises what it raises there, see `run_in`."""
        with self._lock:
            try:
                self.start()
            except NoProcess as err:  # it was possible before
                raise GpuLost("ended", status=str(err)) from err
            self._keep()
            before = devices.use(context.plan.gpu or devices.AUTO)  # gauges show that one
            try:
                outcome = self._outcome(folder, context, overwrite=overwrite)
            finally:
                devices.use(before)
                torch_memory.note_elsewhere(0, 0, 0)
                self._wait_idle()
        if outcome.report is not None:
            own = psutil.Process().memory_info().rss  # the plan counts both processes
            return replace(outcome.report, peak_bytes=outcome.report.peak_bytes + own)
        error = outcome.error or AssertionError("a job without an end")
        logger.info("%s", error, extra={"details": outcome.details})
        raise error

    def close(self) -> None:
        """End the process, unless it works: then it ends with this one."""
        if self._lock.acquire(blocking=False):
            try:
                self._keep()
                self._end()
            finally:
                self._lock.release()

    def _outcome(self, folder: Path, context: JobContext, *, overwrite: bool) -> _Outcome:
        """Pass the job on, and what it reports back, until it ends.

        Raises:
            GpuLost: The process has ended, or is of no more use.
        """
        control, pipe = context.control, self._pipe
        assert pipe is not None
        about: dict[str, Any] = {name: getattr(context, name) for name in _SHARED}
        is_paused, is_cancelled = control.is_paused, False
        order = _Order(folder=folder, overwrite=overwrite, is_paused=is_paused, **about)
        try:
            pipe.send(order)
            while True:
                if control.is_cancelled and not is_cancelled:
                    is_cancelled = True
                    pipe.send("cancel")
                if control.is_paused != is_paused:
                    is_paused = control.is_paused
                    pipe.send("pause" if is_paused else "resume")
                if not pipe.poll(_POLL_S):
                    continue
                match pipe.recv():
                    case _Outcome(plan=plan) as outcome:
                        context.plan = plan
                        if isinstance(outcome.error, GpuLost):
                            self._end()
                            raise Cancelled if control.is_cancelled else outcome.error
                        return outcome
                    case ("memory", (*sizes,)):
                        torch_memory.note_elsewhere(*sizes)
                    case c.Command() as command:
                        context.send(command)
                    case event:
                        if isinstance(event, e.PlanDowngraded):
                            context.plan = event.plan  # also where the process ends suddenly
                        context.events.emit(event)
        except (OSError, EOFError, pickle.UnpicklingError) as err:
            status = self._end()
            if control.is_cancelled:
                raise Cancelled from err
            raise GpuLost("ended", status=status) from err

    def _end(self) -> str:
        """End the process; returns how it has ended."""
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if pipe is not None:
            pipe.close()
        if process is None or process.pid is None:
            return ""
        process.join(_ENDING_S)
        if process.is_alive():
            logger.warning("the process of the GPU did not stop")
            process.kill()
            process.join()
        return str(process.exitcode)

    def _keep(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _wait_idle(self) -> None:
        self._keep()
        self._idle = threading.Timer(_IDLE_S, self.close)
        self._idle.daemon = True
        self._idle.start()


PROCESS = GpuProcess()


# --- in that process


def _serve(pipe: Connection, preloaded: tuple[str, ...]) -> None:
    """The main function of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process of the window
    log.choose_level()
    log.note_crashes()
    for name in preloaded:
        importlib.import_module(name)
    prepared()
    _Server(pipe).run()


class _Server:
    """Runs one job after the other, and reports to the process of the window."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._sending = pipe, threading.Lock()
        self._orders: queue.SimpleQueue[tuple[_Order, Control]] = queue.SimpleQueue()

    def run(self) -> None:
        """Work until the other end is closed, or the GPU is lost."""
        threading.Thread(target=self._listen, name="window", daemon=True).start()
        self._send("ready")
        while True:
            order, control = self._orders.get()
            stopped = threading.Event()
            reports = threading.Thread(target=self._report_memory, args=(stopped,), daemon=True)
            reports.start()
            outcome = self._outcome(order, control)
            stopped.set()
            reports.join()
            self._send(outcome)
            if isinstance(outcome.error, GpuLost):
                os._exit(1)  # its libraries would hang, or complain of the loss

    def emit(self, event: e.Event) -> None:
        """Report an event; the one who listens is in the other process."""
        self._send(event)

    def _send(self, what: object) -> None:
        with self._sending:
            self._pipe.send(what)

    def _listen(self) -> None:
        """Take orders and words about the latest one; end the process when the pipe closes."""
        control = Control()
        while True:
            try:
                word = self._pipe.recv()
            except (OSError, EOFError):
                os._exit(0)
            if isinstance(word, _Order):
                control = Control()
                if word.is_paused:
                    control.pause()
                self._orders.put((word, control))
            else:
                getattr(control, word)()

    def _outcome(self, order: _Order, control: Control) -> _Outcome:
        from engine.pipeline.context import JobContext

        about: dict[str, Any] = {name: getattr(order, name) for name in _SHARED}
        context = JobContext(control=control, events=self, send=self._send, **about)
        report: Report | None = None
        error, details = None, ""
        try:
            checkpoint = Checkpoint(order.folder)
            report = run_here(order.folder, context, checkpoint, overwrite=order.overwrite)
        except Exception as err:  # noqa: BLE001 - raised again in the other process
            error, details = _plain(err), "".join(traceback.format_exception(err))
        return _Outcome(plan=context.plan, report=report, error=error, details=details)

    def _report_memory(self, stopped: threading.Event) -> None:
        while not stopped.wait(_MEMORY_S):
            with contextlib.suppress(RuntimeError):  # a GPU that was lost
                sizes = torch_memory.gpu_bytes(), torch_memory.pinned_bytes()
                self._send(("memory", (*sizes, shared_memory.own_bytes() or 0)))


def _plain(error: Exception) -> Exception:
    """An error that can be sent: one for users, or a cancellation."""
    if isinstance(error, MemoryError):
        return OutOfMemory("running")
    if not isinstance(error, EngineError | Cancelled):
        error = reported(error, "a job on a GPU", logger)
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error
