import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.farm.discovery import Announced, Browser, announced
from engine.farm.errors import MachineUnreachable
from tests.helpers.farm import computer, identity_of

HERE = ["127.0.0.1"]


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "nothing was found"
        time.sleep(0.02)


def test_a_computer_is_found_while_it_announces_itself(tmp_path: Path) -> None:
    other = identity_of(tmp_path / "other")
    with Browser(HERE) as browser, announced(jobs_port=1, interfaces=HERE):
        with computer(tmp_path / "other"):
            announcing = announced(pairing_port=47111, jobs_port=47110, interfaces=HERE)
            announcing.__enter__()
        wait_for(lambda: bool(browser.machines))
        assert browser.machines == (
            Announced(
                fingerprint=other.fingerprint,
                name=other.name,
                pairing_address="127.0.0.1:47111",
                jobs_address="127.0.0.1:47110",
            ),
        )
        announcing.__exit__(None, None, None)
        wait_for(lambda: not browser.machines)


def test_without_a_network_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("zeroconf.Zeroconf", refuse)
    for use in (Browser(), announced()):
        with pytest.raises(MachineUnreachable, match="Network is unreachable"), use:
            pass
