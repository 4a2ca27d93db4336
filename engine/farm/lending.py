"""Lending of this computer: a process for each of its devices works for paired computers."""

from __future__ import annotations

import contextlib
import itertools
import logging
import multiprocessing
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import filelock

from engine.core import paths
from engine.farm.discovery import Browser
from engine.farm.endpoint import Endpoint, reachable
from engine.farm.errors import AlreadyLent, MachineUnreachable
from engine.farm.fit import Lent, LentDevice, own_devices
from engine.farm.identity import Peers, fingerprints_in
from engine.hardware.process import load_for_good

logger = logging.getLogger(__name__)

_TRY_S = 2.0  # polling interval of computers that may have work
_MOST_REACHED = 64  # addresses that are tried again, even if announced no more
_ENDING_S = 15.0  # time for a process to end cleanly

Changed = Callable[[str, str], None]  # "working", "idle" or "refused"; for whom, or why


@dataclass(slots=True)
class _Child:
    process: SpawnProcess
    pipe: Any  # Connection; on Windows a class of another name
    folder: Path


@contextlib.contextmanager
def paired_hosts() -> Iterator[Callable[[], tuple[str, ...]]]:
    """A function that returns the addresses at which paired computers may have work.

    These are the address that each gave when it was paired, and those that are announced.
    """
    with contextlib.ExitStack() as stack:
        browser: Browser | None = None
        try:
            browser = stack.enter_context(Browser())
        except MachineUnreachable as err:
            logger.info("cannot search for other computers: %s", err)

        def hosts() -> tuple[str, ...]:
            seen = browser.machines if browser is not None else ()
            found: list[str] = []
            for peer in Peers().all():
                said = [one.jobs_addresses for one in seen if one.fingerprint == peer.fingerprint]
                found += [peer.address, *itertools.chain(*said)]
            return tuple(filter(None, dict.fromkeys(found)))

        yield hosts


class Lending:
    """Lends this computer to paired ones; a context manager.

    Files for other computers are in a folder that is emptied when a job ends, and at the start.

    Args:
        endpoint: Certificates of this computer.
        hosts: Function that returns "host:port" of the others, called each time.
        changed: Function for each new state, called in a thread of the lending.
        folder: Folder for temporary files; None for one in the cache.
        devices: Devices to lend; None for all.

    Raises:
        AlreadyLent: Another Upreel lends this computer.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        hosts: Callable[[], Sequence[str]],
        changed: Changed = lambda state, what: None,
        *,
        folder: Path | None = None,
        devices: Sequence[LentDevice] | None = None,
    ) -> None:
        self._endpoint, self._hosts, self._report = endpoint, hosts, changed
        self._folder = folder or paths.cache_folder() / "lent"
        self._devices = own_devices() if devices is None else tuple(devices)
        self._children: dict[int, _Child] = {}
        self._trusted = fingerprints_in(endpoint.trusted)
        self._reached: tuple[str, ...] = ()  # addresses that have answered, the newest first
        self._changed = threading.Condition()
        self._is_paused = self._has_ended = False
        self._watch = threading.Thread(target=self._run, name="lending")
        self._lock = filelock.FileLock(self._folder.with_name(f"{self._folder.name}.lock"))

    def __enter__(self) -> Lending:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout as err:
            raise AlreadyLent from err
        shutil.rmtree(self._folder, ignore_errors=True)  # of one that crashed
        self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._set(has_ended=True)
        self._watch.join()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.release()

    def pause(self) -> None:
        """Give this computer back to its owner: unfinished spans are made elsewhere."""
        self._set(is_paused=True)

    def resume(self) -> None:
        """Lend it again."""
        self._set(is_paused=False)

    def _set(self, *, is_paused: bool | None = None, has_ended: bool = False) -> None:
        with self._changed:
            self._is_paused = self._is_paused if is_paused is None else is_paused
            self._has_ended |= has_ended
            self._changed.notify()

    def _run(self) -> None:
        """Look for work, in a thread of its own."""
        while not self._has_ended:
            self._step()
            with self._changed:
                if not self._has_ended:
                    self._changed.wait(_TRY_S)
        self._end("ended")

    def _step(self) -> None:
        for number, child in tuple(self._children.items()):
            self._receive(child)
            if not child.process.is_alive():
                self._forget(number)
        if self._is_paused:
            self._end("paused")
            return
        if self._has_other_peers:
            self._end("ended")  # they may work for one that is forgotten
        lacking = [n for n in range(len(self._devices)) if n not in self._children]
        hosts = tuple(dict.fromkeys((*self._reached, *self._hosts()))) if lacking else ()
        if reached := reachable(hosts, self._endpoint):
            self._reached = tuple(dict.fromkeys((*reached, *self._reached)))[:_MOST_REACHED]
            for number in lacking:
                self._children[number] = self._started(number, hosts)

    @property
    def _has_other_peers(self) -> bool:
        """Whether computers were paired or forgotten since the last look."""
        before = self._trusted
        with contextlib.suppress(OSError, ValueError):
            self._trusted = fingerprints_in(self._endpoint.trusted)
        return self._trusted != before

    def _started(self, number: int, hosts: tuple[str, ...]) -> _Child:
        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe()
        folder = self._folder / str(number)
        device = self._devices[number]
        lent = Lent(hosts=hosts, endpoint=self._endpoint, device=device, folder=folder)
        process = spawn.Process(target=_lent_process, args=(lent, there), name=f"lent-{number}")
        process.start()
        there.close()
        return _Child(process, here, folder)

    def _receive(self, child: _Child) -> None:
        with contextlib.suppress(EOFError, OSError):
            while child.pipe.poll():
                self._report(*child.pipe.recv())

    def _end(self, why: str) -> None:
        """End all processes, which tell the computers that they work for."""
        for child in self._children.values():
            with contextlib.suppress(OSError):
                child.pipe.send(why)
        for number, child in tuple(self._children.items()):
            child.process.join(_ENDING_S)
            if child.process.is_alive():
                logger.warning("%s did not stop", child.process.name)
                child.process.kill()
                child.process.join()
            self._forget(number)

    def _forget(self, number: int) -> None:
        child = self._children.pop(number)
        child.process.join()
        self._receive(child)  # what it has said last
        child.pipe.close()
        shutil.rmtree(child.folder, ignore_errors=True)


def _lent_process(lent: Lent, parent: Connection) -> None:
    """The main function of a process of a device; before anything loads torch."""
    load_for_good("engine.farm.lent")
    from engine.farm.lent import work

    work(lent, parent)
