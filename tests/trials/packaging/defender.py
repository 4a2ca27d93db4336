"""Scans files with Windows Defender; only on Windows.

    python -m tests.trials.packaging.defender FILE_OR_FOLDER...

Defender first has to report the harmless test file that all virus scanners detect, so that a
scanner that is off, or excludes the folder, does not pass for a clean result. Nothing is removed.

Exit status: 0 no threat; 1 a threat was found; 3 Defender does not scan here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

CLEAN, THREAT, NO_SCAN = 0, 1, 3
_CLEAN, _FOUND = 0, 2  # exit statuses of MpCmdRun; others: the scan failed
_LIMIT_S = 1800

# In two halves, so that scanners do not report this file.
TEST_FILE = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD" + "-ANTIVIRUS-TEST-FILE!$H+H*"


class NoScan(Exception):
    """Defender is missing or does not scan."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Scan; the exit status."""
    parser = argparse.ArgumentParser(description="Scan files with Windows Defender.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    args = parser.parse_args(arguments)
    try:
        scanner = find_scanner()
        check_scanner(scanner)
        for path in args.paths:
            status, output = scan(scanner, path.resolve(strict=True))
            if status == _FOUND:
                print(f"Defender found a threat in {path}:\n{output}", file=sys.stderr)
                return THREAT
            if status != _CLEAN:
                raise NoScan(f"status {status} for {path}:\n{output}")
            print(f"clean: {path}")
    except (NoScan, OSError) as err:
        print(f"not scanned: {err}", file=sys.stderr)
        return NO_SCAN
    return CLEAN


def find_scanner() -> Path:
    """The newest MpCmdRun: updates of Defender install their own.

    Raises:
        NoScan: There is none.
    """
    data = os.environ.get("PROGRAMDATA", "")
    programs = os.environ.get("PROGRAMFILES", "")
    platform = Path(data, "Microsoft", "Windows Defender", "Platform")
    updated = sorted(platform.glob("*/MpCmdRun.exe"), key=lambda path: path.stat().st_mtime)
    built_in = Path(programs, "Windows Defender", "MpCmdRun.exe")
    for path in [*reversed(updated), built_in]:
        if path.is_file():
            return path
    raise NoScan("MpCmdRun.exe does not exist")


def check_scanner(scanner: Path) -> None:
    """Scan the test file, which Defender has to report.

    Raises:
        NoScan: It does not.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder, "test-file.com")
        path.write_text(TEST_FILE, encoding="ascii")
        status, output = scan(scanner, path)
        is_removed = not path.exists()  # by Defender's real-time protection
    if status != _FOUND and not is_removed:
        raise NoScan(f"the test file is not reported, status {status}:\n{output}")


def scan(scanner: Path, path: Path) -> tuple[int, str]:
    """Scan a file or folder; exit status and output of the scanner.

    Raises:
        NoScan: It takes too long.
    """
    options = ("-Scan", "-ScanType", "3", "-File", path, "-DisableRemediation")
    command: list[str | Path] = [scanner, *options]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as err:
        raise NoScan(f"{path} takes longer than {_LIMIT_S} s") from err
    return done.returncode, (done.stdout + done.stderr).strip()


if __name__ == "__main__":
    sys.exit(main())
