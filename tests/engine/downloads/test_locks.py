"""One at a time at each file, and who only looks disturbs nobody."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from engine.core.control import Control
from engine.core.errors import Cancelled
from engine.downloads.folder import AlreadyLocked, Locks


def test_one_at_a_time(tmp_path: Path) -> None:
    locks = Locks(tmp_path)
    with locks.held("a"):
        assert Locks(tmp_path).is_held("a")
        assert not locks.is_held("b")
        with pytest.raises(AlreadyLocked), Locks(tmp_path).held("a"):
            pass
    assert not locks.is_held("a")


def test_who_waits_can_be_stopped(tmp_path: Path) -> None:
    control = Control()
    threading.Timer(0.1, control.cancel).start()
    with (
        Locks(tmp_path).held("a"),
        pytest.raises(Cancelled),
        Locks(tmp_path).held("a", wait=control),
    ):
        pass


def test_many_who_look_do_not_see_each_other(tmp_path: Path) -> None:
    with Locks(tmp_path).held("a"):
        pass
    seen: list[bool] = []

    def look() -> None:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            seen.append(Locks(tmp_path).is_held("a"))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) > 8
    assert not any(seen)
