"""Have Windows Defender scan files; only on Windows.

    python -m tests.packaging.defender FILE_OR_FOLDER...

First it must find the harmless file that all virus scanners agree to report, so that a scanner that
is switched off, or told to look away, is not taken for a clean result. Nothing is removed.

Exit status: 0 nothing was found; 1 a threat was found; 3 Defender does not scan here.
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
_CLEAN, _FOUND = 0, 2  # exit status of MpCmdRun; others: it could not scan
_LIMIT_S = 1800

# In two halves: a scanner shall not report this file.
TEST_FILE = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD" + "-ANTIVIRUS-TEST-FILE!$H+H*"


class NoScan(Exception):
    """Defender is not there or does not look."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Scan; the exit status."""
    parser = argparse.ArgumentParser(description="Have Windows Defender scan files.")
    parser.add_argument("places", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    args = parser.parse_args(arguments)
    try:
        scanner = find_scanner()
        must_find_test_file(scanner)
        for place in args.places:
            status, said = scan(scanner, place.resolve(strict=True))
            if status == _FOUND:
                print(f"Defender found something in {place}:\n{said}", file=sys.stderr)
                return THREAT
            if status != _CLEAN:
                raise NoScan(f"status {status} for {place}:\n{said}")
            print(f"clean: {place}")
    except (NoScan, OSError) as err:
        print(f"not scanned: {err}", file=sys.stderr)
        return NO_SCAN
    return CLEAN


def find_scanner() -> Path:
    """The newest MpCmdRun: updates of Defender bring one of their own.

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
    raise NoScan("there is no MpCmdRun.exe")


def must_find_test_file(scanner: Path) -> None:
    """Scan the file that has to be reported.

    Raises:
        NoScan: It is not.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder, "test-file.com")
        path.write_text(TEST_FILE, encoding="ascii")
        status, said = scan(scanner, path)
        taken_away = not path.exists()  # by a Defender that also watches files being written
    if status != _FOUND and not taken_away:
        raise NoScan(f"the test file is not reported, status {status}:\n{said}")


def scan(scanner: Path, place: Path) -> tuple[int, str]:
    """Scan a file or folder; exit status and words of the scanner.

    Raises:
        NoScan: It takes too long.
    """
    command: list[str | Path] = [
        scanner,
        "-Scan",
        "-ScanType",
        "3",
        "-File",
        place,
        "-DisableRemediation",
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as err:
        raise NoScan(f"{place} takes longer than {_LIMIT_S} s") from err
    return done.returncode, (done.stdout + done.stderr).strip()


if __name__ == "__main__":
    sys.exit(main())
