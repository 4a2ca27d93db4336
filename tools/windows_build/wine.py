"""Wine prefixes for the trials of the Windows packages: programs in them, files, registry.

Only 64-bit programs, no display. `install_missing` installs the Debian `PACKAGES`.
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

PACKAGES: Final = ("wine", "wine64", "gcc-mingw-w64-x86-64")
COMPILER: Final = "x86_64-w64-mingw32-gcc"
SOURCES: Final = Path(__file__).resolve().parent / "shims"
_SHIMS: Final = ("icuuc", "bcryptprimitives")  # DLLs of Windows 10 that Wine 8 does not have
_LOADERS: Final = ("/usr/lib/wine/wine64", "/usr/lib/x86_64-linux-gnu/wine/wine64")
_START_LIMIT_S: Final = 300
_LIMIT_S: Final = 600
_GRACE_S: Final = 1.0  # for the last output of a program that has ended

_ENVIRONMENT: Final = {
    "WINEDEBUG": "-all",
    "WINEARCH": "win64",
    # No search for .NET and a browser engine; no entries in the host's start menu.
    "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe=d",
    "LC_ALL": "C.UTF-8",  # other locales lose arguments that are not ASCII
    # Intel's OpenMP in torch queries the core topology, which Wine 8 does not report.
    "KMP_AFFINITY": "disabled",
    "KMP_TOPOLOGY_METHOD": "flat",
    # TRAP: Linux lets a process use AMX only when it asks, which no program for Windows does: what
    # torch computes ends with an illegal instruction on a CPU that has it.
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16",
}


class WineMissing(Exception):
    """Wine or its compiler is not installed, or the prefix cannot be made."""


@dataclass(frozen=True)
class Snapshot:
    """Contents of a prefix: paths below drive C, and values of the registry.

    Args:
        files: Files and folders with their sizes (folders: -1), as host paths below `drive_c`.
        registry: Data by "hive|key|value"; a key without values is "hive|key|".
    """

    files: dict[str, int]
    registry: dict[str, str]

    def added(self, before: Snapshot) -> list[str]:
        """Files and registry values that are new or changed since `before`."""
        files = [path for path, size in self.files.items() if before.files.get(path) != size]
        values = [name for name, data in self.registry.items() if before.registry.get(name) != data]
        return sorted(files) + sorted(values)


class Wine:
    """A Wine prefix: a Windows of its own in a folder.

    Made at the first use (about 10 s, 0.7 GB), with the DLLs of Windows 10 that Wine 8 lacks.
    `close` ends all its processes.

    Args:
        prefix: The folder; created if it does not exist.

    Raises:
        WineMissing: There is no 64-bit Wine or no compiler on this machine.
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix.resolve()
        self._wine = _loader()
        self._environment = os.environ | _ENVIRONMENT | {"WINEPREFIX": str(self.prefix)}
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "PYTHONPATH", "PYTHONHOME"):
            self._environment.pop(name, None)
        if not (self.prefix / "system.reg").is_file():
            self.prefix.mkdir(parents=True, exist_ok=True)
            self._run_or_raise("wineboot", "-i")
            self._run_or_raise("winecfg", "-v", "win10")
            self.settle()
            self._unlink_host_folders()
        for name in _SHIMS:
            library = self.drive / "windows" / "system32" / f"{name}.dll"
            if not library.is_file():
                compile_c(SOURCES / f"{name}.c", library, "-shared", "-ladvapi32")

    @property
    def drive(self) -> Path:
        """Drive C as a path of the host."""
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
        """Run a program to its end; its output comes through pipes.

        CPython under Wine 8 aborts at its start when its output is redirected to a file.

        Args:
            program: A file of the host, or the name of a program of Windows.
            arguments: Arguments as the program reads them.
            timeout: Seconds.
            cwd: Working folder.
            environment: Additional variables.

        Raises:
            subprocess.TimeoutExpired: It took longer and was killed.
        """
        command = [*self.command(program), *arguments]
        child = subprocess.Popen(
            command,
            env=self._environment | dict(environment or {}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        readers = [PipeReader(stream) for stream in (child.stdout, child.stderr) if stream]
        try:
            status = child.wait(timeout)
        except BaseException:
            child.kill()
            child.wait()
            raise
        out, err = (reader.text() for reader in readers)
        return subprocess.CompletedProcess(command, status, out, err)

    def command(self, program: Path | str) -> list[str]:
        """Command that starts a program, for a `Popen` by the caller with `environment`."""
        name = self.path(program) if isinstance(program, Path) else program
        return [self._wine, name]

    @property
    def environment(self) -> dict[str, str]:
        """Variables that a process in this prefix needs."""
        return dict(self._environment)

    def settle(self) -> None:
        """Wait until all processes in the prefix have ended and the registry is written."""
        subprocess.run(
            [_server(), "-w"], env=self._environment, timeout=_START_LIMIT_S, check=False
        )

    def close(self) -> None:
        """End all processes in the prefix."""
        subprocess.run([_server(), "-k"], env=self._environment, timeout=60, check=False)
        self.settle()

    def snapshot(self, hives: Sequence[str] = ("user.reg", "system.reg")) -> Snapshot:
        """Present contents. Waits for all processes, so that the registry is on the disk."""
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

    def _unlink_host_folders(self) -> None:
        """Replace links to the host's Desktop, Documents and so on by folders."""
        for link in (self.drive / "users").glob("*/*"):
            if link.is_symlink():
                link.unlink()
                link.mkdir()

    def _run_or_raise(self, program: str, *arguments: str) -> None:
        done = self.run(program, *arguments, timeout=_START_LIMIT_S)
        if done.returncode:
            raise WineMissing(f"{program} ended with {done.returncode}: {done.stderr[-400:]}")


class PipeReader(threading.Thread):
    """Reads the output of a program. Services of Wine inherit its pipe and keep it open."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._chunks: list[bytes] = []
        self.start()

    def run(self) -> None:
        """Read until the last writer has closed the pipe."""
        with self._stream:
            while chunk := os.read(self._stream.fileno(), 1 << 16):
                self._chunks.append(chunk)

    def text(self) -> str:
        """Whole output of a program that has ended."""
        self.join(_GRACE_S)
        return b"".join(self._chunks).decode("utf-8", "replace").replace("\r\n", "\n")


def compile_c(source: Path, target: Path, *options: str) -> None:
    """Compile a C file for Windows with mingw.

    Raises:
        WineMissing: The compiler is missing or reports an error.
    """
    command = [COMPILER, "-O2", "-s", "-o", str(target), str(source), *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as err:
        raise WineMissing(f"{COMPILER} is missing: apt-get install {PACKAGES[-1]}") from err
    if done.returncode:
        raise WineMissing(f"{source.name} does not compile:\n{done.stderr[-800:]}")


def install_missing(packages: Sequence[str]) -> None:
    """Install the Debian packages that are missing; only as root.

    Raises:
        subprocess.CalledProcessError: The installation failed.
    """
    missing = [name for name in packages if not _is_installed(name)]
    if not missing:
        return
    started = time.monotonic()
    _apt_get("update", "-qq")
    _apt_get("install", "-y", "-qq", "--no-install-recommends", *missing)
    print(f"installed {' '.join(missing)} in {time.monotonic() - started:.0f} s", flush=True)


def _apt_get(*arguments: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", *arguments]
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)


def _is_installed(name: str) -> bool:
    query = ["dpkg-query", "-W", "-f", "${Status}", name]
    found = subprocess.run(query, capture_output=True, text=True, check=False)
    return "ok installed" in found.stdout


def _loader() -> str:
    """The 64-bit loader: the wrapper on the path also needs 32-bit libraries."""
    for path in _LOADERS:
        if Path(path).is_file():
            return path
    found = shutil.which("wine64") or shutil.which("wine")
    if not found:
        raise WineMissing("Wine is not installed: apt-get install wine wine64")
    return found


def _server() -> str:
    neighbour = Path(_loader()).with_name("wineserver64")
    for path in (neighbour, neighbour.with_name("wineserver")):
        if path.is_file():
            return str(path)
    return shutil.which("wineserver") or "wineserver"


def _registry(path: Path) -> dict[str, str]:
    """Values of one of Wine's registry files, which are text, without times of change."""
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
