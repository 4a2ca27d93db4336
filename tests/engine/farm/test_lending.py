"""A machine that is lent: whom it works for, and where it looks for them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from engine.farm import lending, lent
from engine.farm.discovery import Announced
from engine.farm.endpoint import Endpoint, own_endpoint, reachable
from engine.farm.fit import LentDevice
from engine.farm.identity import Peers
from engine.farm.lending import Lending, paired_hosts
from tests.helpers.farm import certificate_of, identity_of, in_thread
from tests.helpers.farm_machines import until


class Process:
    """In place of one that works for another machine, until it has to end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.process, self.pipe = folder, self, self
        self.name, self.words = "lent", []
        self._ends = threading.Event()

    def send(self, why: str) -> None:
        self.words.append(why)
        self._ends.set()

    def is_alive(self) -> bool:
        return not self._ends.is_set()

    def join(self, timeout: float = 10.0) -> None:
        self._ends.wait(timeout)

    def poll(self) -> bool:
        return False

    def close(self) -> None:
        pass


@pytest.mark.parametrize("change", ["forget", "pair"])
def test_work_for_others_begins_again_with_other_peers(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Process] = []

    def start(self: Lending, number: int, hosts: tuple[str, ...]) -> Any:
        started.append(Process(tmp_path / "work"))
        return started[-1]

    monkeypatch.setattr(lending, "_TRY_S", 0.02)
    monkeypatch.setattr(lending, "reachable", lambda hosts, endpoint: hosts)
    monkeypatch.setattr(Lending, "_started", start)
    peer = Peers().add(certificate_of(tmp_path / "one"), "one", "")
    device = LentDevice(gpu="", title="CPU", free_bytes=1)
    about = {"folder": tmp_path / "lent", "devices": (device,)}
    with Lending(own_endpoint(), lambda: ("10.0.0.1:1",), **about):
        until(lambda: started, 10)
        if change == "forget":
            Peers().forget(peer.fingerprint)
        else:
            Peers().add(certificate_of(tmp_path / "two"), "two", "")
        until(lambda: len(started) == 2, 10)
        assert started[0].words == ["ended"]
    assert [one.words for one in started] == [["ended"], ["ended"]]


def test_an_address_that_has_answered_is_tried_again_whatever_is_announced_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger may announce others, and that a computer has gone."""
    said, tried = [("10.0.0.1:1",)], []

    def answers(hosts: tuple[str, ...], endpoint: Endpoint) -> tuple[str, ...]:
        tried.extend(filter(None, (hosts,)))
        return hosts[:1]

    monkeypatch.setattr(lending, "_TRY_S", 0.02)
    monkeypatch.setattr(lending, "reachable", answers)
    monkeypatch.setattr(Lending, "_started", lambda *about: Process(tmp_path / "work"))
    device = LentDevice(gpu="", title="CPU", free_bytes=1)
    lent = Lending(own_endpoint(), lambda: said[0], folder=tmp_path / "lent", devices=(device,))
    with lent:
        until(lambda: lent._children, 10)
        said[0] = ("10.6.6.6:1",)
        lent.pause()
        until(lambda: not lent._children, 10)
        lent.resume()
        until(lambda: len(tried) > 1, 10)
    assert tried[:2] == [("10.0.0.1:1",), ("10.0.0.1:1", "10.6.6.6:1")]


def test_whoever_announces_a_paired_computer_keeps_it_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Peers().add(certificate_of(tmp_path / "one"), "one", "10.0.0.1:1")
    other = Peers().add(certificate_of(tmp_path / "two"), "two", "10.0.0.2:1")
    about = {"name": "one", "pairing_address": ""}
    said = [
        Announced(
            fingerprint=peer.fingerprint, jobs_addresses=("10.0.0.9:1", "[fe80::1]:1"), **about
        ),
        Announced(fingerprint="0" * 64, jobs_addresses=("10.6.6.6:1",), **about),
        Announced(
            fingerprint=peer.fingerprint, jobs_addresses=("10.6.6.6:1", "10.0.0.1:1"), **about
        ),
    ]
    network = contextlib.nullcontext(type("Heard", (), {"machines": tuple(said)}))
    monkeypatch.setattr(lending, "Browser", lambda: network)
    with paired_hosts() as hosts:
        found = hosts()
    assert found == ("10.0.0.1:1", "10.0.0.9:1", "[fe80::1]:1", "10.6.6.6:1", other.address)


def test_an_address_at_which_a_stranger_waits_holds_up_no_other_one(tmp_path: Path) -> None:
    host = identity_of(tmp_path / "host")
    Peers().add(host.certificate_text, "host", "")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(host.certificate)
    with contextlib.ExitStack() as stack:
        *deaf, listener = (
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(7)
        )
        there = in_thread(tmp_path, lambda: context.wrap_socket(listener.accept()[0], True))
        hosts = [f"127.0.0.1:{one.getsockname()[1]}" for one in (*deaf, listener)]
        begun = time.monotonic()
        assert reachable(("no address", *hosts), own_endpoint()) == (hosts[-1],)
        assert time.monotonic() - begun < len(deaf), "seconds"
        there.result(10).close()


def test_a_process_loads_its_libraries_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(lending, "load_for_good", done.append)
    monkeypatch.setattr(lent, "work", lambda *_: done.append("work"))
    lending._lent_process(cast(Any, None), cast(Any, None))
    assert done == [lent.__name__, "work"]
