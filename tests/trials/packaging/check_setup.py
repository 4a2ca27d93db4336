"""Tries Upreel's setup under Wine: install, upgrade, refuse, uninstall, sign.

    python -m tests.trials.packaging.check_setup                  with stub programs
    python -m tests.trials.packaging.check_setup --payload DIR    with the packed program
    python -m tests.trials.packaging.check_setup --payload DIR --clip FILM --keep

Prints each step with its seconds; the exit status is 0 if all passed. Needs Debian's nsis, wine,
wine64, gcc-mingw-w64-x86-64 and osslsigncode, which root installs if they are missing. With Xvfb
the trial also closes the window of a running program.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from installer.project import PackagingError
from installer.sign import SignError
from tests.trials.packaging import setup_trial
from tests.trials.packaging.setup_scenario import steps
from tests.trials.packaging.setup_trial import SetupTrial
from tests.trials.packaging.trial import SAMPLE, TrialFailed, run_step
from tools.windows_build.wine import PACKAGES, Wine, WineMissing, install_missing

_DEBIAN = ("nsis", "osslsigncode", *PACKAGES)
_FAILURES = (
    *(TrialFailed, PackagingError, WineMissing, SignError),
    *(OSError, subprocess.SubprocessError),
)


def check(args: argparse.Namespace, work: Path) -> None:
    """Make the setups, then run all steps.

    Raises:
        TrialFailed: A step failed.
    """
    install_missing([] if os.geteuid() else _DEBIAN)
    started = time.monotonic()
    setups = setup_trial.make_setups(work, args.payload, is_fast=args.fast or not args.payload)
    print(f"{time.monotonic() - started:6.1f} s  setups of two versions", flush=True)
    with setup_trial.x_server() as display:
        started = time.monotonic()
        wine = Wine(work / "prefix")
        print(f"{time.monotonic() - started:6.1f} s  Wine prefix", flush=True)
        try:
            trial = SetupTrial(wine, setups, display)
            for title, step in steps(args.clip if args.payload else None):
                run_step(title, partial(step, trial))
        finally:
            wine.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments and run the trial; the exit status."""
    parser = argparse.ArgumentParser(description="Try Upreel's setup under Wine.")
    parser.add_argument("--payload", type=Path, metavar="DIR", help="the real packed program")
    parser.add_argument("--fast", action="store_true", help="compress it fast: 1 minute, not 5")
    parser.add_argument("--clip", type=Path, default=SAMPLE, metavar="FILM", help="film to upscale")
    parser.add_argument("--work", type=Path, metavar="DIR", help="folder of all files, kept")
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    args = parser.parse_args(arguments)
    work = (args.work or Path(tempfile.mkdtemp(prefix="upreel-setup-"))).resolve()
    begin = time.monotonic()
    try:
        check(args, work)
    except _FAILURES as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    finally:
        if args.keep or args.work:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    print(f"all passed, {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
