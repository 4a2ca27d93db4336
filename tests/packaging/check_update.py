"""Try a whole update under Wine: an installed program finds, loads and starts the next setup.

    python -m tests.packaging.check_update --payload DIR [--keep]

DIR is the program packed for Windows. A copy of it is given a throw-away key and an address on this
machine, and is installed by its own setup; the next version is a stand-in, published by a server
that cuts, lies and signs with the wrong key before it does what it should. Prints a line for each
step; the exit status is 0 when all went as it should. Needs nsis, wine, wine64,
gcc-mingw-w64-x86-64 and xvfb: a setup that shows its progress needs a screen.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine import __version__
from installer import build_setup, wine_shims
from installer.wine import Wine, WineMissing
from tests.helpers.faulty_server import Fault, faulty_server
from tests.helpers.updates import Release
from tests.packaging.check_setup import screen
from tests.packaging.setup_trial import UNINSTALL_KEY, Failed, stand_in

_NEXT = "99.1.0"
_FOLDER = "Up reel 放大"
_LIMIT_S, _SETUP_LIMIT_S = 300, 180
_FAILED = 1


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What the steps work with."""

    wine: Wine
    release: Release
    folder: Path  # where the program is installed
    display: str

    def ask(self, *words: str, status: int = 0) -> str:
        """Run the installed program; what it said.

        Raises:
            Failed: It ended with another status.
        """
        program = self.folder / "upreel-cli.exe"
        screen_of = {"DISPLAY": self.display} if self.display else {}
        done = self.wine.run(
            program,
            "update",
            *words,
            timeout=_LIMIT_S,
            environment=wine_shims.ENVIRONMENT | screen_of,
        )
        said = done.stdout + done.stderr
        if done.returncode != status:
            raise Failed(f"update {' '.join(words)}: {done.returncode}, not {status}: {said}")
        return said

    def refuses(self, verb: str, code: str) -> None:
        """It fails with this error.

        Raises:
            Failed: It does not.
        """
        said = self.ask(verb, status=_FAILED)
        _is_so(f"error[{code}]" in said, f"{verb} said {said}")

    @property
    def loaded(self) -> list[Path]:
        """What lies in the folder of updates of this user."""
        found = self.wine.drive.glob("users/*/AppData/Local/Upreel/Cache/updates/upreel-*")
        return sorted(found)

    @property
    def registered(self) -> str:
        """The version in Windows' list of programs."""
        values = self.wine.snapshot(("user.reg",)).registry
        return values.get(f"user|{UNINSTALL_KEY}|DisplayVersion", "").strip('"')


def newest(trial: Trial) -> None:
    """What is published is what is installed."""
    trial.release.publish(__version__)
    said = trial.ask("check")
    _is_so(f"Upreel {__version__} is the newest version." in said, said)


def another_key(trial: Trial) -> None:
    """Signed by somebody else, then changed."""
    from nacl.signing import SigningKey

    content = trial.release.publish(_NEXT)
    trial.release.publish_text(content, SigningKey(b"x" * 32))
    trial.refuses("install", "update-untrusted")
    trial.release.publish(_NEXT)
    trial.release.server.files["/upreel/update.json"] = content.replace(b"Faster", b"Foster")
    trial.refuses("install", "update-untrusted")
    _is_so(not trial.loaded, f"loaded all the same: {trial.loaded}")


def changed_byte(trial: Trial) -> None:
    """The setup is not the one described."""
    trial.release.publish(_NEXT)
    name = f"/upreel/upreel-{_NEXT}-setup.exe"
    good = trial.release.server.files[name]
    trial.release.server.files[name] = good[:-1] + bytes([good[-1] ^ 1])
    trial.refuses("install", "update-damaged")
    _is_so(not trial.loaded, f"it was kept: {trial.loaded}")
    trial.release.server.files[name] = good


def cut(trial: Trial) -> None:
    """A connection is cut, and another time goes on there."""
    server = trial.release.server
    server.faults = [Fault(), Fault(), Fault(cut_after=50_000), Fault(status=404)]
    trial.refuses("download", "update-unreachable")
    (part,) = trial.loaded
    _is_so(part.suffix == ".part", f"{part.name} is there")
    _is_so(part.stat().st_size == 50_000, f"{part.stat().st_size} bytes are there")
    said = json.loads(trial.ask("download", "--json").splitlines()[0])
    _is_so(said["is_ready"], f"not ready: {said}")
    _is_so(said["installed_as"] == "setup", f"it takes itself for {said['installed_as']}")
    _is_so(server.ranges[-1] == "bytes=50000-", f"asked for {server.ranges[-1]}")


def changed_on_disk(trial: Trial) -> None:
    """What was loaded is changed before it is started: it is loaded anew."""
    (setup,) = trial.loaded
    times = setup.stat()
    content = setup.read_bytes()
    setup.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(setup, ns=(times.st_atime_ns, times.st_mtime_ns))
    trial.refuses("install", "update-damaged")
    _is_so(not trial.loaded, "it is still there")
    _is_so((trial.folder / "upreel-cli.exe").stat().st_size > 2**20, "the program was replaced")


def installs(trial: Trial) -> None:
    """It is loaded, started, waits for the program to end, and takes its place."""
    said = trial.ask("install")
    _is_so(f"upreel-{_NEXT}-setup.exe is started" in said, said)
    until = time.monotonic() + _SETUP_LIMIT_S
    while trial.registered != _NEXT:
        _is_so(time.monotonic() < until, f"after {_SETUP_LIMIT_S} s it is {trial.registered}")
    _is_so((trial.folder / f"_internal/library-{_NEXT}.dll").is_file(), "new files are not there")
    _is_so(not (trial.folder / "_internal/resources").exists(), "old files are still there")
    done = trial.wine.run(trial.folder / "upreel-cli.exe")
    _is_so(done.stdout.strip() == _NEXT, f"the new program says {done.stdout!r}")


STEPS: tuple[tuple[str, Callable[[Trial], None]], ...] = (
    ("an equal version is not offered", newest),
    ("another key, a changed description: refused", another_key),
    ("a changed setup: refused and deleted", changed_byte),
    ("a cut download goes on where it ended", cut),
    ("changed on the disk: not started", changed_on_disk),
    ("loads, starts the setup, which takes its place", installs),
)


def install_old(wine: Wine, payload: Path, release: Release, work: Path, display: str) -> Path:
    """Install the payload as a release that knows this server; its folder.

    Raises:
        Failed: The setup did not.
    """
    copy = work / "payload"
    shutil.copytree(payload, copy, copy_function=os.link)
    known = copy / "_internal" / "resources" / "update.toml"
    known.unlink()  # a link to the payload's own
    release.build(known.parent)
    order = build_setup.Order(payload=copy, out=work / "old", version=__version__, is_fast=True)
    order.out.mkdir()
    build_setup.make_setup(order)
    folder = wine.drive / _FOLDER
    done = wine.run(
        order.setup, "/S", f"/DIR={wine.path(folder)}", environment={"DISPLAY": display}
    )
    if done.returncode:
        raise Failed(f"the first setup ended with {done.returncode}")
    return folder


def check(payload: Path, work: Path) -> None:
    """All steps.

    Raises:
        Failed: Something is not as it should be.
    """
    order = build_setup.Order(
        payload=stand_in(work / "new", _NEXT), out=work, version=_NEXT, is_fast=True
    )
    build_setup.make_setup(order)
    with screen() as display, faulty_server() as server:
        if not display:
            raise Failed("there is no Xvfb")
        wine = Wine(work / "prefix")
        wine_shims.install(wine)
        wine.settle()  # what was started without a screen stays without
        try:
            release = Release(server, setup=order.setup.read_bytes())
            folder = _timed(
                "the older version is installed",
                lambda: install_old(wine, payload, release, work, display),
            )
            trial = Trial(wine=wine, release=release, folder=folder, display=display)
            for name, step in STEPS:
                _timed(name, lambda step=step: step(trial))
        finally:
            wine.close()


def _timed(name: str, do: Callable[[], Path | None]) -> Path:
    started = time.monotonic()
    found = do()
    print(f"{time.monotonic() - started:6.1f} s  {name}", flush=True)
    return found or Path()


def _is_so(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do all; the exit status."""
    parser = argparse.ArgumentParser(description="Try a whole update under Wine.")
    parser.add_argument("--payload", type=Path, required=True, metavar="DIR", help="packed program")
    parser.add_argument("--keep", action="store_true", help="leave the folder of the trial")
    args = parser.parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="upreel-update-"))
    try:
        check(args.payload.resolve(), work)
    except (
        Failed,
        WineMissing,
        build_setup.BuildError,
        OSError,
        subprocess.SubprocessError,
    ) as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    finally:
        if args.keep:
            print(f"left in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
