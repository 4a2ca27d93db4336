"""Answers to a machine that asks what makes no sense: only that machine gets an error."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client
from distributed.comm.core import connect

from engine import __version__
from engine.core.geometry import Size
from engine.core.serialization import to_plain
from engine.farm.endpoint import own_endpoint
from engine.farm.fit import LentDevice, MachineOffer, Requirements, read_offer
from engine.farm.host import Host, _read_preview
from engine.farm.identity import Peers
from engine.protocol.events import Picture, PreviewReady
from engine.video.read.probe import probe
from engine.workers import pool
from engine.workers.reports import InvalidReport
from engine.workers.worker import JobOrder, SpanWorker
from tests.helpers.clips import make_clip
from tests.helpers.farm import certificate_of, computer
from tests.helpers.farm_machines import free_port
from tests.helpers.jobs import plan_of, settings_of

DEVICE = LentDevice(gpu="", title="CPU", free_bytes=10)
OFFER = to_plain(MachineOffer(version=__version__, device=DEVICE, files=()))
WANTED = 4  # the segment that lacks


class Scheduler:
    """What a Farm uses of one of Dask."""

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {}
        self.periodic_callbacks: dict[str, Any] = {}
        self.workers: dict[str, Any] = {}
        self.listeners: list[Any] = []
        self._comms: dict[Any, Any] = {}
        self.plugin: Any = None
        self.removed: list[str] = []

    def add_plugin(self, plugin: object) -> None:
        self.plugin = plugin

    async def add_worker(self, comm: object, name: str, address: str) -> None:
        self.workers[address] = SimpleNamespace(name=name)
        self.plugin.add_worker(self, address)

    async def remove_worker(self, address: str, stimulus_id: str) -> None:
        del self.workers[address]
        self.removed.append(address)
        self.plugin.remove_worker(self, address)


class AskedHost:
    """The machine that has the film, asked as Dask asks it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "job"
        self.folder.mkdir()
        self.data = folder / "data"
        film = make_clip(folder / "film.mkv", frames=2, size=(64, 48))
        plan = plan_of(film, folder / "out.mkv", settings_of("lite", folder))
        self.source = film.read_bytes()
        with computer(self.data):
            for name in ("one", "two"):
                Peers().add(certificate_of(folder / name), name, "")
            self.endpoint = own_endpoint()
        machines = {name: certificate_of(folder / name) for name in ("one", "two")}
        machines["own"] = certificate_of(self.data)
        self.answers: dict[str, list[Any]] = {name: [] for name in machines}  # before errors
        self.comms = {name: comm_of(pem, self.answers[name]) for name, pem in machines.items()}
        order = JobOrder(job_id="job", media=probe(film), plan=plan, folder=self.folder)
        needs = Requirements(version=__version__, device="cpu", bytes=1, files=())
        self.received: list[Any] = []
        self.scheduler: Any = Scheduler()
        self.finished: set[int] = set()
        asked = (lambda one: one == WANTED), self.finished.__contains__
        self.host = Host(self.endpoint, order, self.received.append, *asked)
        self.host._needs = needs

    async def open(self) -> None:
        await self.host.open(self.scheduler)

    async def ask(self, what: str, who: str = "one", **about: Any) -> Any:
        op = what if what == "register-worker" else f"upreel_{what}"
        return await self.scheduler.handlers[op](self.comms[who], **about)

    async def join(self, who: str = "one") -> int:
        """A machine comes in; its number."""
        reply = await self.ask("join", who, offer=OFFER, name=who)
        number: int = reply["number"]
        await self.ask("register-worker", who, name=str(number), address=who)
        return number

    @property
    def kinds(self) -> list[str]:
        return [one.kind for one in self.received]


def comm_of(certificate: str, answers: list[Any]) -> Any:
    data = ssl.PEM_cert_to_DER_cert(certificate)
    stream = SimpleNamespace(socket=SimpleNamespace(getpeercert=lambda binary_form: data))

    async def write(answer: object) -> None:
        answers.append(answer)

    return SimpleNamespace(stream=stream, peer_address="tls://10.0.0.2:1", write=write)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[AskedHost]:
    found = AskedHost(tmp_path)
    yield found
    found.host.close()


def piece_of(data: bytes = b"abc", **other: Any) -> dict[str, Any]:
    right = {"segment": WANTED, "begin": 0, "piece": data}
    return right | {"sha256": hashlib.sha256(data).hexdigest()} | other


def test_what_is_right_is_answered(host: AskedHost) -> None:
    async def talk() -> None:
        await host.open()
        number = await host.join()
        assert await host.ask("read", number=number, begin=3, count=4) == host.source[3:7]
        assert await host.ask("keep", number=number, **piece_of())
        assert [one.name for one in host.folder.iterdir()] == [f"segment_000004.{number}.mkv"]

    asyncio.run(talk())


def test_a_segment_that_another_worker_was_faster_with_is_no_mistake(host: AskedHost) -> None:
    async def talk() -> None:
        await host.open()
        number = await host.join()
        host.finished.add(WANTED)
        assert await host.ask("keep", number=number, **piece_of())

    asyncio.run(talk())
    assert not list(host.folder.iterdir())


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment": -1},
        {"segment": 10**30},
        {"segment": "../../x"},
        {"segment": WANTED + 1},  # finished, or in no span
        {"segment": 4.0},
        {"begin": -1},
        {"begin": 10**12},
        {"begin": "0"},
        {"piece": 10**12},  # bytes(10**12) takes a terabyte
        {"piece": bytes((1 << 20) + 1)},
        {"piece": None},
    ],
)
def test_pieces_that_make_no_sense_are_not_written(host: Host, wrong: dict[str, Any]) -> None:
    async def talk() -> None:
        await host.open()
        number = await host.join()
        with pytest.raises((InvalidReport, TypeError)):
            await host.ask("keep", number=number, **piece_of(**wrong))

    asyncio.run(talk())
    assert not list(host.folder.iterdir())
    assert host.kinds == ["joined"]  # and no error that would end the job


@pytest.mark.parametrize(
    "wrong", [{"begin": -5}, {"count": -5}, {"begin": 2**62}, {"count": 2**62}, {"begin": 1.5}]
)
def test_odd_ranges_harm_nobody(host: Host, wrong: dict[str, Any]) -> None:
    async def talk() -> None:
        await host.open()
        number = await host.join()
        try:
            found = await host.ask("read", number=number, **({"begin": 0, "count": 5} | wrong))
        except (InvalidReport, OSError, ValueError):
            found = b""
        assert len(found) <= len(host.source)
        assert await host.ask("read", number=number, begin=3, count=4) == host.source[3:7]

    asyncio.run(talk())


def test_the_number_of_another_machine_is_not_accepted(host: AskedHost) -> None:
    async def talk() -> None:
        await host.open()
        one, two = await host.join("one"), await host.join("two")
        assert one != two
        asked: list[tuple[str, dict[str, Any]]] = [
            ("read", {"begin": 0, "count": 1}),
            ("keep", piece_of()),
            ("picture", {"preview": {}, "pixels": []}),
            ("leave", {"state": "paused"}),
        ]
        for what, about in asked:
            with pytest.raises(InvalidReport):
                await host.ask(what, "two", number=one, **about)
        with pytest.raises(InvalidReport):
            await host.ask("register-worker", "two", name=str(one), address="as one")
        with pytest.raises(InvalidReport):  # and none of this machine
            await host.ask("register-worker", "two", name="0", address="as a local one")

    asyncio.run(talk())
    assert [one["status"] for one in host.answers["two"]] == ["error"] * 2, "it waits for an answer"
    assert host.kinds == ["joined", "joined"]
    assert sorted(host.scheduler.workers) == ["one", "two"]


def test_a_worker_of_this_machine_comes_in(host: AskedHost) -> None:
    async def talk() -> None:
        await host.open()
        await host.ask("register-worker", "own", name="0", address="local")

    asyncio.run(talk())
    assert list(host.scheduler.workers) == ["local"]


def test_a_worker_that_comes_for_the_job_before_is_refused_from_the_first_moment(
    host: AskedHost, monkeypatch: pytest.MonkeyPatch, expected_log_errors: list[str]
) -> None:
    """It has waited at the port until a scheduler listens there, and says its old number."""
    order, port, answers = host.host._order, free_port(), []
    endpoint = replace(host.endpoint, port=port, network="127.0.0.1")
    with computer(host.folder.parent / "one"):
        Peers().add(certificate_of(host.data), "host", "")
        own = own_endpoint().security.get_connection_args("worker")

    async def registered() -> Any:
        comm = await connect(f"tls://127.0.0.1:{port}", **own)
        try:
            await comm.write({"op": "register-worker", "reply": False, "name": "1"})
            return await asyncio.wait_for(comm.read(), 20)
        finally:
            await comm.close()

    def client(*args: Any, **options: Any) -> Client:
        """What follows takes its time on a busy machine."""
        answers.append(asyncio.run(registered()))
        return Client(*args, **options)

    expected_log_errors.append("distributed.core")
    monkeypatch.setattr(pool, "Client", client)
    join = Host(endpoint, order, host.received.append, lambda one: False, lambda one: False)
    with pool.WorkerPool(SpanWorker(order), host.folder, 0, host.received.append, join) as opened:
        assert not opened.idle()
    assert [one["status"] for one in answers] == ["error"]
    assert "another computer" in answers[0]["message"]


def test_one_that_was_sent_away_or_refused_delivers_nothing(host: AskedHost) -> None:
    async def talk() -> None:
        await host.open()
        number = await host.join()
        await host.ask("leave", number=number, state="paused")
        for what, about in (("read", {"begin": 0, "count": 1}), ("keep", piece_of())):
            with pytest.raises(InvalidReport):
                await host.ask(what, number=number, **about)
        other = replace(DEVICE, free_bytes=0)
        small = to_plain(MachineOffer(version=__version__, device=other, files=()))
        assert "refused" in await host.ask("join", offer=small, name="one")
        with pytest.raises(InvalidReport):
            await host.ask("register-worker", name=str(number), address="again")

    asyncio.run(talk())
    assert host.scheduler.removed == ["one"]


def test_a_machine_has_no_end_of_devices(host: AskedHost) -> None:
    async def talk() -> int:
        await host.open()
        for number in range(1000):
            gpu = to_plain(replace(DEVICE, gpu=f"GPU {number}"))
            try:
                await host.ask("join", offer=OFFER | {"device": gpu}, name="one")
            except InvalidReport:
                return number
        return 1000

    assert asyncio.run(talk()) == 64


def test_a_forgotten_machine_is_sent_away(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.farm.host._LOOK_MS", 10)

    async def talk() -> None:
        await host.open()
        await host.join("one")
        await host.join("two")
        with computer(host.data):
            Peers().forget(Peers().named("one").fingerprint)
        async with asyncio.timeout(10):
            while not host.scheduler.removed:
                await asyncio.sleep(0.01)

    asyncio.run(talk())
    assert host.scheduler.removed == ["one"]
    assert host.kinds == ["joined", "joined", "left"]


@pytest.mark.parametrize("junk", [None, 3, "text", [], {}, {"version": 1}, [[[]]]])
def test_what_makes_no_sense_is_refused(junk: Any) -> None:
    with pytest.raises(InvalidReport):
        read_offer(junk)
    with pytest.raises(InvalidReport):
        _read_preview(junk, [None, None])


@pytest.mark.parametrize("device", [{"free_bytes": -1}, {"title": "a\nb"}, {"gpu": "x" * 1000}])
def test_a_device_can_be_shown(device: dict[str, Any]) -> None:
    right = LentDevice(gpu="", title="CPU", free_bytes=1)
    offer = MachineOffer(version="9" * 1000, device=right, files=())
    assert len(read_offer(to_plain(offer)).version) == 40
    with pytest.raises(InvalidReport):
        read_offer(to_plain(replace(offer, device=replace(right, **device))))


@pytest.mark.parametrize("rgb", [None, b"", bytes(11), bytes(13), "x" * 12])
def test_a_picture_has_all_its_pixels(rgb: Any) -> None:
    picture = Picture(size=Size(2, 2), rgb=bytes(12))
    preview = PreviewReady(job_id="job", frame=1, seconds=0.5, source=picture)
    assert _read_preview(to_plain(preview), [bytes(12), None]) == preview
    with pytest.raises(InvalidReport):
        _read_preview(to_plain(preview), [rgb, None])


def test_a_worker_asks_for_choices_under_its_own_number_only(host: AskedHost) -> None:
    async def talk() -> None:
        await host.open()
        number = await host.join()
        host.host.check_sender(host.comms["own"], 0)
        host.host.check_sender(host.comms["one"], number)
        for who, wrong in (("two", number), ("one", number + 1), ("one", -1)):
            with pytest.raises(InvalidReport):
                host.host.check_sender(host.comms[who], wrong)

    asyncio.run(talk())
