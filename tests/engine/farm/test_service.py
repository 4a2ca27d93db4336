"""Other computers by commands and events: both sides of a pairing, what is known, lending."""

import contextlib
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import filelock
import pytest

from engine.api import Engine
from engine.core import paths
from engine.farm import lending, present, service
from engine.farm.discovery import Announced
from engine.farm.endpoint import Endpoint, split
from engine.farm.errors import MachineError, MachineUnreachable, PairingFailed
from engine.farm.identity import Peers
from engine.farm.pairing import ask
from engine.farm.service import MachinesService
from engine.jobs.task_runner import RunningTask, Task
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol import machines as m
from engine.protocol.machines import FoundMachine, MachineInfo, MachinesState
from engine.protocol.tasks import TaskKind
from tests.helpers.farm import User, Waiting, certificate_of, identity_of, in_thread
from tests.helpers.jobs import TASK_ENDS, Listener, running_engine

Waits = Callable[..., Waiting]
Hosts = Callable[[], tuple[str, ...]]
Heard = Callable[[str, str], None]
PAIRING = TaskKind.PAIRING


class Network:
    """In place of the multicast of this machine: what was heard of, or why nothing can be."""

    def __init__(self) -> None:
        self.machines: tuple[Announced, ...] = ()
        self.pairing_port = 0
        self.error: MachineUnreachable | None = None

    def __enter__(self) -> "Network":
        if self.error is not None:
            raise self.error
        return self

    def __exit__(self, *error: object) -> None:
        pass

    @contextlib.contextmanager
    def announced(self, pairing_port: int) -> Iterator[None]:
        self.pairing_port = pairing_port
        yield
        self.pairing_port = 0


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    made = Network()
    for module in (service, lending):
        monkeypatch.setattr(module, "Browser", lambda: made)
    monkeypatch.setattr(service, "announced", made.announced)
    monkeypatch.setattr(service, "_LOOK_S", 0.05)
    return made


@pytest.fixture
def running(network: Network, tmp_path: Path) -> Iterator[tuple[Engine, Listener]]:
    with running_engine(tmp_path / "jobs") as running:
        yield running


@pytest.fixture
def engine(running: tuple[Engine, Listener]) -> Engine:
    return running[0]


@pytest.fixture
def heard(running: tuple[Engine, Listener]) -> Listener:
    return running[1]


def state_with(heard: Listener, **wanted: Any) -> MachinesState:
    """The next state that has these values."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        state = heard.wait(m.MachinesKnown, timeout_s=20).state
        if all(getattr(state, name) == value for name, value in wanted.items()):
            return state
    raise AssertionError(f"no state with {wanted}")


def shown(engine: Engine, heard: Listener) -> str:
    """The address of this computer once its page is open."""
    engine.send(m.ShowMachines())
    return address_in(heard)


def address_in(heard: Listener) -> str:
    """The first one that is told."""
    while not (address := heard.wait(m.MachinesKnown, timeout_s=20).state.address):
        pass
    return address


def local(address: str, network: Network) -> str:
    """The same computer from this one."""
    end = time.monotonic() + 10
    while not network.pairing_port and time.monotonic() < end:
        time.sleep(0.01)
    return f"127.0.0.1:{split(address, network.pairing_port)[1]}"


def confirm(engine: Engine, words: m.PairingWords, *, are_same: bool = True) -> None:
    """The user answers these words."""
    engine.send(m.ConfirmPairing(words=words.words, are_same=are_same))


def test_this_computer_pairs_with_one_that_waits(
    engine: Engine, heard: Listener, waiting: Waits
) -> None:
    other = waiting()
    engine.send(m.PairMachine(address=other.address))
    words = heard.wait(m.PairingWords)
    assert not words.asks
    assert other.user.is_shown.wait(10)
    assert words.words == other.user.offers[0].words
    assert len(words.words) == 6
    confirm(engine, words)
    known = state_with(heard)
    assert [one.fingerprint for one in known.machines] == [identity_of(other.folder).fingerprint]
    assert known.machines[0].state == "away"
    done = heard.done()
    assert (done.kind, done.subject) == (PAIRING, other.address)
    assert len(other.peers) == 1


def test_words_that_differ_leave_both_as_they_were(
    engine: Engine, heard: Listener, waiting: Waits
) -> None:
    other = waiting()
    engine.send(m.PairMachine(address=other.address))
    confirm(engine, heard.wait(m.PairingWords), are_same=False)
    failed = heard.failed()
    assert (failed.error.code, failed.error.case) == ("pairing-failed", "here")
    assert not Peers().all()
    assert not other.peers


def test_the_other_computer_refuses(engine: Engine, heard: Listener, waiting: Waits) -> None:
    other = waiting(answer=False)
    engine.send(m.PairMachine(address=other.address))
    failed = heard.failed()
    assert failed.error.case == "there"


def test_a_pairing_is_given_up(engine: Engine, heard: Listener, waiting: Waits) -> None:
    other = waiting(answer=None)
    engine.send(m.PairMachine(address=other.address))
    words = heard.wait(m.PairingWords)
    engine.send(c.StopTask(kind=PAIRING))
    assert isinstance(heard.wait(*TASK_ENDS), e.TaskStopped)
    confirm(engine, words)  # too late: it means nothing
    engine.send(m.PairMachine(address="no address"))
    assert isinstance(heard.wait(*TASK_ENDS), e.TaskFailed)
    assert not Peers().all()


def test_a_second_click_pairs_no_stranger_that_asks_meanwhile(
    engine: Engine, heard: Listener, network: Network, waiting: Waits, tmp_path: Path
) -> None:
    """Its words would come where the user has just confirmed others."""
    address = local(shown(engine, heard), network)
    other, folder = waiting(), tmp_path / "stranger"
    engine.send(m.PairMachine(address=other.address))
    words = heard.wait(m.PairingWords)
    early = in_thread(folder, lambda: ask(address, User().show)).exception(10)
    assert isinstance(early, PairingFailed)
    assert early.case == "busy", "this computer is pairing, whoever began it"
    confirm(engine, words)
    assert heard.done().subject == other.address
    late = in_thread(folder, lambda: ask(address, User().show))
    assert heard.wait(m.PairingWords).asks
    confirm(engine, words)  # the second click
    confirm(engine, m.PairingWords(words=(), name="", asks=True))
    assert not late.done()
    engine.send(c.StopTask(kind=PAIRING))
    assert isinstance(late.exception(10), PairingFailed)
    assert [one.fingerprint for one in Peers().all()] == [identity_of(other.folder).fingerprint]


def test_this_computer_asks_for_no_pairing_while_another_one_is_on_its_screen(
    network: Network, waiting: Waits, tmp_path: Path
) -> None:
    """The turn is taken when its words are, before the engine has heard of it."""
    heard = Listener()
    answering = MachinesService(heard, lambda command: None, lambda: 1)
    events = answering.answer(m.ShowMachines())
    assert isinstance(events, tuple)
    for event in events:  # of those, one may have the address already
        heard.emit(event)
    try:
        user = User(answer=None)
        address = local(address_in(heard), network)
        asking = in_thread(tmp_path / "asking", lambda: ask(address, user.show))
        assert user.is_shown.wait(10)
        task = answering.answer(m.PairMachine(address=waiting().address))
        assert isinstance(task, Task)
        with pytest.raises(PairingFailed, match="pairing with another computer"):
            task.do(cast(RunningTask, None))
        user.says(False)
        assert isinstance(asking.exception(10), PairingFailed)
    finally:
        answering.close(10)


def test_another_computer_pairs_with_this_one_while_it_is_shown(
    engine: Engine, heard: Listener, network: Network, waiting: Waits, tmp_path: Path
) -> None:
    address = local(shown(engine, heard), network)
    user = User()
    result = in_thread(tmp_path / "asking", lambda: ask(address, user.show))
    words = heard.wait(m.PairingWords)
    assert words.asks
    assert user.is_shown.wait(10)
    assert words.words == user.offers[0].words
    confirm(engine, words)
    done = heard.done()
    assert done.subject == ""
    own = result.result(10)
    assert own.fingerprint == service.own_identity().fingerprint
    assert [peer.fingerprint for peer in Peers().all()] == [
        identity_of(tmp_path / "asking").fingerprint
    ]


def test_a_pairing_that_began_elsewhere_is_given_up_on_both_sides(
    engine: Engine, heard: Listener, network: Network, waiting: Waits, tmp_path: Path
) -> None:
    address = local(shown(engine, heard), network)
    for stop in (True, False):
        user = User(answer=None)
        result = in_thread(tmp_path / "asking", lambda user=user: ask(address, user.show))
        heard.wait(m.PairingWords)
        if stop:
            engine.send(c.StopTask(kind=PAIRING))
            assert isinstance(heard.wait(*TASK_ENDS), e.TaskStopped)
        else:
            user.says(False)
            failed = heard.failed()
            assert failed.error.case == "there"
        assert result.exception(10) is not None
    assert not Peers().all()


def test_nobody_pairs_with_a_computer_whose_page_is_closed(
    engine: Engine, heard: Listener, network: Network, waiting: Waits, tmp_path: Path
) -> None:
    address = local(shown(engine, heard), network)
    engine.send(m.ShowMachines(are_shown=False))
    end = time.monotonic() + 10
    while network.pairing_port and time.monotonic() < end:
        time.sleep(0.01)
    result = in_thread(tmp_path / "asking", lambda: ask(address, User().show))
    assert isinstance(result.exception(15), MachineError)


def test_computers_that_wait_are_found_but_not_those_that_are_paired(
    engine: Engine, heard: Listener, network: Network, tmp_path: Path
) -> None:
    certificate = certificate_of(tmp_path / "other")
    peer = Peers().add(certificate, "Studio", "10.0.0.2:47110")
    attic = Announced(
        fingerprint="a" * 64, name="Attic", pairing_address="10.0.0.3:47111", jobs_addresses=()
    )
    busy = Announced(fingerprint="b" * 64, name="Busy", pairing_address="", jobs_addresses=())
    studio = Announced(
        fingerprint=peer.fingerprint, name="Studio", pairing_address="10.0.0.2:1", jobs_addresses=()
    )
    engine.send(m.ShowMachines())
    assert not state_with(heard).found
    network.machines = (attic, busy, studio)
    state = state_with(heard, found=(FoundMachine(name="Attic", address="10.0.0.3:47111"),))
    assert [one.name for one in state.machines] == ["Studio"]


def test_what_a_computer_does_for_the_job_is_told_at_once(
    engine: Engine, heard: Listener, tmp_path: Path
) -> None:
    peer = Peers().add(certificate_of(tmp_path / "other"), "Studio", "10.0.0.2:47110")
    shown(engine, heard)
    helping = MachineInfo(
        fingerprint=peer.fingerprint,
        name="as it calls itself",
        state="working",
        film="a.mkv",
        frames_per_second=1.5,
        spans_done=3,
    )
    present.show((helping,))
    try:
        while (found := state_with(heard).machines[0]).state == "away":
            pass
        assert (found.name, found.film, found.spans_done) == ("Studio", "a.mkv", 3)
    finally:
        present.show(())


def test_without_a_network_paired_computers_are_listed_all_the_same(
    engine: Engine, heard: Listener, network: Network, tmp_path: Path
) -> None:
    network.error = MachineUnreachable("no-network", reason="none")
    Peers().add(certificate_of(tmp_path / "other"), "Studio", "10.0.0.2:47110")
    engine.send(m.ShowMachines())
    state = state_with(heard, problem=network.error.as_message)
    assert [one.name for one in state.machines] == ["Studio"]


def test_a_computer_is_forgotten(engine: Engine, heard: Listener, tmp_path: Path) -> None:
    peer = Peers().add(certificate_of(tmp_path / "other"), "Studio", "10.0.0.2:47110")
    engine.send(m.ForgetMachine(fingerprint=peer.fingerprint))
    assert state_with(heard).machines == ()
    engine.send(m.ForgetMachine(fingerprint=peer.fingerprint))
    failed = heard.failed()
    assert (failed.kind, failed.error.code) == (PAIRING, "unknown-machine")


def test_this_computer_is_lent_and_taken_back(engine: Engine, heard: Listener) -> None:
    engine.send(m.LendMachine(is_lent=True))
    assert state_with(heard).is_lent
    engine.send(m.LendMachine(is_lent=False))
    assert not state_with(heard).is_lent
    engine.send(m.LendMachine(is_lent=True))  # while the first is still to end
    assert state_with(heard).is_lent


def test_a_computer_that_is_lent_by_another_upreel_says_so(engine: Engine, heard: Listener) -> None:
    folder = paths.cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / "lent.lock"):
        engine.send(m.LendMachine(is_lent=True))
        failed = heard.wait(*TASK_ENDS)
    assert isinstance(failed, e.TaskFailed)
    assert failed.error.code == "already-lent"
    last = [one for one in heard.seen if isinstance(one, m.MachinesKnown)][-1]
    assert not last.state.is_lent


def test_a_lent_computer_lets_those_in_that_are_paired_meanwhile(
    engine: Engine, heard: Listener, waiting: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent: queue.SimpleQueue[tuple[Endpoint, Hosts, Heard]] = queue.SimpleQueue()

    @contextlib.contextmanager
    def fake_lending(*about: Any) -> Iterator[None]:
        lent.put(about)
        yield

    monkeypatch.setattr(lending, "Lending", fake_lending)
    other = waiting()
    engine.send(m.LendMachine(is_lent=True))
    engine.send(m.PairMachine(address=other.address))
    confirm(engine, heard.wait(m.PairingWords))
    assert isinstance(heard.wait(*TASK_ENDS), e.TaskDone)
    endpoint, hosts, tell = lent.get(timeout=10)
    assert certificate_of(other.folder) in endpoint.trusted.read_text(), (
        "which the lending looks at"
    )
    tell("working", *hosts())
    engine.send(m.ShowMachines())
    state = state_with(heard, is_lent=True)
    assert state.lent_to == state.machines[0].name
    assert state.machines[0].state == "helped"
    tell("idle", "")
    engine.send(m.ShowMachines())
    state = state_with(heard, lent_to="")
    assert state.machines[0].state == "away"
