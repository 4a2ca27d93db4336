"""The Wine prefix, the stub programs and the setups that the steps of check_setup.py use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from installer import project
from installer.build_setup import SetupOptions, make_setup
from installer.freeze import write_commands
from tests.trials.packaging.trial import ROOT, UNINSTALL_KEY, TrialFailed
from tools.windows_build.wine import Snapshot, Wine, compile_c

GPU_KEY = r"Software\Microsoft\DirectX\UserGpuPreferences"

# Wine itself writes these whenever a program runs.
_NOISE = re.compile(
    r"""
    ^system\|                                    # devices, fonts; a setup writes the user's hive
    | ^users/[^/]+/(AppData/Local/)?Temp(/|$)    # unpacked plugins of a setup that was stopped
    | ^user\|Software\\Wine\\
    | ^(windows|ProgramData)/
    | ^user\|Software\\Microsoft\\Windows\\CurrentVersion\\Explorer(\\|\|)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Setups:
    """Setups of two versions.

    Args:
        old_payload: Folder of the older version, a stub.
        payload: Folder of the newer version, a stub or the real program.
        old: Setup of the older version.
        new: Setup of the newer version.
        version: The newer version.
    """

    old_payload: Path
    payload: Path
    old: Path
    new: Path
    version: str


class SetupTrial:
    """A Wine prefix with the setups under test.

    Args:
        wine: The prefix.
        setups: Setups under test.
        display: Name of an X server, as ":77"; "" without one.
    """

    def __init__(self, wine: Wine, setups: Setups, display: str) -> None:
        self.wine, self.setups, self.display = wine, setups, display
        users = wine.drive / "users"
        self.home = next(path for path in users.iterdir() if path.name != "Public")
        self.local = self.home / "AppData" / "Local"
        self.data = self.local / "Upreel"
        self.folder = wine.drive / "Program 文件" / "Up reel 放大"
        self.folder.parent.mkdir(exist_ok=True)

    def setup(self, setup: Path, *switches: str, status: int = 0) -> None:
        """Run a setup silently.

        Raises:
            TrialFailed: It ended with another status.
        """
        done = self.wine.run(setup, "/S", *switches, environment=self._display_variables())
        if done.returncode != status:
            raise TrialFailed(f"{setup.name} {' '.join(switches)}: {done.returncode}, not {status}")

    def install(self, setup: Path, *switches: str, status: int = 0) -> None:
        """Run a setup silently, into the trial's folder."""
        self.setup(setup, f"/DIR={self.wine.path(self.folder)}", *switches, status=status)

    def uninstall(self, folder: Path, *switches: str) -> None:
        """Run an uninstaller silently, to the end of the copy of itself that it starts."""
        self.setup(folder / "uninstall.exe", *switches)
        self.wine.settle()

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the installed stub in the background."""
        child = subprocess.Popen(
            [*self.wine.command(self.folder / "upreel.exe"), *arguments],
            env=self.wine.environment | self._display_variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(2)
        try:
            if child.poll() is not None:
                command = f"upreel.exe {' '.join(arguments)}"
                raise TrialFailed(f"{command} ended at once: {child.returncode}")
            yield child
        finally:
            child.kill()
            child.wait()

    def snapshot(self) -> Snapshot:
        """Files and registry of the prefix without those that Wine writes by itself."""
        all_of_it = self.wine.snapshot()
        files, registry = all_of_it.files.items(), all_of_it.registry.items()
        return Snapshot(
            files={name: size for name, size in files if not _NOISE.match(name)},
            registry={name: data for name, data in registry if not _NOISE.match(name)},
        )

    def entry(self, name: str) -> str:
        """A value of the entry in Windows' list of programs, as Wine stores it; "" without one."""
        values = self.wine.snapshot(("user.reg",)).registry
        found = values.get(f"user|{UNINSTALL_KEY}|{name}", "")
        return found.strip('"').replace("\\\\", "\\").replace('\\"', '"')

    def user_path(self) -> str:
        """The user's PATH as it is stored, with its variables; "" without one."""
        found = self.wine.snapshot(("user.reg",)).registry.get("user|Environment|Path", "")
        return found.removeprefix("str(2):").strip('"').replace("\\\\", "\\")

    def write_value(self, key: str, name: str, data: str, kind: str = "REG_SZ") -> None:
        """Write a text into the user's registry."""
        arguments = ["add", rf"HKCU\{key}", "/v", name, "/t", kind, "/d", data, "/f"]
        if self.wine.run("reg", *arguments).returncode:
            raise TrialFailed(f"{key} could not be written to the registry")

    def _display_variables(self) -> dict[str, str]:
        return {"DISPLAY": self.display} if self.display else {}

    def run_cli(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run the installed command line."""
        return self.wine.run(self.folder / "upreel-cli.exe", *arguments, timeout=timeout)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: bytes of each file by its path, SHA-256 of large ones."""
    return {path.relative_to(folder).as_posix(): _bytes(path) for path in sorted(folder.rglob("*"))}


def _bytes(path: Path) -> bytes | None:
    if path.is_dir():
        return None
    if path.stat().st_size < 2**16:
        return path.read_bytes()
    return bytes.fromhex(project.sha256_of(path))


@contextmanager
def x_server() -> Iterator[str]:
    """A virtual X server; its name, or "" if Xvfb is not installed."""
    program = shutil.which("Xvfb")
    if program is None:
        yield ""
        return
    reader, writer = os.pipe()
    options = ["-displayfd", str(writer), "-screen", "0", "800x600x24", "-nolisten", "tcp"]
    child = subprocess.Popen(
        [program, *options],
        pass_fds=(writer,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    with os.fdopen(reader) as stream:
        number = stream.readline().strip()
    try:
        yield f":{number}" if number else ""
    finally:
        child.terminate()
        child.wait()


def make_stub(folder: Path, version: str) -> Path:
    """Make a small payload: two programs, a deep folder, names in several scripts."""
    shutil.rmtree(folder, ignore_errors=True)
    inner = folder / "_internal"
    deep = inner.joinpath(*("a folder",) * 6)
    for subfolder in (inner / "résumé", inner / "模型", deep, inner / "empty"):
        subfolder.mkdir(parents=True)
    source = ROOT / "tools" / "windows_build" / "setup_stub.c"
    for name, subsystem in (("upreel.exe", "-mwindows"), ("upreel-cli.exe", "-mconsole")):
        compile_c(source, folder / name, "-municode", f'-DVERSION="{version}"', subsystem)
    write_commands(folder)
    (folder / "LICENSE").write_text("licence\n", encoding="utf-8")
    (inner / "模型" / "片段 1.txt").write_text(version, encoding="utf-8")
    (inner / "résumé" / "naïve.txt").write_text("same in both", encoding="utf-8")
    (deep / "at the end.bin").write_bytes(os.urandom(300_000))
    (inner / f"only in {version}").mkdir()
    (inner / f"only in {version}" / "library.dll").write_bytes(version.encode() * 1000)
    (inner / f"library-{version}.dll").write_bytes(os.urandom(100_000))
    return folder


def make_setups(work: Path, payload: Path | None, *, is_fast: bool) -> Setups:
    """Make both setups.

    Args:
        work: Folder of all files.
        payload: The real program; None for a stub.
        is_fast: Use a fast compressor for the newer version.

    Raises:
        PackagingError: makensis failed.
    """
    out = work / "setups"
    out.mkdir(parents=True, exist_ok=True)
    version = project.version()
    new_payload = payload.resolve() if payload else make_stub(work / "new", version)
    old = SetupOptions(make_stub(work / "old", "0.0.1"), out, "0.0.1", is_fast=True)
    new = SetupOptions(new_payload, out, version, is_fast=is_fast)
    for options in (old, new):
        make_setup(options)
    return Setups(old.payload, new.payload, old.setup, new.setup, version)
