import time
from collections.abc import Callable
from pathlib import Path

import pytest
from zeroconf import IPVersion, ServiceInfo, Zeroconf

from engine.farm.discovery import (
    _MOST_ASKED,
    _MOST_FOUND,
    _MOST_OF_ONE,
    _TYPE,
    Announced,
    Browser,
    _read,
    announced,
)
from engine.farm.errors import MachineUnreachable
from engine.farm.identity import Peers
from tests.helpers.farm import certificate_of, computer, identity_of

HERE = ["127.0.0.1"]


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "nothing was found"
        time.sleep(0.02)


@pytest.mark.usefixtures("quick_announcements")
def test_a_computer_is_found_while_it_announces_itself(tmp_path: Path) -> None:
    other = identity_of(tmp_path / "other")
    with Browser(HERE) as browser, announced(jobs_port=1, interfaces=HERE):
        with computer(tmp_path / "other"):
            announcing = announced(pairing_port=47111, jobs_port=47110, interfaces=HERE)
            announcing.__enter__()
        found = Announced(
            fingerprint=other.fingerprint,
            name=other.name,
            pairing_address="127.0.0.1:47111",
            jobs_addresses=("127.0.0.1:47110",),
        )
        wait_for(lambda: found in browser.machines)  # others may announce themselves meanwhile
        announcing.__exit__(None, None, None)
        wait_for(lambda: found not in browser.machines)


def announcement(key: str, fingerprint: str, port: int = 1) -> ServiceInfo:
    return ServiceInfo(
        _TYPE,
        f"{key}.{_TYPE}",
        properties={"name": "PC", "fingerprint": fingerprint, "jobs": str(port), "pairing": "0"},
        parsed_addresses=["10.0.0.1", "10.0.0.2"],
        server=f"{key}.local.",
    )


def test_an_announcement_adds_addresses_and_replaces_none(tmp_path: Path) -> None:
    """Also one with the name of another one, and one that many others came before."""
    paired, browser = Peers().add(certificate_of(tmp_path), "PC", "").fingerprint, Browser()
    browser._own = ""

    def hear(*infos: ServiceInfo) -> None:
        for info in infos:
            browser._keep(info.name, _read(info))

    hear(*(announcement(f"x{at}", f"{at:064x}") for at in range(_MOST_FOUND + 10)))
    assert len(browser.machines) == _MOST_FOUND
    hear(announcement("a", paired, 7), announcement("b", paired, 8), announcement("a", paired, 9))
    addresses = [one.jobs_addresses for one in browser.machines if one.fingerprint == paired]
    assert addresses == [(f"10.0.0.1:{port}", f"10.0.0.2:{port}") for port in (7, 8, 9)]
    hear(*(announcement("a", paired, port) for port in range(10, 30)))
    assert len(browser.machines) == _MOST_FOUND + _MOST_OF_ONE


def test_an_announcement_without_an_address_holds_up_no_other_one() -> None:
    with Browser(HERE) as browser, Zeroconf(interfaces=HERE, ip_version=IPVersion.V4Only) as own:
        begun = time.monotonic()
        for at in range(_MOST_ASKED + 2):
            browser.add_service(own, _TYPE, f"silent{at}.{_TYPE}")
        assert time.monotonic() - begun < 2, "seconds; each may take three to answer"
        wait_for(lambda: len(browser._asked) == _MOST_ASKED)
        browser.remove_service(own, _TYPE, f"silent9.{_TYPE}")
        assert len(browser._asked) == _MOST_ASKED - 1


def test_without_a_network_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("zeroconf.Zeroconf", refuse)
    for use in (Browser(), announced()):
        with pytest.raises(MachineUnreachable, match="Network is unreachable"), use:
            pass
