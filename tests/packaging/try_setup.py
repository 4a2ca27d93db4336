"""Install a finished setup on this Windows, try the program, and uninstall it again.

    python -m tests.packaging.try_setup upreel-1.2.3-setup.exe [--older upreel-1.2.2-setup.exe]

For a machine without Upreel, such as that of the release workflow: where there is one, or anything
of its data, nothing is touched. The program goes into a folder with spaces and Chinese letters, it
tests itself, upscales its sample, and is removed with all its data; then nothing may be left. With
--older that version is installed first and upgraded; with --signed Windows has to take the
signatures of the setup and of what it installed. One line for each step with its seconds; the exit
status is 0 when all went as it should. Only on Windows (a Windows Python under Wine will do, but
knows no signatures).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

UNINSTALL_KEY = r"Software\Microsoft\Windows\CurrentVersion\Uninstall\Upreel"
OUR_KEYS = (UNINSTALL_KEY, r"Software\Classes\Applications\upreel.exe")
_LIMIT_S = 600
_GONE_LIMIT_S = 60  # an uninstaller goes on in a copy of itself when its first process has ended
_FOLDER = "Upreel 试用 1"


class Failed(Exception):
    """The setup or the program did something else than it should."""


class Places:
    """Where things are on this machine.

    Args:
        folder: Where the program is installed to.
        work: For films and results.
    """

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder = folder
        self.work = work
        self.data = Path(os.environ["LOCALAPPDATA"], "Upreel")
        self.menu = Path(os.environ["APPDATA"], "Microsoft/Windows/Start Menu/Programs")

    def ours(self) -> list[str]:
        """Everything of ours that is here, in words."""
        links = [path for path in self.menu.rglob("*.lnk") if "upreel" in path.name.lower()]
        places = [self.folder, self.data, *links]
        keys = [f"the key {key}" for key in OUR_KEYS if registered(key) is not None]
        return [*(str(place) for place in places if place.exists()), *keys]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try a setup; the exit status."""
    parser = argparse.ArgumentParser(description="Install, try and uninstall a setup.")
    parser.add_argument("setup", type=Path)
    parser.add_argument("--older", type=Path, metavar="SETUP", help="install this one first")
    parser.add_argument("--signed", action="store_true", help="look at signatures")
    args = parser.parse_args(arguments)
    if sys.platform != "win32":
        parser.error("this is for Windows; elsewhere there is check_setup.py")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        places = Places(Path(os.environ["LOCALAPPDATA"], "Programs", _FOLDER), Path(work))
        if found := places.ours():
            print(f"FAILED: not touched, Upreel is here: {', '.join(found)}", file=sys.stderr)
            return 1
        try:
            for title, step in steps(places, args.setup.resolve(), args.older, args.signed):
                _timed(title, step)
        except (Failed, OSError, subprocess.TimeoutExpired) as err:
            print(f"FAILED: {err}", file=sys.stderr)
            return 1
    print("all as it should be")
    return 0


def steps(
    places: Places, setup: Path, older: Path | None = None, is_signed: bool = False
) -> list[tuple[str, Callable[[], object]]]:
    """What is done, one after the other, with a title for each."""
    before = [("the older version", lambda: install(places, older.resolve()))] if older else []
    signed = [("signed", lambda: check_signatures(places, setup))] if is_signed else []
    return [
        *before,
        (f"installed by {setup.name}", lambda: install(places, setup)),
        *signed,
        ("its own test", lambda: smoke_test(places)),
        ("the sample upscaled and compared", lambda: upscale(places)),
        ("installed over itself", lambda: install(places, setup)),
        ("uninstalled, with all data", lambda: uninstall(places)),
    ]


def install(places: Places, setup: Path) -> None:
    """Install silently; Windows' list then has it, with its version.

    Raises:
        Failed: Something is not as it should be.
    """
    run([setup, "/S", f"/DIR={places.folder}"])
    for name in ("upreel.exe", "upreel-cli.exe"):
        if not (places.folder / name).is_file():
            raise Failed(f"{places.folder} has no {name}")
    match = re.fullmatch(r"upreel-([\d.]+)-setup\.exe", setup.name)
    listed = registered(UNINSTALL_KEY) or {}
    if match is None or listed.get("DisplayVersion") != match[1]:
        raise Failed(f"Windows' list says version {listed.get('DisplayVersion')} of {setup.name}")
    if not listed.get("EstimatedSize"):
        raise Failed("Windows' list has no size")


def check_signatures(places: Places, setup: Path) -> None:
    """Windows takes the signatures; a certificate that it does not know is none.

    Raises:
        Failed: One is missing, wrong or not trusted.
    """
    installed = [places.folder / f"{name}.exe" for name in ("upreel", "upreel-cli", "uninstall")]
    for path in (setup, *installed):
        status = signature_status(path)
        if status != "Valid":
            raise Failed(f"the signature of {path.name} is: {status}")


def smoke_test(places: Places) -> None:
    """The installed program tests itself, in folders of its own.

    Raises:
        Failed: It is not content.
    """
    result = places.work / "result.json"
    try:
        run([places.folder / "upreel.exe", "--smoke-test", "--out", result])
    except Failed as err:
        said = result.read_text(encoding="utf-8") if result.is_file() else "it wrote no result"
        raise Failed(f"{err}\n{said}") from err
    seen = json.loads(result.read_text(encoding="utf-8"))
    if not seen["ok"]:
        raise Failed(json.dumps(seen["problems"], indent=1))


def upscale(places: Places) -> None:
    """Upscale the installed sample, with the folders that a user has.

    Raises:
        Failed: It did not come out, or not as its source.
    """
    program = places.folder / "upreel-cli.exe"
    sample = places.folder / "_internal" / "resources" / "samples" / "upreel_sample.mp4"
    result = places.work / "结果 1.mkv"
    run([program, "upscale", sample, "-o", result, "--model", "lite"])
    run([program, "verify", sample, result])


def uninstall(places: Places) -> None:
    """Uninstall silently; nothing of ours is left.

    Raises:
        Failed: Something is.
    """
    command = str((registered(UNINSTALL_KEY) or {}).get("QuietUninstallString", ""))
    if str(places.folder).lower() not in command.lower():
        raise Failed(f"Windows' list would uninstall by {command!r}")
    run(f"{command} /PURGE")
    end = time.monotonic() + _GONE_LIMIT_S
    while (left := places.ours()) and time.monotonic() < end:
        time.sleep(0.5)
    if left:
        raise Failed(f"left behind: {', '.join(left)}")


def run(command: Sequence[str | Path] | str) -> None:
    """Run a program to its end; a command line as a whole is for what Windows keeps as one.

    Raises:
        Failed: It ended with another status than 0.
    """
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
    )
    if done.returncode:
        words = command if isinstance(command, str) else " ".join(map(str, command))
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise Failed(f"{words}: status {done.returncode}\n{said}")


def signature_status(path: Path) -> str:
    """What Windows says of a file's signature: "Valid", "NotSigned", "HashMismatch" and others."""
    command = "(Get-AuthenticodeSignature -LiteralPath $env:UPREEL_FILE).Status"
    done = subprocess.run(
        ["powershell", "-NoProfile", "-NonInteractive", "-Command", command],
        env=os.environ | {"UPREEL_FILE": str(path)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_LIMIT_S,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip()


def registered(key: str) -> dict[str, object] | None:
    """Values of a key of this user by name; None where it is not there."""
    if sys.platform != "win32":
        raise OSError("there is no registry here")
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_CURRENT_USER, key) as opened:
            count = winreg.QueryInfoKey(opened)[1]
            values = [winreg.EnumValue(opened, index) for index in range(count)]
    except FileNotFoundError:
        return None
    return {name: data for name, data, _ in values}


def _timed(title: str, step: Callable[[], object]) -> None:
    started = time.monotonic()
    try:
        step()
    except Failed as err:
        raise Failed(f"{title}: {err}") from err
    print(f"{time.monotonic() - started:6.1f} s  {title}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
