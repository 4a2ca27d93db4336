import sys
from pathlib import Path

import pytest

from tests.trials.packaging import defender

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


def test_a_threat_is_found_and_a_failed_scan_is_not_a_clean_result(scanner, tmp_path, capsys):
    payload = tmp_path / "payload"
    payload.mkdir()
    (payload / "upreel.exe").write_bytes(b"MZ")
    assert defender.main([str(payload)]) == defender.NO_SCAN, "without a scanner"
    for script, status in (
        (REPORTS, defender.CLEAN),
        ('case "$5" in *test-file.com) rm "$5"; exit 1;; esac', defender.CLEAN),  # removes it
        ("exit 0", defender.NO_SCAN),  # excludes the folder
        ("echo 'Failed with hr = 0x800106ba'; exit 1", defender.NO_SCAN),  # is off
        (f'case "$5" in *payload) exit 1;; *) {REPORTS};; esac', defender.NO_SCAN),  # fails later
    ):
        install(scanner, script)
        assert defender.main([str(payload)]) == status, script
    platform = tmp_path / "data" / "Microsoft" / "Windows Defender" / "Platform"
    install(platform / "4.18.2" / "MpCmdRun.exe", REPORTS)
    assert defender.main([str(payload)]) == defender.CLEAN, "the newest scanner is used"
    assert defender.main([str(tmp_path / "nothing")]) == defender.NO_SCAN
    (payload / "deep").mkdir()
    (payload / "deep" / "bad.dll").write_text(defender.TEST_FILE, encoding="ascii")
    assert defender.main([str(payload)]) == defender.THREAT
    assert "found 1 threat" in capsys.readouterr().err


def test_our_own_files_do_not_contain_the_test_file():
    texts = [
        path.read_text("utf-8") for path in (ROOT / "tests" / "trials" / "packaging").glob("*.py")
    ]
    assert defender.TEST_FILE.startswith("X5O!P%@AP")
    assert len(defender.TEST_FILE) == 68
    assert not any(defender.TEST_FILE in text for text in texts)
