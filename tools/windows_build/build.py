"""Freezes the real Windows program on Linux under Wine, as installer.freeze does on Windows.

    python -m tools.windows_build.build --out DIR [--cache DIR] [--prefix DIR] [--stdlib DIR]

DIR/upreel is a test build, not a release: the interpreter is assembled (windows_python.py), and
numpy is an older version that runs under Wine 8. All else is as on Windows: the packages by their
hashes from windows.lock, app.spec, the smoke test. DIR also gets `python` (the interpreter with the
packages) and `prefix` (Wine's drive C), which tests.trials.packaging.check_windows uses. A second
run reuses them. With --setup the setup is made as well.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from installer import build_setup, freeze
from tools.windows_build import windows_python
from tools.windows_build.windows_python import AssemblyFailed
from tools.windows_build.wine import PACKAGES, Wine, WineMissing, install_missing

ROOT = Path(__file__).resolve().parents[2]
LOCK: Final = ROOT / "installer" / "windows.lock"
# Later versions abort in crealf of Wine 8's C runtime.
WINE_NUMPY: Final = (
    "numpy==2.0.2 \\\n    --hash=sha256:"
    + "cfd41e13fdc257aa5778496b8caa5e856dc4896d4ccf01841daee1d96465467a"
)
_FOLDERS: Final = ("app", "engine", "installer", "resources")
_FILES: Final = ("main.py", "pyproject.toml", *freeze.LICENCE_FILES)
_FREEZE_LIMIT_S: Final = 3000
_STARTED = time.monotonic()


class BuildFailed(Exception):
    """A step failed; the message has its output."""


@dataclass(frozen=True)
class BuildFolders:
    """Folders of a build."""

    out: Path
    cache: Path
    prefix: Path
    lock: Path = LOCK

    @property
    def python(self) -> Path:
        """The Windows Python with the packages."""
        return self.out / "python"

    @property
    def source(self) -> Path:
        """A copy of the sources: nothing is written into the checkout."""
        return self.out / "source"

    @property
    def packed(self) -> Path:
        """The frozen program."""
        return self.out / "upreel"


def build(folders: BuildFolders, stdlib: Path | None) -> None:
    """Run all steps and print the seconds of each.

    Raises:
        BuildFailed, AssemblyFailed, WineMissing: A step failed.
    """
    _log("Debian packages")
    install_missing(PACKAGES)
    _log("Wine")
    wine = Wine(folders.prefix)
    _log("Python")
    program = windows_python.assemble(folders.python, folders.cache, stdlib)
    print(f"        {windows_python.version_of(wine, program)}")
    _log("packages")
    install_packages(folders)
    _log("copy of the sources")
    copy_sources(folders.source)
    _log("freeze and smoke test")
    run_freeze(wine, program, folders)
    _log(f"{folders.packed}: {describe(folders.packed)}")
    wine.close()


def install_packages(folders: BuildFolders) -> None:
    """Install the locked packages for Windows into the assembled Python.

    Raises:
        BuildFailed: A package cannot be installed.
    """
    site = folders.python / "Lib" / "site-packages"
    lock = folders.cache / "wine.lock"
    text = lock_for_wine(folders.lock.read_text(encoding="utf-8"))
    lock.write_text(text, encoding="utf-8")
    installed = site / ".upreel-lock"
    if installed.is_file() and installed.read_text(encoding="utf-8") == text:
        return
    install_wheels(lock, site)
    installed.write_text(text, encoding="utf-8")


def install_wheels(lock: Path, folder: Path) -> None:
    """Install the wheels for Windows that a lock names into a folder, by their hashes.

    Raises:
        BuildFailed: A wheel cannot be installed.
    """
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet"),
        *("--python-platform", "x86_64-pc-windows-msvc", "--python-version"),
        *(windows_python.VERSION, "--only-binary", ":all:", "--no-deps", "--require-hashes"),
        *("--target", str(folder), "-r", str(lock)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(f"The packages could not be installed:\n{done.stderr[-1500:]}")


def lock_for_wine(lock: str) -> str:
    """The lock with the numpy that runs under Wine 8.

    Raises:
        BuildFailed: The lock has no numpy.
    """
    text, count = re.subn(
        r"^numpy==\S+( \\\n +--hash=\S+)+$", lambda _: WINE_NUMPY, lock, flags=re.MULTILINE
    )
    if count != 1:
        raise BuildFailed(f"The lock names numpy {count} times.")
    return text


def copy_sources(folder: Path) -> None:
    """Copy the sources that the freeze reads; PyInstaller's own cache in `folder` is kept."""
    for name in _FOLDERS:
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy2(ROOT / name, folder / name)


def run_freeze(wine: Wine, program: Path, folders: BuildFolders) -> None:
    """Run `installer.freeze` under the Windows Python; move the result to `folders.packed`.

    Raises:
        BuildFailed: It failed.
    """
    child = subprocess.Popen(
        [*wine.command(program), "-m", "installer.freeze"],
        env=wine.environment | {"PYTHONUTF8": "1"},
        cwd=folders.source,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert child.stdout is not None
    for line in child.stdout:
        print(f"        {line.rstrip()}", flush=True)
    if child.wait(_FREEZE_LIMIT_S):
        raise BuildFailed(f"The freeze ended with status {child.returncode}.")
    shutil.rmtree(folders.packed, ignore_errors=True)
    shutil.move(folders.source / "dist" / "upreel", folders.packed)


def describe(folder: Path) -> str:
    """Size, number of files and longest path of a folder, as text."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    longest = max(len(path.relative_to(folder).as_posix()) for path in files)
    return f"{size / 1e6:.0f} MB in {len(files)} files, longest path {longest} characters"


def _log(step: str) -> None:
    print(f"{time.monotonic() - _STARTED:6.1f} s  {step}", flush=True)


def main() -> int:
    """Parse the arguments and build; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="result")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="downloads; default: DIR/cache")
    parser.add_argument("--prefix", type=Path, metavar="DIR", help="of Wine; default: DIR/prefix")
    parser.add_argument("--stdlib", type=Path, metavar="DIR", help="Lib of a CPython 3.12")
    parser.add_argument("--lock", type=Path, default=LOCK, metavar="FILE", help="other packages")
    parser.add_argument("--setup", action="store_true", help="also make the setup")
    args = parser.parse_args()
    out = args.out.resolve()
    cache = (args.cache or out / "cache").resolve()
    folders = BuildFolders(out, cache, (args.prefix or out / "prefix").resolve(), args.lock)
    try:
        build(folders, args.stdlib)
    except (BuildFailed, AssemblyFailed, WineMissing) as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    if not args.setup:
        return 0
    return build_setup.main(["--payload", str(folders.packed), "--out", str(out)])


if __name__ == "__main__":
    sys.exit(main())
