"""Wine, as the checks of the Windows packages use it: a prefix, programs in it, what they left.

Only 64-bit programs, no display. Needs Debian's `wine` and `wine64`, see `install_missing`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import IO, Final

_PLACES: Final = ("/usr/lib/wine/wine64", "/usr/lib/x86_64-linux-gnu/wine/wine64")
_START_LIMIT_S: Final = 300
_LIMIT_S: Final = 600
_GRACE_S: Final = 1.0  # for the rest of the words of a program that has ended

_ENVIRONMENT: Final = {
    "WINEDEBUG": "-all",
    "WINEARCH": "win64",
    # No .NET and browser engine are looked for; no start menu of the host is written to.
    "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe=d",
    "LC_ALL": "C.UTF-8",  # other locales lose arguments that are not ASCII
}


class WineMissing(Exception):
    """Wine is not installed."""


@dataclass(frozen=True)
class Snapshot:
    """What a prefix holds: paths below drive C, and values of the registry.

    Args:
        files: Files and folders with their sizes (folders: -1), as host paths below `drive_c`.
        registry: Data by "hive|key|value"; a key without values stands as "hive|key|".
    """

    files: dict[str, int]
    registry: dict[str, str]

    def added(self, before: Snapshot) -> list[str]:
        """Files and registry values that are here and were not there before, or are others now."""
        files = [path for path, size in self.files.items() if before.files.get(path) != size]
        values = [name for name, data in self.registry.items() if before.registry.get(name) != data]
        return sorted(files) + sorted(values)


class Wine:
    """A prefix of Wine: a Windows of its own in a folder.

    Made at the first use (about 10 s, 0.7 GB). `close` ends what still runs in it.

    Args:
        prefix: The folder; made when it is not there.

    Raises:
        WineMissing: There is no 64-bit Wine on this machine.
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix.resolve()
        self._wine = _program()
        self._environment = os.environ | _ENVIRONMENT | {"WINEPREFIX": str(self.prefix)}
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "PYTHONPATH", "PYTHONHOME"):
            self._environment.pop(name, None)
        if not (self.prefix / "system.reg").is_file():
            self.prefix.mkdir(parents=True, exist_ok=True)
            self._must("wineboot", "-i")
            self._must("winecfg", "-v", "win10")
            self.settle()
            self._keep_inside()

    @property
    def drive(self) -> Path:
        """Drive C, as the host sees it."""
        return self.prefix / "drive_c"

    def path(self, path: Path) -> str:
        """A path of the host as programs in the prefix read it."""
        if path.is_relative_to(self.drive):
            return str(PureWindowsPath("C:/", *path.relative_to(self.drive).parts))
        return str(PureWindowsPath(f"Z:{path}"))

    def run(
        self,
        program: Path | str,
        *arguments: str,
        timeout: float = _LIMIT_S,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; output comes through pipes.

        Output that goes into a file instead ends CPython at its start under Wine 8.

        Args:
            program: A file of the host, or the name of a program of Windows.
            arguments: As the program reads them.
            timeout: Seconds.
            cwd: Folder to run in.
            environment: Variables on top.

        Raises:
            subprocess.TimeoutExpired: It took longer; it is stopped.
        """
        words = [*self.command(program), *arguments]
        child = subprocess.Popen(
            words,
            env=self._environment | dict(environment or {}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        said = [Listener(stream) for stream in (child.stdout, child.stderr) if stream]
        try:
            status = child.wait(timeout)
        except BaseException:
            child.kill()
            child.wait()
            raise
        out, err = (listener.text() for listener in said)
        return subprocess.CompletedProcess(words, status, out, err)

    def command(self, program: Path | str) -> list[str]:
        """The words that start a program, for a `Popen` of one's own with `environment`."""
        name = self.path(program) if isinstance(program, Path) else program
        return [self._wine, name]

    @property
    def environment(self) -> dict[str, str]:
        """Variables that a process in this prefix needs."""
        return dict(self._environment)

    def settle(self) -> None:
        """Wait until everything in the prefix has ended and the registry is written."""
        subprocess.run(
            [_server(), "-w"], env=self._environment, timeout=_START_LIMIT_S, check=False
        )

    def close(self) -> None:
        """End everything in the prefix."""
        subprocess.run([_server(), "-k"], env=self._environment, timeout=60, check=False)
        self.settle()

    def snapshot(self, hives: Sequence[str] = ("user.reg", "system.reg")) -> Snapshot:
        """What is there now. Ends what still runs, so that the registry is on the disk."""
        self.settle()
        files: dict[str, int] = {}
        for folder, folders, names in os.walk(self.drive):
            for name in (*folders, *names):
                path = Path(folder, name)
                size = -1 if path.is_dir() else path.lstat().st_size
                files[path.relative_to(self.drive).as_posix()] = size
        registry: dict[str, str] = {}
        for hive in hives:
            registry |= _registry(self.prefix / hive)
        return Snapshot(files=files, registry=registry)

    def _keep_inside(self) -> None:
        """Make folders of Desktop, Documents and such, which are links to those of the host."""
        for link in (self.drive / "users").glob("*/*"):
            if link.is_symlink():
                link.unlink()
                link.mkdir()

    def _must(self, program: str, *arguments: str) -> None:
        done = self.run(program, *arguments, timeout=_START_LIMIT_S)
        if done.returncode:
            raise WineMissing(f"{program} ended with {done.returncode}: {done.stderr[-400:]}")


class Listener(threading.Thread):
    """Reads what a program says. Services of Wine inherit its pipe and keep it open for long."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._parts: list[bytes] = []
        self.start()

    def run(self) -> None:
        """Read until nobody can write any more."""
        with self._stream:
            while part := os.read(self._stream.fileno(), 1 << 16):
                self._parts.append(part)

    def text(self) -> str:
        """All that the program said, which has ended."""
        self.join(_GRACE_S)
        return b"".join(self._parts).decode("utf-8", "replace").replace("\r\n", "\n")


def install_missing(packages: Sequence[str]) -> None:
    """Install Debian packages that are not there yet; only as root.

    Raises:
        subprocess.CalledProcessError: The installation failed.
    """
    missing = [name for name in packages if not _installed(name)]
    if not missing:
        return
    started = time.monotonic()
    _apt("update", "-qq")
    _apt("install", "-y", "-qq", "--no-install-recommends", *missing)
    print(f"installed {' '.join(missing)} in {time.monotonic() - started:.0f} s", flush=True)


def _apt(*words: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", *words], stdout=subprocess.DEVNULL, env=environment, check=True)


def _installed(name: str) -> bool:
    asked = ["dpkg-query", "-W", "-f", "${Status}", name]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return "ok installed" in found.stdout


def _program() -> str:
    """The 64-bit loader: the wrapper on the path also asks for 32-bit parts."""
    for place in _PLACES:
        if Path(place).is_file():
            return place
    found = shutil.which("wine64") or shutil.which("wine")
    if not found:
        raise WineMissing("Wine is not installed: apt-get install wine wine64")
    return found


def _server() -> str:
    beside = Path(_program()).with_name("wineserver64")
    for place in (beside, beside.with_name("wineserver")):
        if place.is_file():
            return str(place)
    return shutil.which("wineserver") or "wineserver"


def _registry(path: Path) -> dict[str, str]:
    """Values of one of Wine's registry files, which are text; times of change are left out."""
    values: dict[str, str] = {}
    key = ""
    if not path.is_file():
        return values
    text = path.read_text(encoding="utf-8", errors="replace").replace("\\\n", "")
    for line in text.splitlines():
        if line.startswith("["):
            key = line[1 : line.rindex("]")].replace("\\\\", "\\")
            values[f"{path.stem}|{key}|"] = ""
        elif match := re.match(r'(@|"(?:[^"\\]|\\.)*")=(.*)', line):
            values[f"{path.stem}|{key}|{match[1].strip(chr(34))}"] = match[2]
    return values
