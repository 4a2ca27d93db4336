"""Service for other computers: the list of them, pairings, and lending this computer."""

from __future__ import annotations

import contextlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, replace
from functools import partial

from engine.core.control import Control
from engine.core.errors import EngineError
from engine.core.file_access import reported
from engine.core.messages import Message
from engine.farm import present
from engine.farm.discovery import Browser, announced
from engine.farm.endpoint import PAIRING_PORT, joined, own_addresses
from engine.farm.errors import MachineError, MachineUnreachable, PairingFailed
from engine.farm.identity import Peer, Peers, own_identity
from engine.farm.pairing import PairingOffer, ask
from engine.farm.pairing_port import PairingPort
from engine.jobs.task_runner import RunningTask, Task
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol import machines as m
from engine.protocol.machines import FoundMachine, MachineInfo, MachinesState
from engine.protocol.tasks import TaskKind

logger = logging.getLogger(__name__)

_LOOK_S = 1.0  # polling interval of the state
_ANSWER_S = 0.1  # polling interval of a pairing that may be given up


class _Answer(Future[bool]):
    """Answer of the user to the words; a task that is cancelled has none."""

    def __init__(self, control: Control | None = None) -> None:
        super().__init__()
        self.control = control

    def done(self) -> bool:
        """Result, like that of a Future; polled every 0.1 s."""
        if self.control is not None and self.control.is_cancelled:
            self.cancel()
        return super().done()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked(m.MachineCommand):
    """Another computer has begun a pairing; its port sends this."""

    offer: PairingOffer
    answer: _Answer
    end: Future[Peer]


class MachinesService:
    """Answers at once; pairings are tasks, ports and lending have threads of their own.

    Args:
        sink: Gets MachinesKnown while computers are shown, whenever something has changed.
        send: Takes what comes from another computer, as a command to this service.
        jobs_port: Port of this computer for others while a job uses them.
    """

    kind = TaskKind.PAIRING
    commands = m.MachineCommand

    def __init__(
        self,
        sink: e.EventSink,
        send: Callable[[c.Command], None],
        jobs_port: Callable[[], int],
    ) -> None:
        self._sink, self._send, self._jobs_port = sink, send, jobs_port
        self._turn = threading.Lock()  # of the pairing that the user sees or has begun
        self._waiting: tuple[PairingOffer, _Answer] | None = None  # the pairing that was shown last
        self._shown = _Shown(self._begin_pairing, self._tell, jobs_port, self._turn)
        self._lent = _Lent(self._lending_failed, self._shown.look)
        self._emitted: MachinesState | None = None

    def answer(self, command: m.MachineCommand) -> Task | tuple[e.Event, ...]:
        """The state, or a pairing.

        Raises:
            EngineError: A computer cannot be forgotten, or the files of all of them be read.
        """
        match command:
            case m.ShowMachines(are_shown=are_shown):
                self._shown.begin() if are_shown else self._shown.end()
            case m.PairMachine(address=address):
                return self._task(address, partial(self._ask, address))
            case _Asked():
                return self._task("", partial(self._be_asked, command))
            case m.ConfirmPairing(words=words, are_same=are_same):
                self._confirm(words, are_same)
                return ()
            case m.ForgetMachine(fingerprint=fingerprint):
                Peers().forget(fingerprint)
            case m.LendMachine(is_lent=is_lent):
                self._lent.begin() if is_lent else self._lent.end()
        return (self._known(),)

    def close(self, timeout_s: float) -> None:
        """End ports and lending, and wait for them."""
        for one in (self._shown, self._lent):
            one.end()
        for one in (self._shown, self._lent):
            one.join(timeout_s)

    # Pairings

    def _task(self, subject: str, do: Callable[[RunningTask], None]) -> Task:
        return Task(kind=self.kind, subject=subject, do=do, state=self._known)

    def _ask(self, address: str, work: RunningTask) -> None:
        """Ask another computer to pair."""

        def show(offer: PairingOffer) -> Future[bool]:
            return self._show(offer, _Answer(work.control), work)

        if not self._turn.acquire(blocking=False):
            raise PairingFailed("busy", name=own_identity().name)
        try:
            ask(address, show, jobs_port=self._jobs_port())
        except MachineError:
            work.control.check()  # it was given up before the other one had answered
            raise
        finally:
            self._turn.release()

    def _begin_pairing(self, offer: PairingOffer, end: Future[Peer]) -> _Answer:
        """The other computer begins; in a thread of its port."""
        answer = _Answer()
        self._send(_Asked(offer=offer, answer=answer, end=end))
        return answer

    def _be_asked(self, asked: _Asked, work: RunningTask) -> None:
        """The other computer began."""
        asked.answer.control = work.control
        self._show(asked.offer, asked.answer, work, asks=True)
        while True:
            with contextlib.suppress(TimeoutError):
                asked.end.result(_ANSWER_S)
                return
            if asked.answer.cancelled():  # also where the other side has gone meanwhile
                work.control.check()

    def _show(
        self, offer: PairingOffer, answer: _Answer, work: RunningTask, *, asks: bool = False
    ) -> Future[bool]:
        self._waiting = (offer, answer)
        if not answer.done():
            work.emit(m.PairingWords(words=offer.words, name=offer.name, asks=asks))
        return answer

    def _confirm(self, words: tuple[str, ...], are_same: bool) -> None:
        """Answer the pairing with these words; nothing where it has ended."""
        if self._waiting is not None and self._waiting[0].words == words:
            with contextlib.suppress(InvalidStateError):  # it has just ended
                self._waiting[1].set_result(are_same)

    # The state

    def _known(self) -> m.MachinesKnown:
        self._emitted = self._state()
        return m.MachinesKnown(state=self._emitted)

    def _tell(self) -> None:
        """Emit what has changed since the last event; in the thread that looks."""
        state = self._state()
        if state != self._emitted:
            self._emitted = state
            self._sink.emit(m.MachinesKnown(state=state))

    def _state(self) -> MachinesState:
        peers, host = Peers().all(), self._lent.host
        known = {peer.fingerprint for peer in peers}
        helping = {machine.fingerprint: machine for machine in present.present()}
        return MachinesState(
            machines=tuple(self._info(peer, helping.get(peer.fingerprint)) for peer in peers),
            found=tuple(one for print_, one in self._shown.found if print_ not in known),
            name=own_identity().name,
            address=self._shown.address,
            is_lent=self._lent.runs,
            lent_to="" if host is None else host.name,
            problem=self._shown.problem,
        )

    def _info(self, peer: Peer, helping: MachineInfo | None) -> MachineInfo:
        """A paired computer, with what it does for the job that runs."""
        if helping is not None:
            return replace(helping, name=peer.name, address=peer.address)
        host = self._lent.host
        return MachineInfo(
            fingerprint=peer.fingerprint,
            name=peer.name,
            address=peer.address,
            state="helped" if host is not None and host.fingerprint == peer.fingerprint else "away",
        )

    def _lending_failed(self, error: EngineError) -> None:
        self._sink.emit(self._known())
        self._sink.emit(e.TaskFailed(kind=self.kind, error=error.info()))


class _Background(ABC):
    """Something with a thread of its own, which begins and ends as the user wants it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def runs(self) -> bool:
        """Between `begin` and `end`."""
        return self._thread is not None and not self._ends.is_set()

    def begin(self) -> None:
        """Start its thread, after one that is still to end."""
        if self.runs:
            return
        before, self._ends = self._thread, threading.Event()
        about = (before, self._ends)
        self._thread = threading.Thread(target=self._run, args=about, name=self._name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let its thread end; returns at once."""
        self._ends.set()

    def join(self, timeout_s: float) -> None:
        """Wait for its thread."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self, before: threading.Thread | None, ends: threading.Event) -> None:
        if before is not None:
            before.join()
        if not ends.is_set():
            self._work(ends)

    @abstractmethod
    def _work(self, ends: threading.Event) -> None:
        """Work until `ends` is set."""


class _Shown(_Background):
    """The pairing port, and what is announced in the network, while computers are shown.

    Args:
        asked: Another computer has begun a pairing; what the user says becomes the result.
        changed: Function for its thread, called every second and after `look`.
        jobs_port: Passed to MachinesService.
        turn: Lock that PairingPort shares.
    """

    def __init__(
        self,
        asked: Callable[[PairingOffer, Future[Peer]], _Answer],
        changed: Callable[[], None],
        jobs_port: Callable[[], int],
        turn: threading.Lock,
    ) -> None:
        super().__init__("machines")
        self._asked, self._changed, self._jobs_port = asked, changed, jobs_port
        self._turn = turn
        self._bell = threading.Event()
        self._browser: Browser | None = None
        self._pairing: Future[Peer] = Future()  # the one that the other side has begun
        self.address = ""
        self.problem: Message | None = None

    @property
    def found(self) -> tuple[tuple[str, FoundMachine], ...]:
        """Computers that wait to be paired, with their fingerprints, by name."""
        announced = self._browser.machines if self._browser is not None else ()
        found = [
            (one.fingerprint, FoundMachine(name=one.name, address=one.pairing_address))
            for one in announced
            if one.pairing_address
        ]
        return tuple(sorted(found, key=lambda one: (one[1].name.casefold(), one[1].address)))

    def look(self) -> None:
        """Something may have changed."""
        self._bell.set()

    def end(self) -> None:
        """Result of the base class."""
        super().end()
        self._bell.set()

    def _work(self, ends: threading.Event) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(present.on_change(self._bell.set))
            try:
                self._open(stack)
            except EngineError as err:  # those that are paired are shown all the same
                self.problem = err.as_message
            except Exception as err:  # noqa: BLE001 - the outermost frame of a thread
                self.problem = reported(err, "pairing port", logger).as_message
            while not ends.is_set():
                self._bell.clear()
                self._changed()
                self._bell.wait(_LOOK_S)
            self._browser, self.address, self.problem = None, "", None

    def _open(self, stack: contextlib.ExitStack) -> None:
        make = partial(
            PairingPort, self._show, self._ended, jobs_port=self._jobs_port(), turn=self._turn
        )
        try:
            port = stack.enter_context(make())
        except MachineUnreachable:  # another Upreel of this computer has it
            port = stack.enter_context(make(port=0))
        host = next(iter(own_addresses()), "127.0.0.1")
        self.address = host if port.port == PAIRING_PORT else joined(host, port.port)
        self._changed()
        self._browser = stack.enter_context(Browser())
        stack.enter_context(announced(pairing_port=port.port))

    def _show(self, offer: PairingOffer) -> Future[bool]:
        self._pairing = Future()
        return self._asked(offer, self._pairing)

    def _ended(self, how: Peer | EngineError) -> None:
        if isinstance(how, EngineError):
            self._pairing.set_exception(how)
        else:
            self._pairing.set_result(how)


class _Lent(_Background):
    """The work for other computers.

    Args:
        failed: Takes what keeps this computer from being lent.
        changed: Function that is called when it works for another computer than before.
    """

    def __init__(self, failed: Callable[[EngineError], None], changed: Callable[[], None]) -> None:
        super().__init__("lent")
        self._failed, self._changed = failed, changed
        self.host: Peer | None = None  # that it works for

    def _work(self, ends: threading.Event) -> None:
        from engine.farm.endpoint import own_endpoint
        from engine.farm.lending import Lending, paired_hosts

        try:
            with contextlib.ExitStack() as stack:
                hosts = stack.enter_context(paired_hosts())
                stack.enter_context(Lending(own_endpoint(), hosts, self._report))
                ends.wait()
        except EngineError as err:
            ends.set()
            self._failed(err)
        except Exception as err:  # noqa: BLE001 - the outermost frame of a thread
            ends.set()
            self._failed(reported(err, "lending", logger))
        finally:
            self._report("idle", "")

    def _report(self, state: str, what: str) -> None:
        host = None
        if state == "working":
            unknown = Peer(fingerprint="", name=what, address=what, certificate="")
            host = next((peer for peer in Peers().all() if peer.address == what), unknown)
        if host != self.host:
            self.host = host
            self._changed()
