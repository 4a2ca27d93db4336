"""The trial of a setup on Windows, with a fake setup and a fake registry."""

import json
from pathlib import Path

import pytest

from tests.trials.packaging import try_setup
from tests.trials.packaging.trial import UNINSTALL_KEY, TrialFailed
from tests.trials.packaging.try_setup import TrialFolders


class FakeWindows:
    """A Windows with a setup that can be made faulty."""

    def __init__(self, folders: TrialFolders) -> None:
        self.folders = folders
        self.keys: dict[str, dict[str, object]] = {}
        self.version = "1.2.3"
        self.is_ok = True  # the smoke test
        self.left: list[Path] = []
        self.ran: list[str] = []

    def registered(self, key: str) -> dict[str, object] | None:
        return self.keys.get(key)

    def run(self, command: list[str | Path] | str) -> None:
        text = command if isinstance(command, str) else " ".join(map(str, command))
        self.ran.append(text)
        folder = self.folders.folder
        if "-setup.exe" in text:
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("upreel.exe", "upreel-cli.exe"):
                (folder / name).touch()
            self.folders.data.mkdir(exist_ok=True)
            self.keys[UNINSTALL_KEY] = {
                "DisplayVersion": self.version,
                "EstimatedSize": 5,
                "QuietUninstallString": f'"{folder / "uninstall.exe"}" /S',
            }
        elif "--smoke-test" in text:
            result = {"ok": self.is_ok, "problems": ["no window"]}
            (self.folders.work / "result.json").write_text(json.dumps(result), encoding="utf-8")
        elif "uninstall.exe" in text:
            self.keys.clear()
            for path in [*folder.iterdir(), folder, self.folders.data]:
                if path not in self.left and path.exists():
                    path.unlink() if path.is_file() else path.rmdir()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeWindows:
    for name in ("LOCALAPPDATA", "APPDATA"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    found = FakeWindows(
        TrialFolders(tmp_path / "LOCALAPPDATA" / "Programs" / "Upreel 试", tmp_path)
    )
    monkeypatch.setattr(try_setup, "registered", found.registered)
    monkeypatch.setattr(try_setup, "run", found.run)
    monkeypatch.setattr(try_setup, "_UNINSTALL_LIMIT_S", 0)
    return found


def try_all(machine: FakeWindows) -> None:
    older, setup = Path("upreel-1.2.2-setup.exe"), Path("upreel-1.2.3-setup.exe")
    for _, step in try_setup.steps(machine.folders, setup):
        step()
    assert try_setup.steps(machine.folders, setup, older)[0][0] == "older version installed"


def test_all_steps_pass(machine):
    assert machine.folders.traces() == []
    try_all(machine)
    assert machine.folders.traces() == []
    assert f"/S /DIR={machine.folders.folder}" in machine.ran[0]
    assert machine.ran[-1].endswith('uninstall.exe" /S /PURGE')


@pytest.mark.parametrize("fault", ["left: .*Upreel", r"version 1\.2\.2 of", "no window"])
def test_a_fault_fails(machine, fault):
    if fault.startswith("left"):
        machine.left.append(machine.folders.data)
    machine.version = "1.2.2" if fault.startswith("version") else "1.2.3"
    machine.is_ok = fault != "no window"  # after the smoke test
    with pytest.raises(TrialFailed, match=fault):
        try_all(machine)


def test_every_signature_must_be_valid(machine, monkeypatch):
    setup, bad = Path("upreel-1.2.3-setup.exe"), {""}
    check = dict(try_setup.steps(machine.folders, setup, is_signed=True))["signatures"]
    monkeypatch.setattr(
        try_setup, "signature_status", lambda path: "NotTrusted" if path.name in bad else "Valid"
    )
    check()
    for name in (setup.name, "upreel.exe", "uninstall.exe"):
        bad = {name}
        with pytest.raises(TrialFailed, match=f"signature of {name} is: NotTrusted"):
            check()


def test_links_and_keys_are_traces(machine):
    machine.folders.menu.mkdir(parents=True)
    (machine.folders.menu / "Upreel.lnk").touch()
    (machine.folders.menu / "Another.lnk").touch()
    machine.keys[try_setup.REGISTRY_KEYS[1]] = {}
    found = machine.folders.traces()
    assert len(found) == 2
    assert found[0].endswith("Upreel.lnk")
    assert "Applications" in found[1]


def test_it_runs_on_windows_only_and_touches_no_installed_program(machine, monkeypatch, capsys):
    monkeypatch.setattr(try_setup.sys, "platform", "linux")
    with pytest.raises(SystemExit):
        try_setup.main(["upreel-1.2.3-setup.exe"])
    assert "check_setup.py" in capsys.readouterr().err
    monkeypatch.setattr(try_setup.sys, "platform", "win32")
    machine.folders.data.mkdir()
    assert try_setup.main(["upreel-1.2.3-setup.exe"]) == 1
    assert "not started" in capsys.readouterr().err
    assert machine.ran == []
