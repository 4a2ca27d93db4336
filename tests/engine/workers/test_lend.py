"""A machine that is lent begins again when others are paired or forgotten."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from engine.farm.identity import Peers
from engine.workers import lend
from engine.workers.door import own_door
from engine.workers.fit import LentDevice
from engine.workers.lend import Lending
from tests.helpers.farm import certificate_of
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

    monkeypatch.setattr(lend, "_TRY_S", 0.02)
    monkeypatch.setattr(lend, "_answers", lambda host, door: True)
    monkeypatch.setattr(Lending, "_started", start)
    peer = Peers().add(certificate_of(tmp_path / "one"), "one", "")
    device = LentDevice(gpu="", title="CPU", free_bytes=1)
    about = {"folder": tmp_path / "lent", "devices": (device,)}
    with Lending(own_door(), lambda: ("10.0.0.1:1",), **about):
        until(lambda: started, 10)
        if change == "forget":
            Peers().forget(peer.fingerprint)
        else:
            Peers().add(certificate_of(tmp_path / "two"), "two", "")
        until(lambda: len(started) == 2, 10)
        assert started[0].words == ["ended"]
    assert [one.words for one in started] == [["ended"], ["ended"]]
