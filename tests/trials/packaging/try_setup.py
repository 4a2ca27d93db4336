"""Installs a finished setup on this Windows, tries the program, and uninstalls it again.

    python -m tests.trials.packaging.try_setup SETUP [--older SETUP]

For a machine without Upreel, such as that of the release workflow: if the program or its data exist
here, nothing is touched. The program is installed into a folder with spaces and Chinese letters,
runs its smoke test, upscales its sample, and is removed with all its data; then nothing may be
left. With --older that version is installed first and upgraded; with --signed Windows has to accept
the signatures of the setup and of the installed programs. Prints each step with its seconds; the
exit status is 0 if all passed. Only on Windows (also a Windows Python under Wine, which verifies no
signatures). Uses the standard library only.
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
from functools import partial
from pathlib import Path

from tests.trials.packaging.trial import UNINSTALL_KEY, TrialFailed, expect, run_step

REGISTRY_KEYS = (UNINSTALL_KEY, r"Software\Classes\Applications\upreel.exe")
_LIMIT_S = 600
_UNINSTALL_LIMIT_S = 60  # an uninstaller continues in a copy of itself after its process has ended
_FOLDER = "Upreel 试用 1"


class TrialFolders:
    """Folders of the trial on this machine.

    Args:
        folder: Target of the setup.
        work: For films and results.
    """

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder = folder
        self.work = work
        self.data = Path(os.environ["LOCALAPPDATA"], "Upreel")
        self.menu = Path(os.environ["APPDATA"], "Microsoft/Windows/Start Menu/Programs")

    def traces(self) -> list[str]:
        """Paths and registry keys of Upreel on this machine, as text."""
        links = [path for path in self.menu.rglob("*.lnk") if "upreel" in path.name.lower()]
        paths = [self.folder, self.data, *links]
        keys = [f"the key {key}" for key in REGISTRY_KEYS if registered(key) is not None]
        return [*(str(path) for path in paths if path.exists()), *keys]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try a setup; the exit status."""
    parser = argparse.ArgumentParser(description="Install, try and uninstall a setup.")
    parser.add_argument("setup", type=Path)
    parser.add_argument("--older", type=Path, metavar="SETUP", help="install this one first")
    parser.add_argument("--signed", action="store_true", help="verify the signatures")
    args = parser.parse_args(arguments)
    if sys.platform != "win32":
        parser.error("this is for Windows; elsewhere there is check_setup.py")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        folders = TrialFolders(Path(os.environ["LOCALAPPDATA"], "Programs", _FOLDER), Path(work))
        if found := folders.traces():
            print(
                f"FAILED: not started, Upreel is on this machine: {', '.join(found)}",
                file=sys.stderr,
            )
            return 1
        try:
            for title, step in steps(folders, args.setup.resolve(), args.older, args.signed):
                run_step(title, step)
        except (TrialFailed, OSError, subprocess.TimeoutExpired) as err:
            print(f"FAILED: {err}", file=sys.stderr)
            return 1
    print("all passed")
    return 0


def steps(
    folders: TrialFolders, setup: Path, older: Path | None = None, is_signed: bool = False
) -> list[tuple[str, Callable[[], object]]]:
    """Titles and functions of the steps."""
    found: list[tuple[str, Callable[[], object]]] = []
    if older is not None:
        found.append(("older version installed", partial(install, folders, older.resolve())))
    found.append((f"installed by {setup.name}", partial(install, folders, setup)))
    if is_signed:
        found.append(("signatures", partial(check_signatures, folders, setup)))
    return [
        *found,
        ("smoke test", partial(smoke_test, folders)),
        ("sample upscaled and verified", partial(upscale, folders)),
        ("installed over itself", partial(install, folders, setup)),
        ("uninstalled, with all data", partial(uninstall, folders)),
    ]


def install(folders: TrialFolders, setup: Path) -> None:
    """Install silently; Windows' list then has the program with its version.

    Raises:
        TrialFailed: A program, the version or the size is missing.
    """
    run([setup, "/S", f"/DIR={folders.folder}"])
    for name in ("upreel.exe", "upreel-cli.exe"):
        expect((folders.folder / name).is_file(), f"{folders.folder} has no {name}")
    match = re.fullmatch(r"upreel-([\d.]+)-setup\.exe", setup.name)
    listed = registered(UNINSTALL_KEY) or {}
    version = listed.get("DisplayVersion")
    is_listed = match is not None and version == match[1]
    expect(is_listed, f"Windows' list has version {version} of {setup.name}")
    expect(bool(listed.get("EstimatedSize")), "Windows' list has no size")


def check_signatures(folders: TrialFolders, setup: Path) -> None:
    """Windows accepts the signatures; it refuses those of an unknown certificate.

    Raises:
        TrialFailed: A signature is missing, wrong or not trusted.
    """
    installed = [folders.folder / f"{name}.exe" for name in ("upreel", "upreel-cli", "uninstall")]
    for path in (setup, *installed):
        status = signature_status(path)
        expect(status == "Valid", f"the signature of {path.name} is: {status}")


def smoke_test(folders: TrialFolders) -> None:
    """Run the smoke test of the installed program.

    Raises:
        TrialFailed: It failed; the message has the result that it wrote.
    """
    result = folders.work / "result.json"
    try:
        run([folders.folder / "upreel.exe", "--smoke-test", "--out", result])
    except TrialFailed as err:
        text = result.read_text(encoding="utf-8") if result.is_file() else "it wrote no result"
        raise TrialFailed(f"{err}\n{text}") from err
    found = json.loads(result.read_text(encoding="utf-8"))
    expect(found["ok"], json.dumps(found["problems"], indent=1))


def upscale(folders: TrialFolders) -> None:
    """Upscale and verify the installed sample, with the data folders of the user.

    Raises:
        TrialFailed: It failed, or the result differs from its source.
    """
    program = folders.folder / "upreel-cli.exe"
    sample = folders.folder / "_internal" / "resources" / "samples" / "upreel_sample.mp4"
    result = folders.work / "结果 1.mkv"
    run([program, "upscale", sample, "-o", result, "--model", "lite"])
    run([program, "verify", sample, result])


def uninstall(folders: TrialFolders) -> None:
    """Uninstall silently, with all data; no trace is left.

    Raises:
        TrialFailed: A file or a registry key is left.
    """
    command = str((registered(UNINSTALL_KEY) or {}).get("QuietUninstallString", ""))
    is_this_one = str(folders.folder).lower() in command.lower()
    expect(is_this_one, f"Windows' list would uninstall by {command!r}")
    run(f"{command} /PURGE")
    end = time.monotonic() + _UNINSTALL_LIMIT_S
    while (left := folders.traces()) and time.monotonic() < end:
        time.sleep(0.5)
    expect(not left, f"left: {', '.join(left)}")


def run(command: Sequence[str | Path] | str) -> None:
    """Run a program to its end.

    Args:
        command: Program and arguments, or a whole command line as Windows stores it.

    Raises:
        TrialFailed: It ended with another status than 0.
    """
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
    )
    if done.returncode:
        text = command if isinstance(command, str) else " ".join(map(str, command))
        output = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise TrialFailed(f"{text}: status {done.returncode}\n{output}")


def signature_status(path: Path) -> str:
    """Windows' status of a file's signature: "Valid", "NotSigned", "HashMismatch" and others."""
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
    """Values of a registry key of this user by name; None without the key."""
    if sys.platform != "win32":
        raise OSError("only Windows has a registry")
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_CURRENT_USER, key) as opened:
            count = winreg.QueryInfoKey(opened)[1]
            values = [winreg.EnumValue(opened, index) for index in range(count)]
    except FileNotFoundError:
        return None
    return {name: data for name, data, _ in values}


if __name__ == "__main__":
    sys.exit(main())
