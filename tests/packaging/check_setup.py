"""Try Upreel's setup under Wine: install, upgrade, refuse, uninstall, sign.

    python -m tests.packaging.check_setup                   of small stand-in programs
    python -m tests.packaging.check_setup --payload DIR     of the real program, packed for Windows
    python -m tests.packaging.check_setup --payload DIR --clip FILM --keep

Prints a line for each step with its seconds; the exit status is 0 when all went as it should.
Needs Debian's nsis, wine, wine64, gcc-mingw-w64-x86-64 and osslsigncode, which are installed when
they are missing and this is root; with Xvfb the window of a running program is closed, too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from installer import sign, wine_shims
from installer.build_setup import BuildError
from installer.setup_parts import PayloadError
from installer.windows_python import CannotAssemble
from installer.wine import Wine, WineMissing, install_missing
from tests.packaging import setup_trial
from tests.packaging.setup_steps import steps
from tests.packaging.setup_trial import Failed, Trial

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("nsis", "wine", "wine64", "gcc-mingw-w64-x86-64", "osslsigncode")
_FAULTS = (
    *(Failed, BuildError, PayloadError, WineMissing, CannotAssemble, sign.SignError),
    *(OSError, subprocess.SubprocessError),
)
_CLIP = ROOT / "resources" / "samples" / "upreel_sample.mp4"


@contextmanager
def screen() -> Iterator[str]:
    """An X server for the time; its name, or "" where there is no Xvfb."""
    program = shutil.which("Xvfb")
    if program is None:
        yield ""
        return
    reader, writer = os.pipe()
    words = [program, "-displayfd", str(writer), "-screen", "0", "800x600x24", "-nolisten", "tcp"]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(words, pass_fds=(writer,), stdout=quiet, stderr=quiet)
    os.close(writer)
    with os.fdopen(reader) as said:
        number = said.readline().strip()
    try:
        yield f":{number}" if number else ""
    finally:
        child.terminate()
        child.wait()


def check(args: argparse.Namespace, work: Path) -> None:
    """Build, then do all steps.

    Raises:
        Failed: The setup did something else than it should.
    """
    install_missing([] if os.geteuid() else PACKAGES)
    started = time.monotonic()
    setups = setup_trial.make_setups(work, args.payload, is_fast=args.fast or not args.payload)
    print(f"{time.monotonic() - started:6.1f} s  setups of two versions", flush=True)
    clip = args.clip if args.payload else None
    with screen() as display:
        started = time.monotonic()
        wine = Wine(work / "prefix")
        if args.payload:
            wine_shims.install(wine)
        print(f"{time.monotonic() - started:6.1f} s  a Windows to try them in", flush=True)
        try:
            trial = Trial(wine, setups, display)
            for title, step in steps(clip):
                started = time.monotonic()
                step(trial)
                print(f"{time.monotonic() - started:6.1f} s  {title}", flush=True)
        except Failed as err:
            raise Failed(f"{title}: {err}") from err
        finally:
            wine.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the words and check; the exit status."""
    parser = argparse.ArgumentParser(description="Try Upreel's setup under Wine.")
    parser.add_argument("--payload", type=Path, metavar="DIR", help="the real packed program")
    parser.add_argument("--fast", action="store_true", help="compress it quickly: 1 minute, not 5")
    parser.add_argument("--clip", type=Path, default=_CLIP, metavar="FILM", help="film to upscale")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where to work, and keep it")
    parser.add_argument("--keep", action="store_true", help="keep what was made")
    args = parser.parse_args(arguments)
    work = (args.work or Path(tempfile.mkdtemp(prefix="upreel-setup-"))).resolve()
    begin = time.monotonic()
    try:
        check(args, work)
    except _FAULTS as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    finally:
        if args.keep or args.work:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    print(f"all as it should be, {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
