"""Scans by Windows Defender, with fake scanners."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.packaging import defender

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the fakes are shell scripts")

REPORTS = 'grep -rq "EICAR-STANDARD-ANTIVIRUS" "$5" && { echo "found 1 threat"; exit 2; }; exit 0'


@pytest.fixture
def scanner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of Windows' scanner."""
    monkeypatch.setenv("PROGRAMDATA", str(tmp_path / "data"))
    monkeypatch.setenv("PROGRAMFILES", str(tmp_path / "programs"))
    path = tmp_path / "programs" / "Windows Defender" / "MpCmdRun.exe"
    path.parent.mkdir(parents=True)
    return path


def install(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    path = tmp_path / "payload"
    path.mkdir()
    (path / "upreel.exe").write_bytes(b"MZ")
    return path


def test_a_clean_result(scanner: Path, payload: Path) -> None:
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
    "script",
    [
        "exit 0",  # excludes the folder
        "echo 'Failed with hr = 0x800106ba'; exit 1",  # is off
        f'case "$5" in *payload) exit 1;; *) {REPORTS};; esac',  # fails in the middle
    ],
)
def test_a_failed_scan_is_not_a_clean_result(scanner: Path, payload: Path, script: str) -> None:
    install(scanner, script)
    assert defender.main([str(payload)]) == defender.NO_SCAN


def test_a_scanner_that_removes_the_test_file_works(scanner: Path, payload: Path) -> None:
    install(scanner, 'case "$5" in *test-file.com) rm "$5"; exit 1;; esac')
    assert defender.main([str(payload)]) == defender.CLEAN


def test_a_missing_scanner(scanner: Path, payload: Path) -> None:
    assert defender.main([str(payload)]) == defender.NO_SCAN


def test_a_missing_path(scanner: Path, tmp_path: Path) -> None:
    install(scanner, REPORTS)
    assert defender.main([str(tmp_path / "nothing")]) == defender.NO_SCAN


def test_the_newest_scanner_is_used(scanner: Path, tmp_path: Path, payload: Path) -> None:
    install(scanner, "exit 1")
    platform = tmp_path / "data" / "Microsoft" / "Windows Defender" / "Platform"
    install(platform / "4.18.2" / "MpCmdRun.exe", REPORTS)
    assert defender.main([str(payload)]) == defender.CLEAN


def test_our_own_files_do_not_contain_the_test_file() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "tests" / "packaging").glob("*.py")]
    assert defender.TEST_FILE.startswith("X5O!P%@AP")
    assert len(defender.TEST_FILE) == 68
    assert not any(defender.TEST_FILE in text for text in texts)
