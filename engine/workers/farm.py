"""What the machine that has the film answers to machines that come to help.

They speak with the Dask scheduler of the job, through TLS alone and with a certificate that the
user has paired. A machine asks what the plan needs, says what it has, and gets the order and its
number; then it is a worker like others. All connections are made by it: nothing listens there.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Scheduler
from distributed.comm.core import Comm
from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.ioloop import PeriodicCallback

from engine import __version__
from engine.core.file_access import RetryingFile, write_error
from engine.core.messages import Message, message
from engine.core.serialization import to_plain
from engine.farm.identity import clean_name, fingerprints_in
from engine.protocol.machines import MachineInfo, MachineState
from engine.workers import handshakes, machines
from engine.workers.door import Door
from engine.workers.fit import LentDevice, Requirements, misfit
from engine.workers.remote_segments import PIECE_BYTES, SegmentsReceived
from engine.workers.reports import check, read, read_offer, read_preview
from engine.workers.worker import JobOrder

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 22  # of the source at a time
_BYTES = (bytes, bytearray, memoryview)  # as Dask gives them
_MOST_DEVICES = 64  # of a machine
_LOOK_MS = 1000  # between looks at who is paired


@dataclass(slots=True)
class _Member:
    """A device of another machine that takes part, or did, or cannot."""

    number: int
    fingerprint: str
    name: str
    address: str  # "host:port" of its connection
    device: LentDevice
    state: MachineState = "away"
    spans_done: int = 0
    frames_per_second: float = 0.0
    why: Message | None = None


class Farm:
    """Other machines of a job: who they are, and answers to them.

    Memory: 4 MiB for each machine at a time.

    Args:
        order: Of the job.
        needs: What its plan needs of them.
        door: Where they come in.
        heard: Takes reports, as those of workers, and errors that end the job's try; in any thread.
        lacks: Whether a segment is being made and not finished; asked in any thread.
        is_finished: Whether a segment is finished; asked in any thread.
    """

    def __init__(
        self,
        order: JobOrder,
        needs: Requirements,
        door: Door,
        heard: Callable[[Any], None],
        lacks: Callable[[int], bool],
        is_finished: Callable[[int], bool],
    ) -> None:
        self._order, self._needs, self.door = order, needs, door
        self.is_paused = order.is_paused
        self._heard, self._lacks, self._is_finished = heard, lacks, is_finished
        self._first = len(order.plan.workers)  # those before are of this machine
        self._members: dict[tuple[str, str], _Member] = {}  # by machine and device
        self._refused: dict[tuple[str, str], _Member] = {}
        self._at: dict[str, _Member] = {}  # by the address of a Dask worker
        self._received = SegmentsReceived(order.folder)
        # more than their frames without compression: 16 bits of 4 planes, and some more
        self._most_bytes = order.plan.segment_frames * order.plan.picture.size.pixels * 12 + (
            1 << 20
        )
        self._source = RetryingFile(order.media.path)
        self._reading = threading.Lock()
        self._own = fingerprints_in(door.certificate)
        self._trusted = fingerprints_in(door.trusted)

    async def open(self, scheduler: Scheduler) -> None:
        """Begin to answer; in the thread of the scheduler."""
        self._scheduler = scheduler
        for answer in (self.ask, self.join, self.read, self.keep, self.picture, self.leave):
            scheduler.handlers[f"upreel_{answer.__name__}"] = answer
        scheduler.handlers["register-worker"] = self._enter
        scheduler.add_plugin(_Watch(self))
        looks = PeriodicCallback(self._look, _LOOK_MS)
        scheduler.periodic_callbacks["upreel"] = looks  # it stops them when it ends
        looks.start()

    def close(self) -> None:
        """The job has ended, and its scheduler with it."""
        machines.show(())
        self._source.close()

    # --- for the thread of the job

    def name_of(self, number: int) -> str:
        """Of the machine with that number; "" for a worker of this one."""
        member = self._member(number)
        return "" if member is None else member.name

    def fingerprint_of(self, number: int) -> str:
        """Of the machine with that number; "" for a worker of this one."""
        member = self._member(number)
        return "" if member is None else member.fingerprint

    def works(self, number: int, frames_per_second: float) -> None:
        """A machine has reported how fast it is."""
        if (member := self._member(number)) is not None:
            member.frames_per_second = frames_per_second
            self._show()

    def made(self, number: int) -> None:
        """A machine has made a span."""
        if (member := self._member(number)) is not None:
            member.spans_done += 1
            self._show()

    def leave_out(self, number: int, why: Message) -> None:
        """End the part of a machine for good."""
        member = self._member(number)
        assert member is not None
        member.state, member.why = "left-out", message("reason.machine.left-out", why=why)
        self.dismiss(number)

    def dismiss(self, number: int) -> None:
        """Send a machine away; it may come again."""
        member = self._member(number)
        assert member is not None
        self._scheduler.loop.add_callback(self._dismiss, member)

    # --- answers, in the thread of the scheduler

    async def ask(self, comm: Comm, version: str, name: str) -> dict[str, Any]:
        """What the plan needs; a machine with another version learns that at once."""
        if version == __version__:
            return {"needs": to_plain(self._needs)}
        nothing = LentDevice(gpu="", title="", free_bytes=0)
        version = clean_name(read(str, version))
        why = message("reason.machine.version", version=version, own=__version__)
        return self._refuse(self._known(comm, name, nothing), why)

    async def join(self, comm: Comm, offer: Any, name: str) -> dict[str, Any]:
        """The order of the job and a number, or why a machine cannot take part."""
        offered = read_offer(offer)
        why = misfit(self._needs, offered)
        member = self._known(comm, name, offered.device)
        key = (member.fingerprint, member.device.gpu)
        if why is None and member.state == "left-out":
            why = member.why
        if why is not None:
            return self._refuse(member, why)
        self._refused.pop(key, None)
        self._members[key] = member
        return {
            "number": member.number,
            "order": to_plain(dataclasses.replace(self._order, is_paused=self.is_paused)),
            "size": self._source.size,
            "film": self._order.media.path.name,
        }

    async def read(self, comm: Comm, number: int, begin: int, count: int) -> bytes:
        """A range of the source."""
        self._at_work(comm, number)
        begin, count = read(int, begin), read(int, count)
        return await asyncio.to_thread(self._bytes, begin, min(count, MOST_BYTES))

    async def keep(
        self, comm: Comm, number: int, segment: int, begin: int, piece: bytes, sha256: str
    ) -> bool:
        """A piece of a finished segment; False where it is damaged.

        One that another worker has finished meanwhile is not written.
        """
        self._at_work(comm, number)
        segment, begin = read(int, segment), read(int, begin)
        check(isinstance(piece, _BYTES) and len(piece) <= PIECE_BYTES, "not a piece of a segment")
        check(0 <= begin < self._most_bytes, "a segment that is too large")
        if self._is_finished(segment):
            return True
        check(self._lacks(segment), "a segment that is not being made")
        try:
            return await self._received.take(number, segment, begin, bytes(piece), sha256)
        except OSError as err:  # no fault of the machine
            self._heard(write_error(err, self._order.folder))
            return False

    async def picture(
        self, comm: Comm, number: int, preview: Any, pixels: Sequence[bytes | None]
    ) -> None:
        """The newest frames that a machine has made."""
        self._at_work(comm, number)
        shown = read_preview(preview, pixels)
        check(shown.job_id == self._order.job_id, "a preview of another job")
        self._heard({"number": number, "kind": "preview", "data": shown})

    async def leave(self, comm: Comm, number: int, state: MachineState) -> None:
        """A machine is paused by its owner, or ends: its span is done elsewhere."""
        member = self._checked(comm, number)
        self._heard({"number": number, "kind": "left", "data": None})
        member.state = "paused" if state == "paused" else "away"
        await self._dismiss(member)

    # --- inside

    def came(self, address: str) -> None:
        """A Dask worker is there; one of this machine has no member."""
        name = str(self._scheduler.workers[address].name)
        member = self._member(int(name))
        if member is not None:
            self._at[address] = member
            member.state, member.why = "working", None
            self._heard({"number": member.number, "kind": "joined", "data": None})
            self._show()

    def went(self, address: str) -> None:
        """A Dask worker has gone."""
        member = self._at.pop(address, None)
        if member is None:
            return
        self._received.forget(member.number)
        member.frames_per_second = 0.0
        if member.state == "working":
            member.state = "away"
        self._show()

    async def _enter(self, comm: Comm, name: str, **about: Any) -> None:
        """A Dask worker comes: of this machine, or with the number that its machine was given."""
        if _fingerprint(comm) not in self._own:
            member = self._checked(comm, int(name))
            check(member.state not in ("left-out", "refused"), f"{member.name} does not take part")
        await self._scheduler.add_worker(comm, name=name, **about)

    async def _look(self) -> None:
        """Now and then: whether machines were paired or forgotten since the last time."""
        try:
            trusted = fingerprints_in(self.door.trusted)
        except (OSError, ValueError):  # it is being written, or none is known: all stay
            return
        if trusted == self._trusted:
            return
        self._trusted = trusted
        handshakes.renew(self._scheduler, self.door.security)
        for member in self._everyone:
            if member.fingerprint not in trusted:
                self._heard({"number": member.number, "kind": "left", "data": None})
                await self._dismiss(member)
        handshakes.end(self._scheduler, lambda comm: _fingerprint(comm) not in trusted)

    def _known(self, comm: Comm, name: str, device: LentDevice) -> _Member:
        """Who speaks; a new one gets the next number."""
        fingerprint = _fingerprint(comm)
        key = (fingerprint, device.gpu)
        member = self._members.get(key) or self._refused.get(key)
        if member is None:
            number = self._first + len(self._everyone)
            devices = sum(one.fingerprint == fingerprint for one in self._everyone)
            check(devices < _MOST_DEVICES, "too many devices")
            name = self.door.names.get(fingerprint) or clean_name(read(str, name))
            member = _Member(number, fingerprint, name, "", device)
            self._refused[key] = member  # until it fits
        member.address, member.device = comm.peer_address.partition("://")[2], device
        return member

    def _refuse(self, member: _Member, why: Message) -> dict[str, Any]:
        is_new = member.why != why
        if member.state != "left-out":
            member.state, member.why = "refused", why
        if is_new and why.code != _OTHER_DEVICE:  # another device of the machine may fit
            self._heard({"number": member.number, "kind": "refused", "data": (member.name, why)})
        self._show()
        return {"refused": to_plain(why)}

    def _member(self, number: int) -> _Member | None:
        return next((one for one in self._everyone if one.number == number), None)

    @property
    def _everyone(self) -> tuple[_Member, ...]:
        return (*self._members.values(), *self._refused.values())

    def _at_work(self, comm: Comm, number: int) -> _Member:
        """As `_checked`; its Dask worker is there."""
        member = self._checked(comm, number)
        check(any(member is one for one in self._at.values()), "no Dask worker is there")
        return member

    def _checked(self, comm: Comm, number: int) -> _Member:
        """The machine with a number, which must be the one that speaks."""
        member = self._member(number)
        is_right = member is not None and member.fingerprint == _fingerprint(comm)
        check(is_right, "a number used by another computer")
        assert member is not None
        return member

    async def _dismiss(self, member: _Member) -> None:
        self._show()
        for address in [one for one, whose in self._at.items() if whose is member]:
            await self._scheduler.remove_worker(address=address, stimulus_id="upreel")

    def _bytes(self, begin: int, count: int) -> bytes:
        with self._reading:
            self._source.seek(begin)
            pieces, left = [], count
            while left > 0 and (piece := self._source.read(left)):
                pieces.append(piece)
                left -= len(piece)
            if self._source.failure is not None:
                raise self._source.failure
        return b"".join(pieces)

    def _show(self) -> None:
        everyone = self._everyone
        prints = dict.fromkeys(one.fingerprint for one in everyone)
        machines.show(
            tuple(
                _info([one for one in everyone if one.fingerprint == each], self._film)
                for each in prints
            )
        )

    @property
    def _film(self) -> str:
        return self._order.media.path.name


class _Watch(SchedulerPlugin):
    """Tells of workers that come and go."""

    name = "upreel"

    def __init__(self, farm: Farm) -> None:
        self._farm = farm

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self._farm.came(worker)

    def remove_worker(self, scheduler: Scheduler, worker: str, **about: Any) -> None:
        self._farm.went(worker)


_OTHER_DEVICE = "reason.machine.device"
_ORDER: tuple[MachineState, ...] = ("working", "idle", "paused", "left-out", "away", "refused")


def _info(devices: list[_Member], film: str) -> MachineInfo:
    """A machine, of which several devices may take part: its state is the best one of theirs."""
    best = min(devices, key=lambda one: _ORDER.index(one.state))
    at_work = [one for one in devices if one.state == "working"]
    return MachineInfo(
        fingerprint=best.fingerprint,
        name=best.name,
        address=best.address,
        state=best.state,
        devices=tuple(one.device.title for one in at_work or [best] if one.device.title),
        free_bytes=sum(one.device.free_bytes for one in at_work or [best]),
        frames_per_second=sum(one.frames_per_second for one in at_work),
        film=film if at_work else "",
        spans_done=sum(one.spans_done for one in devices),
        why=best.why,
    )


def _fingerprint(comm: Any) -> str:
    """SHA-256 of the certificate that the other end of a connection has proved to have."""
    found = comm.stream.socket.getpeercert(binary_form=True)
    return hashlib.sha256(found).hexdigest()
