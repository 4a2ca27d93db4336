"""How the machine feels, about once a second, from a small thread of its own; never torch."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from engine.events import EventSink, GpuReading, Telemetry
from engine.hardware import nvml

_MB = 2**20
_FAMILY_EVERY = 10  # samples; looking for children walks all processes, the rest takes 0.4 ms

logger = logging.getLogger(__name__)


class Sampler:
    """Sends `Telemetry` until it is stopped.

    `own_gpu_bytes` is asked where the driver does not tell processes apart (Windows): what torch
    has reserved. It is called from the sampler's thread and must be quick.
    """

    def __init__(
        self,
        sink: EventSink,
        period_s: float = 1.0,
        *,
        own_gpu_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._sink = sink
        self._period_s = period_s
        self._own_gpu_bytes = own_gpu_bytes
        self._process = psutil.Process()
        self._family: list[psutil.Process] = []
        self._samples = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; the first reading is sent at once. A second call changes nothing."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End, and wait until the thread has ended: a few milliseconds."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None

    def read(self) -> Telemetry:
        """One reading; the load of the processor is that since the reading before."""
        if self._samples % _FAMILY_EVERY == 0:
            self._family = [self._process, *_children(self._process)]
        self._samples += 1
        memory = psutil.virtual_memory()
        ours = sum(_resident_bytes(process) for process in self._family)
        used = memory.total - memory.available
        return Telemetry(
            gpu=self._read_gpu(),
            ram_total_mb=memory.total // _MB,
            ram_ours_mb=ours // _MB,
            ram_others_mb=max(0, used - ours) // _MB,
            cpu_percent=psutil.cpu_percent(),
        )

    def _read_gpu(self) -> GpuReading | None:
        process_ids = frozenset(process.pid for process in self._family)
        cards = [(handle, nvml.memory(handle, process_ids)) for handle in nvml.handles()]
        working = [(handle, memory) for handle, memory in cards if memory is not None]
        if not working:
            return None
        handle, memory = max(working, key=lambda card: card[1].total)
        ours = memory.ours
        if ours is None:
            ours = min(self._own_gpu_bytes() if self._own_gpu_bytes else 0, memory.used)
        load = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
        return GpuReading(
            name=nvml.text(nvml.ask("nvmlDeviceGetName", handle)),
            total_mb=memory.total // _MB,
            ours_mb=ours // _MB,
            others_mb=(memory.used - ours) // _MB,
            load_percent=int(load.gpu) if load else 0,
            temperature_c=int(nvml.ask("nvmlDeviceGetTemperature", handle, 0) or 0),
            driver=nvml.text(nvml.ask("nvmlSystemGetDriverVersion")),
        )

    def _run(self) -> None:
        psutil.cpu_percent()  # the first answer is always 0: count from here
        while True:
            try:
                reading = self.read()
            except (psutil.Error, OSError):  # gauges are no reason to end: try again next time
                logger.warning("no reading of the machine", exc_info=True)
            else:
                self._sink.emit(reading)
            if self._stopping.wait(self._period_s):
                return


def peak_ram_bytes() -> int:
    """The most main memory this process has ever had at once, in bytes."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return counted_peak_bytes() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def counted_peak_bytes(process: int | str = "self") -> int:
    """What Linux counted of a process's own memory at most; 0 where nothing is counted.

    What `resource` says begins with the peak of the process that started this one.
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
