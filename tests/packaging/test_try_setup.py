"""The trial of a setup on Windows, with a stand-in for the setup and the registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging import try_setup
from tests.packaging.try_setup import Failed, Places


class Machine:
    """A Windows on which a setup does as it is told to."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.keys: dict[str, dict[str, object]] = {}
        self.version = "1.2.3"
        self.content = True  # of the program's own test
        self.left: list[Path] = []
        self.ran: list[str] = []

    def registered(self, key: str) -> dict[str, object] | None:
        return self.keys.get(key)

    def run(self, command: list[str | Path] | str) -> None:
        words = command if isinstance(command, str) else " ".join(map(str, command))
        self.ran.append(words)
        folder = self.places.folder
        if "-setup.exe" in words:
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("upreel.exe", "upreel-cli.exe"):
                (folder / name).touch()
            self.places.data.mkdir(exist_ok=True)
            self.keys[try_setup.UNINSTALL_KEY] = {
                "DisplayVersion": self.version,
                "EstimatedSize": 5,
                "QuietUninstallString": f'"{folder / "uninstall.exe"}" /S',
            }
        elif "--smoke-test" in words:
            said = {"ok": self.content, "problems": ["no window"]}
            (self.places.work / "result.json").write_text(json.dumps(said), encoding="utf-8")
        elif "uninstall.exe" in words:
            self.keys.clear()
            for path in [*folder.iterdir(), folder, self.places.data]:
                if path not in self.left and path.exists():
                    path.unlink() if path.is_file() else path.rmdir()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("LOCALAPPDATA", "APPDATA"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    found = Machine(Places(tmp_path / "LOCALAPPDATA" / "Programs" / "Upreel 试", tmp_path))
    monkeypatch.setattr(try_setup, "registered", found.registered)
    monkeypatch.setattr(try_setup, "run", found.run)
    monkeypatch.setattr(try_setup, "_GONE_LIMIT_S", 0)
    return found


def try_all(machine: Machine) -> None:
    older, setup = Path("upreel-1.2.2-setup.exe"), Path("upreel-1.2.3-setup.exe")
    for _, step in try_setup.steps(machine.places, setup):
        step()
    assert try_setup.steps(machine.places, setup, older)[0][0] == "the older version"


def test_all_as_it_should_be(machine: Machine) -> None:
    assert machine.places.ours() == []
    try_all(machine)
    assert machine.places.ours() == []
    assert f"/S /DIR={machine.places.folder}" in machine.ran[0]
    assert machine.ran[-1].endswith('uninstall.exe" /S /PURGE')


def leave_data(machine: Machine) -> None:
    machine.left.append(machine.places.data)


def say_another_version(machine: Machine) -> None:
    machine.version = "1.2.2"


def be_broken(machine: Machine) -> None:
    machine.content = False


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (leave_data, "left behind: .*Upreel"),
        (say_another_version, r"version 1\.2\.2 of upreel-1\.2\.3"),
        (be_broken, "no window"),
    ],
)
def test_a_fault_is_found(machine: Machine, fault: Callable[[Machine], None], says: str) -> None:
    fault(machine)
    with pytest.raises(Failed, match=says):
        try_all(machine)


@pytest.mark.parametrize("bad", ["", "upreel-1.2.3-setup.exe", "upreel.exe", "uninstall.exe"])
def test_windows_has_to_take_every_signature(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    def status(path: Path) -> str:
        return "NotTrusted" if path.name == bad else "Valid"

    monkeypatch.setattr(try_setup, "signature_status", status)
    steps = dict(try_setup.steps(machine.places, Path("upreel-1.2.3-setup.exe"), is_signed=True))
    if not bad:
        steps["signed"]()
        return
    with pytest.raises(Failed, match=f"signature of {bad} is: NotTrusted"):
        steps["signed"]()


def test_links_and_keys_of_ours_are_seen(machine: Machine) -> None:
    machine.places.menu.mkdir(parents=True)
    (machine.places.menu / "Upreel.lnk").touch()
    (machine.places.menu / "Another.lnk").touch()
    machine.keys[try_setup.OUR_KEYS[1]] = {}
    found = machine.places.ours()
    assert len(found) == 2
    assert found[0].endswith("Upreel.lnk")
    assert "Applications" in found[1]


def test_it_is_not_for_other_systems(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(try_setup.sys, "platform", "linux")
    with pytest.raises(SystemExit):
        try_setup.main(["upreel-1.2.3-setup.exe"])
    assert "check_setup.py" in capsys.readouterr().err


def test_where_there_is_one_nothing_is_touched(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(try_setup.sys, "platform", "win32")
    machine.places.data.mkdir()
    assert try_setup.main(["upreel-1.2.3-setup.exe"]) == 1
    assert "not touched" in capsys.readouterr().err
    assert machine.ran == []
