"""Worker processes that run cases one after the other, and a watch that ends those that hang."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tests.trials.faults.group import Group
from tests.trials.faults.outcomes import CRASH, HANG, MEMORY, OK, REFUSED, Outcome, last_lines

Found = Callable[[int, Outcome], None]

_START_S = 120.0
_ADDRESS_SPACE = 16 * 2**30  # bytes of a worker: no case may take the machine with it
_SPAWN = multiprocessing.get_context("spawn")


def run_cases(
    group: type[Group], cases: Iterable[int], found: Found, *, jobs: int = 1, seconds: float = 0
) -> None:
    """Run cases in `jobs` processes; `found` gets each outcome.

    Args:
        group: That the cases belong to.
        cases: That are run.
        found: Called in this process, in the order in which the cases end.
        jobs: Processes.
        seconds: After the processes have started no case begins later; 0 for no limit.

    Raises:
        Unavailable: This machine cannot run them.
    """
    waiting = iter(cases)
    with tempfile.TemporaryDirectory(prefix="faults-", dir=_fast_folder()) as folder:
        workers = [_Worker(group, Path(folder) / str(index)) for index in range(jobs)]
        end = time.monotonic() + seconds if seconds else float("inf")
        try:
            while busy := [worker for worker in workers if worker.goes_on(waiting, end)]:
                wait([worker.answers for worker in busy], timeout=0.5)
                for worker in busy:
                    if ended := worker.ended():
                        found(*ended)
        finally:
            for worker in workers:
                worker.end()


def _fast_folder() -> str | None:
    """A folder in memory where there is one: cases write thousands of small files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - tempfile names what lies in it


class _Worker:
    """A process of a group; started again after a crash or a hang."""

    def __init__(self, group: type[Group], folder: Path) -> None:
        self._group = group
        self._folder = folder
        self._number: int | None = None
        self._since = 0.0
        self._starts = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        folder = self._folder / str(self._starts)
        folder.mkdir(parents=True)
        self.answers, other = _SPAWN.Pipe()
        with _environment(self._group.environment(self._folder)):
            self._process = _SPAWN.Process(
                target=_serve, args=(other, self._group, folder), daemon=False
            )
            self._process.start()
        other.close()
        if not self.answers.poll(_START_S) or not self._is_ready():
            raise RuntimeError(f"a worker of {self._group.name} did not start: {self._last_words}")

    def _is_ready(self) -> bool:
        try:
            return bool(self.answers.recv() == "ready")
        except EOFError:
            return False

    @property
    def _last_words(self) -> str:
        log = self._folder / str(self._starts) / "log"
        text = log.read_text("utf-8", "replace") if log.is_file() else ""
        return last_lines(text)

    def goes_on(self, waiting: Iterator[int], end: float) -> bool:
        """True while it runs a case, which may be a new one."""
        if self._number is None and time.monotonic() < end:
            self._number = next(waiting, None)
            if self._number is not None:
                self._since = time.monotonic()
                self.answers.send(self._number)
        return self._number is not None

    def ended(self) -> tuple[int, Outcome] | None:
        """The case that has ended and how."""
        if self.answers.poll():
            try:
                outcome = Outcome(*self.answers.recv())
            except EOFError:
                self._process.join(5)
                outcome = Outcome(CRASH, str(self._process.exitcode), self._last_words)
                self._restart()
        elif time.monotonic() - self._since > self._group.limit_s:
            os.kill(self._process.pid or 0, signal.SIGUSR1)  # writes where its threads are
            time.sleep(0.2)
            outcome = Outcome(HANG, "", self._last_words)
            self._restart()
        else:
            return None
        number, self._number = self._number, None
        assert number is not None
        return number, outcome

    def _restart(self) -> None:
        self.end()
        self._start()

    def end(self) -> None:
        """End it with all processes that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.join()
        self.answers.close()
        shutil.rmtree(self._folder / str(self._starts), ignore_errors=True)


@contextlib.contextmanager
def _environment(changes: object) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _serve(questions: Connection, group: type[Group], folder: Path) -> None:
    """What a worker does: cases in, outcomes out, until it is ended."""
    import resource

    os.setsid()
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    own_folders(folder)
    place = folder / "cases"
    place.mkdir()
    cases = group(place)
    questions.send("ready")
    while True:
        try:
            number = questions.recv()
        except EOFError:
            return
        outcome = measured(cases, number)
        questions.send((outcome.kind, outcome.code, outcome.detail))


def own_folders(folder: Path) -> None:
    """Keep this process away from the folders, the network and the settings of its user."""
    names = {"UPREEL_DATA": "data", "UPREEL_CACHE": "cache", "HF_HUB_CACHE": "hub"}
    os.environ |= {name: str(folder / place) for name, place in names.items()}
    os.environ["UPREEL_COMFYUI"] = ""
    for name in ("UPREEL_MODELS", "UPREEL_MIRROR", "HF_ENDPOINT", "http_proxy", "HTTP_PROXY"):
        os.environ.pop(name, None)


def measured(cases: Group, number: int) -> Outcome:
    """Run a case; one that ended well but took more memory than it may did not."""
    if not cases.memory:
        return cases.run(number)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = _status("VmRSS")
    outcome = cases.run(number)
    taken = _status("VmHWM") - before
    if outcome.kind in (OK, REFUSED) and taken > cases.memory:
        return Outcome(MEMORY, outcome.code, f"{taken // 2**20} MiB")
    return outcome


def _status(name: str) -> int:
    """Bytes of a line of this process's status."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) * 1024
