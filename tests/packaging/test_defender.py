"""Our use of Windows Defender, with stand-ins for its scanner."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.packaging import defender

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")

REPORTS = 'grep -rq "EICAR-STANDARD-ANTIVIRUS" "$5" && { echo "found 1 threat"; exit 2; }; exit 0'


@pytest.fixture
def scanner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Windows has its scanner."""
    monkeypatch.setenv("PROGRAMDATA", str(tmp_path / "data"))
    monkeypatch.setenv("PROGRAMFILES", str(tmp_path / "programs"))
    path = tmp_path / "programs" / "Windows Defender" / "MpCmdRun.exe"
    path.parent.mkdir(parents=True)
    return path


def install(path: Path, words: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{words}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    path = tmp_path / "payload"
    path.mkdir()
    (path / "upreel.exe").write_bytes(b"MZ")
    return path


def test_nothing_is_found(scanner: Path, payload: Path) -> None:
    install(scanner, REPORTS)
    assert defender.main([str(payload)]) == defender.CLEAN


def test_a_threat_is_found(
    scanner: Path, payload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(scanner, REPORTS)
    (payload / "deep").mkdir()
    (payload / "deep" / "bad.dll").write_text(defender.TEST_FILE, encoding="ascii")
    assert defender.main([str(payload)]) == defender.THREAT
    assert "found 1 threat" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "exit 0",  # looks away
        "echo 'Failed with hr = 0x800106ba'; exit 1",  # is switched off
        f'case "$5" in *payload) exit 1;; *) {REPORTS};; esac',  # ends in the middle
    ],
)
def test_no_scan_is_no_clean_result(scanner: Path, payload: Path, words: str) -> None:
    install(scanner, words)
    assert defender.main([str(payload)]) == defender.NO_SCAN


def test_one_that_takes_new_files_away_does_look(scanner: Path, payload: Path) -> None:
    install(scanner, 'case "$5" in *test-file.com) rm "$5"; exit 1;; esac')
    assert defender.main([str(payload)]) == defender.CLEAN


def test_no_defender(scanner: Path, payload: Path) -> None:
    assert defender.main([str(payload)]) == defender.NO_SCAN


def test_a_place_that_is_not_there(scanner: Path, tmp_path: Path) -> None:
    install(scanner, REPORTS)
    assert defender.main([str(tmp_path / "nothing")]) == defender.NO_SCAN


def test_the_newest_scanner_is_taken(scanner: Path, tmp_path: Path, payload: Path) -> None:
    install(scanner, "exit 1")
    platform = tmp_path / "data" / "Microsoft" / "Windows Defender" / "Platform"
    install(platform / "4.18.2" / "MpCmdRun.exe", REPORTS)
    assert defender.main([str(payload)]) == defender.CLEAN


def test_our_own_files_are_not_reported() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "installer").glob("*.py")]
    assert defender.TEST_FILE.startswith("X5O!P%@AP")
    assert len(defender.TEST_FILE) == 68
    assert not any(defender.TEST_FILE in text for text in texts)
