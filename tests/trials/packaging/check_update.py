"""Tries a whole update under Wine: an installed program downloads and starts the next setup.

    python -m tests.trials.packaging.check_update --payload DIR [--keep]

DIR is the program packed for Windows. A copy of it gets a test key and an address on this machine,
and is installed by its own setup; the next version is a stub, published by a server that first cuts
connections, sends wrong bytes and signs with a wrong key. Prints each step; the exit status is 0 if
all passed. Needs nsis, wine, wine64, gcc-mingw-w64-x86-64 and xvfb: a setup that shows its progress
needs a screen.
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
from functools import partial
from pathlib import Path

from engine import __version__
from installer.build_setup import SetupOptions, make_setup
from installer.project import PackagingError
from tests.helpers.servers import Fault, Release, faulty_server
from tests.trials.packaging.setup_trial import make_stub, x_server
from tests.trials.packaging.trial import UNINSTALL_KEY, TrialFailed, expect, run_step
from tools.windows_build.wine import Wine, WineMissing

_NEXT = "99.1.0"
_FOLDER = "Up reel 放大"
_LIMIT_S, _SETUP_LIMIT_S = 300, 180
_FAILED = 1


@dataclass(frozen=True, kw_only=True)
class UpdateTrial:
    """An installed program and the server that publishes its updates."""

    wine: Wine
    release: Release
    folder: Path  # where the program is installed
    display: str

    def run(self, *arguments: str, status: int = 0) -> str:
        """Run `update` of the installed program; its output.

        Raises:
            TrialFailed: It ended with another status.
        """
        done = self.wine.run(
            self.folder / "upreel-cli.exe",
            "update",
            *arguments,
            timeout=_LIMIT_S,
            environment={"DISPLAY": self.display},
        )
        output = done.stdout + done.stderr
        command = f"update {' '.join(arguments)}"
        expect(done.returncode == status, f"{command}: {done.returncode}, not {status}: {output}")
        return output

    def expect_error(self, command: str, code: str) -> None:
        """Run a command that fails with this error.

        Raises:
            TrialFailed: It does not.
        """
        output = self.run(command, status=_FAILED)
        expect(f"error[{code}]" in output, f"{command}: {output}")

    @property
    def downloaded(self) -> list[Path]:
        """Files in this user's folder of updates."""
        found = self.wine.drive.glob("users/*/AppData/Local/Upreel/Cache/updates/upreel-*")
        return sorted(found)

    @property
    def registered(self) -> str:
        """Version in Windows' list of programs."""
        values = self.wine.snapshot(("user.reg",)).registry
        return values.get(f"user|{UNINSTALL_KEY}|DisplayVersion", "").strip('"')


def newest(trial: UpdateTrial) -> None:
    """The published version is the installed one."""
    trial.release.publish(__version__)
    output = trial.run("check")
    expect(f"Upreel {__version__} is the newest version." in output, output)


def another_key(trial: UpdateTrial) -> None:
    """Descriptions with an unknown key's signature, changed after it, and expired."""
    from nacl.signing import SigningKey

    content = trial.release.publish(_NEXT)
    trial.release.publish_text(content, SigningKey(b"x" * 32))
    trial.expect_error("install", "update-untrusted")
    trial.release.publish(_NEXT)
    trial.release.server.files["/upreel/update.json"] = content.replace(b"Faster", b"Foster")
    trial.expect_error("install", "update-untrusted")
    trial.release.publish(_NEXT, expires="2026-01-01")
    trial.expect_error("install", "update-outdated")
    expect(not trial.downloaded, f"downloaded nevertheless: {trial.downloaded}")


def changed_byte(trial: UpdateTrial) -> None:
    """A setup other than the one described."""
    trial.release.publish(_NEXT)
    name = f"/upreel/upreel-{_NEXT}-setup.exe"
    good = trial.release.server.files[name]
    trial.release.server.files[name] = good[:-1] + bytes([good[-1] ^ 1])
    trial.expect_error("install", "update-damaged")
    expect(not trial.downloaded, f"kept: {trial.downloaded}")
    trial.release.server.files[name] = good


def cut(trial: UpdateTrial) -> None:
    """A cut download, which the next one resumes."""
    server = trial.release.server
    server.faults = [Fault(), Fault(), Fault(cut_after=50_000), Fault(status=404)]
    trial.expect_error("download", "update-unreachable")
    (part,) = trial.downloaded
    expect(part.suffix == ".part", f"the file is {part.name}")
    expect(part.stat().st_size == 50_000, f"{part.stat().st_size} bytes were kept")
    state = json.loads(trial.run("download", "--json").splitlines()[0])
    expect(state["is_ready"], f"not ready: {state}")
    expect(state["installed_as"] == "setup", f"installed as {state['installed_as']}")
    expect(server.ranges[-1] == "bytes=50000-", f"requested {server.ranges[-1]}")


def changed_on_disk(trial: UpdateTrial) -> None:
    """A downloaded setup that changes before it is started."""
    (setup,) = trial.downloaded
    program = trial.folder / "upreel-cli.exe"
    about, before = setup.stat(), program.read_bytes()
    content = setup.read_bytes()
    setup.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(setup, ns=(about.st_atime_ns, about.st_mtime_ns))
    trial.expect_error("install", "update-damaged")
    expect(not trial.downloaded, "the setup was kept")
    expect(program.read_bytes() == before, "the program was replaced")


def installs(trial: UpdateTrial) -> None:
    """The setup is downloaded and started, waits for the end of the program, and replaces it."""
    output = trial.run("install")
    expect(f"upreel-{_NEXT}-setup.exe was started" in output, output)
    until = time.monotonic() + _SETUP_LIMIT_S
    while trial.registered != _NEXT:
        expect(
            time.monotonic() < until, f"after {_SETUP_LIMIT_S} s the version is {trial.registered}"
        )
    expect((trial.folder / f"_internal/library-{_NEXT}.dll").is_file(), "new files are missing")
    expect(not (trial.folder / "_internal/resources").exists(), "old files were left")
    done = trial.wine.run(trial.folder / "upreel-cli.exe")
    expect(done.stdout.strip() == _NEXT, f"the new program prints {done.stdout!r}")


STEPS: tuple[tuple[str, Callable[[UpdateTrial], None]], ...] = (
    ("an equal version is not offered", newest),
    ("another key and a changed description are refused", another_key),
    ("a changed setup is refused and deleted", changed_byte),
    ("a cut download is resumed", cut),
    ("a setup that changed on the disk is not started", changed_on_disk),
    ("downloads and starts the setup, which replaces the program", installs),
)


def install_old(wine: Wine, payload: Path, release: Release, work: Path, display: str) -> Path:
    """Install the payload as a release with the address and key of this server; its folder.

    Raises:
        TrialFailed: The setup failed.
    """
    copy = work / "payload"
    shutil.copytree(payload, copy, copy_function=os.link)
    source = copy / "_internal" / "resources" / "update.toml"
    source.unlink()  # a link to the payload's own
    release.build(source.parent)
    options = SetupOptions(payload=copy, out=work / "old", version=__version__, is_fast=True)
    options.out.mkdir()
    make_setup(options)
    folder = wine.drive / _FOLDER
    done = wine.run(
        options.setup, "/S", f"/DIR={wine.path(folder)}", environment={"DISPLAY": display}
    )
    expect(done.returncode == 0, f"the first setup ended with {done.returncode}")
    return folder


def check(payload: Path, work: Path) -> None:
    """Run all steps.

    Raises:
        TrialFailed: A step failed.
    """
    stub = make_stub(work / "new", _NEXT)
    options = SetupOptions(payload=stub, out=work, version=_NEXT, is_fast=True)
    make_setup(options)
    with x_server() as display, faulty_server() as server:
        expect(bool(display), "Xvfb is not installed")
        wine = Wine(work / "prefix")
        wine.settle()  # services that were started without a display have none later
        try:
            release = Release(server, setup=options.setup.read_bytes())
            started = time.monotonic()
            folder = install_old(wine, payload, release, work, display)
            print(
                f"{time.monotonic() - started:6.1f} s  the older version is installed", flush=True
            )
            trial = UpdateTrial(wine=wine, release=release, folder=folder, display=display)
            for title, step in STEPS:
                run_step(title, partial(step, trial))
        finally:
            wine.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments and run the trial; the exit status."""
    parser = argparse.ArgumentParser(description="Try a whole update under Wine.")
    parser.add_argument("--payload", type=Path, required=True, metavar="DIR", help="packed program")
    parser.add_argument("--keep", action="store_true", help="keep the folder of the trial")
    args = parser.parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="upreel-update-"))
    try:
        check(args.payload.resolve(), work)
    except (
        *(TrialFailed, WineMissing, PackagingError),
        *(OSError, subprocess.SubprocessError),
    ) as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    finally:
        if args.keep:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
