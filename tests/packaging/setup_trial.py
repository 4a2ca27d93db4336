"""A Windows of its own to try a setup in: what check_setup.py's steps are written with."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from installer import build_setup, wine_shims
from installer.wine import Snapshot, Wine

ROOT = Path(__file__).resolve().parents[2]
COMPILER = "x86_64-w64-mingw32-gcc"
UNINSTALL_KEY = r"Software\Microsoft\Windows\CurrentVersion\Uninstall\Upreel"
GPU_KEY = r"Software\Microsoft\DirectX\UserGpuPreferences"

# Wine itself writes these whenever something runs.
_NOISE = re.compile(
    r"""
    ^system\|                                    # devices, fonts; ours is the user's hive
    | ^users/[^/]+/(AppData/Local/)?Temp(/|$)    # unpacked plugins of a setup that was stopped
    | ^user\|Software\\Wine\\
    | ^(windows|ProgramData)/
    | ^user\|Software\\Microsoft\\Windows\\CurrentVersion\\Explorer(\\|\|)
    """,
    re.VERBOSE,
)


class Failed(Exception):
    """The setup did something else than it should."""


@dataclass(frozen=True)
class Setups:
    """What is tried.

    Args:
        old_payload: Folder of the older version, a stand-in.
        payload: Folder of the newer one, a stand-in or the real program.
        old: Setup of the older.
        new: Setup of the newer.
        version: Of the newer.
    """

    old_payload: Path
    payload: Path
    old: Path
    new: Path
    version: str


class Trial:
    """A prefix of Wine with the setups; all waiting is in here.

    Args:
        wine: The prefix.
        setups: What is tried.
        display: Number of an X server, as ":77"; "" where there is none.
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
            Failed: It ended with another status.
        """
        done = self.wine.run(setup, "/S", *switches, environment=self._screen())
        if done.returncode != status:
            raise Failed(f"{setup.name} {' '.join(switches)}: {done.returncode}, not {status}")

    def install(self, setup: Path, *switches: str, status: int = 0) -> None:
        """Run a setup silently, into the usual folder of the trial."""
        self.setup(setup, f"/DIR={self.wine.path(self.folder)}", *switches, status=status)

    def uninstall(self, folder: Path, *switches: str) -> None:
        """Run an uninstaller silently, to its very end: it works from a copy of itself."""
        self.setup(folder / "uninstall.exe", *switches)
        self.wine.settle()

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """The installed stand-in, at work meanwhile."""
        child = subprocess.Popen(
            [*self.wine.command(self.folder / "upreel.exe"), *words],
            env=self.wine.environment | self._screen(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(2)
        try:
            if child.poll() is not None:
                raise Failed(f"upreel.exe {' '.join(words)} ended at once: {child.returncode}")
            yield child
        finally:
            child.kill()
            child.wait()

    def snapshot(self) -> Snapshot:
        """What is there, without what Wine writes by itself."""
        seen = self.wine.snapshot()
        return Snapshot(
            files={name: size for name, size in seen.files.items() if not _NOISE.match(name)},
            registry={name: data for name, data in seen.registry.items() if not _NOISE.match(name)},
        )

    def entry(self, name: str) -> str:
        """A value of the entry in Windows' list of programs, as Wine keeps it; "" for none."""
        return self.value(rf"{UNINSTALL_KEY}", name)

    def value(self, key: str, name: str) -> str:
        """A value of the user's registry, as Wine keeps it; "" for none."""
        found = self.wine.snapshot(("user.reg",)).registry.get(f"user|{key}|{name}", "")
        return found.strip('"').replace("\\\\", "\\").replace('\\"', '"')

    def write_value(self, key: str, name: str, data: str) -> None:
        """Write a text into the user's registry."""
        words = ["add", rf"HKCU\{key}", "/v", name, "/t", "REG_SZ", "/d", data, "/f"]
        if self.wine.run("reg", *words).returncode:
            raise Failed(f"the registry did not take {key}")

    def _screen(self) -> dict[str, str]:
        return {"DISPLAY": self.display} if self.display else {}

    def ask(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run the installed command line."""
        environment = dict(wine_shims.ENVIRONMENT)
        program = self.folder / "upreel-cli.exe"
        return self.wine.run(program, *words, timeout=timeout, environment=environment)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: paths, and what the files hold, large ones as their SHA-256."""
    return {path.relative_to(folder).as_posix(): _bytes(path) for path in sorted(folder.rglob("*"))}


def _bytes(path: Path) -> bytes | None:
    if path.is_dir():
        return None
    if path.stat().st_size < 2**16:
        return path.read_bytes()
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def stand_in(folder: Path, version: str) -> Path:
    """Make a small payload: two programs, a deep folder, names of several scripts."""
    shutil.rmtree(folder, ignore_errors=True)
    inner = folder / "_internal"
    deep = inner.joinpath(*("a folder",) * 6)
    for place in (inner / "résumé", inner / "模型", deep, inner / "empty"):
        place.mkdir(parents=True)
    source = ROOT / "installer" / "setup_stub.c"
    made = ["-municode", "-s", f'-DVERSION="{version}"', str(source), "-o"]
    for name, kind in (("upreel.exe", "-mwindows"), ("upreel-cli.exe", "-mconsole")):
        subprocess.run([COMPILER, *made, str(folder / name), kind], check=True)
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
        work: Folder for everything.
        payload: The real program; None for a stand-in.
        is_fast: Compress it quickly instead of as for a release.

    Raises:
        BuildError: makensis failed.
    """
    old = stand_in(work / "old", "0.0.1")
    version = build_setup.project_version()
    new = payload.resolve() if payload else stand_in(work / "new", version)
    out = work / "setups"
    out.mkdir(parents=True, exist_ok=True)
    orders = [
        build_setup.Order(payload=old, out=out, version="0.0.1", is_fast=True),
        build_setup.Order(payload=new, out=out, version=version, is_fast=is_fast),
    ]
    for order in orders:
        build_setup.make_setup(order)
    return Setups(old, new, orders[0].setup, orders[1].setup, version)
