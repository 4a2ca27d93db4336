"""State of the machine about once per second, from a thread of its own; never loads torch."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from engine.hardware import gpu_reading
from engine.hardware.gpu_reading import OwnMemory
from engine.hardware.gpu_table import GpuSpec
from engine.protocol.events import EventSink, Telemetry

_MB = 2**20
_PEAK_PERIOD_S = 0.1
_FAMILY_EVERY = 10  # samples; finding children visits all processes, the rest takes 0.4 ms

logger = logging.getLogger(__name__)


class Sampler:
    """Emits `Telemetry` until it is stopped.

    Args:
        sink: Receives the events.
        period_s: Time between readings.
        own: Values of this program that neither the driver nor Windows reports.
        pretend: GPUs in the place of this machine's own, which are idle.
    """

    def __init__(
        self,
        sink: EventSink,
        period_s: float = 1.0,
        *,
        own: OwnMemory | None = None,
        pretend: Sequence[GpuSpec] = (),
    ) -> None:
        self._sink = sink
        self._period_s = period_s
        self._own = own or OwnMemory()
        self._pretended = gpu_reading.pretended(pretend)
        self._process = psutil.Process()
        self._family: list[psutil.Process] = []
        self._samples = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start; the first reading is emitted at once. A second call does nothing."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until the thread has ended: a few milliseconds."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None

    def read(self) -> Telemetry:
        """One reading; the load of the CPU is that since the previous reading."""
        if self._samples % _FAMILY_EVERY == 0:
            self._family = [self._process, *_children(self._process)]
        self._samples += 1
        memory = psutil.virtual_memory()
        ours = sum(_resident_bytes(process) for process in self._family)
        used = memory.total - memory.available
        family = frozenset(process.pid for process in self._family)
        gpu, others = gpu_reading.read(family, self._own), gpu_reading.read_others(family)
        if self._pretended:
            gpu, others = self._pretended[0], self._pretended[1:]
        return Telemetry(
            gpu=gpu,
            other_gpus=others,
            ram_total_mb=memory.total // _MB,
            ram_ours_mb=ours // _MB,
            ram_others_mb=max(0, used - ours) // _MB,
            cpu_percent=psutil.cpu_percent(),
        )

    def _run(self) -> None:
        psutil.cpu_percent()  # the first answer is always 0: count from here
        while True:
            try:
                reading = self.read()
            except (psutil.Error, OSError):  # try again next time
                logger.warning("no hardware telemetry", exc_info=True)
            else:
                self._sink.emit(reading)
            if self._stopping.wait(self._period_s):
                return


class RamPeak:
    """Peak of main memory of this process while a context lasts, in bytes.

    The process's own peak is that of a context in which it rose; else the largest sample is.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="peak of memory", daemon=True)
        self._before, self._sampled = peak_ram_bytes(), 0

    def __enter__(self) -> RamPeak:
        """Begin."""
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; the thread has ended, too."""
        self._stopping.set()
        self._thread.join()

    @property
    def so_far(self) -> int:
        """Since the beginning."""
        self._sample()
        now = peak_ram_bytes()
        return now if now > self._before else self._sampled

    def _run(self) -> None:
        while not self._stopping.wait(_PEAK_PERIOD_S):
            self._sample()

    def _sample(self) -> None:
        with suppress(psutil.Error, OSError):
            self._sampled = max(self._sampled, self._process.memory_info().rss)


def peak_ram_bytes() -> int:
    """Peak of main memory of this process since it began, in bytes."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return counted_peak_bytes() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def counted_peak_bytes(process: int | str = "self") -> int:
    """Peak memory of a process as Linux counts it; 0 where it is not counted.

    The value of `resource` starts with the peak of the parent process.
    """
    with suppress(OSError):
        for line in Path("/proc", str(process), "status").read_text("ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # a child that has ended since
        return 0
