"""Freeze the real Windows program on Linux, under Wine, as installer.freeze does on Windows.

    python -m installer.build_windows --out DIR [--cache DIR] [--prefix DIR] [--stdlib DIR]

DIR/upreel is a test build, not a release: the interpreter is assembled (windows_python.py), and
numpy is an older one that runs under Wine 8. All else is as on Windows: the packages by their
hashes from windows.lock, app.spec, the smoke test. DIR also gets `python` (the interpreter with the
packages) and `prefix` (Wine's drive C), which check_windows.py uses. A second run takes what is
there already. With --setup the setup is made of it, too.
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

from installer import build_setup, windows_python, wine_shims
from installer.windows_python import CannotAssemble
from installer.wine import Wine, WineMissing, install_missing

ROOT = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "installer" / "windows.lock"
# Later ones end in crealf of Wine 8's C runtime.
WINE_NUMPY: Final = (
    "numpy==2.0.2 \\\n    --hash=sha256:"
    + "cfd41e13fdc257aa5778496b8caa5e856dc4896d4ccf01841daee1d96465467a"
)
_TREE: Final = ("app", "engine", "installer", "resources")
_FILES: Final = ("main.py", "pyproject.toml", "LICENSE", "THIRD_PARTY_NOTICES.md")
_FREEZE_LIMIT_S: Final = 3000


class BuildFailed(Exception):
    """A step failed; what it said."""


@dataclass(frozen=True)
class Places:
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
        """A copy of the sources, so that nothing is written into the checkout."""
        return self.out / "source"

    @property
    def packed(self) -> Path:
        """The frozen program."""
        return self.out / "upreel"


def build(places: Places, stdlib: Path | None) -> None:
    """All steps, each with its seconds.

    Raises:
        BuildFailed, CannotAssemble, WineMissing: As they say.
    """
    _say("Debian packages")
    install_missing(windows_python.PACKAGES)
    _say("Wine")
    wine = Wine(places.prefix)
    wine_shims.install(wine)
    _say("Python")
    program = windows_python.assemble(places.python, places.cache, stdlib)
    print(f"        {windows_python.version_of(wine, program)}")
    _say("packages")
    install_packages(places)
    _say("copy of the sources")
    copy_sources(places.source)
    _say("freeze and smoke test")
    freeze(wine, program, places)
    _say(f"{places.packed}: {describe(places.packed)}")
    wine.close()


def install_packages(places: Places) -> None:
    """Install the locked packages for Windows into the assembled Python.

    Raises:
        BuildFailed: One cannot be had.
    """
    site = places.python / "Lib" / "site-packages"
    lock = places.cache / "wine.lock"
    text = lock_for_wine(places.lock.read_text(encoding="utf-8"))
    lock.write_text(text, encoding="utf-8")
    done = site / ".upreel-lock"
    if done.is_file() and done.read_text(encoding="utf-8") == text:
        return
    install_for_windows(["--require-hashes", "-r", str(lock)], site)
    done.write_text(text, encoding="utf-8")


def install_for_windows(words: list[str], folder: Path) -> None:
    """Install wheels for Windows into a folder.

    Raises:
        BuildFailed: One cannot be had.
    """
    command = [
        *(
            sys.executable,
            "-m",
            "uv",
            "pip",
            "install",
            "--quiet",
            "--python-platform",
            "x86_64-pc-windows-msvc",
        ),
        *("--python-version", windows_python.VERSION, "--only-binary", ":all:", "--no-deps"),
        *("--target", str(folder), *words),
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
    """Copy what the freeze reads; what PyInstaller found out before stays, it checks it itself."""
    for name in _TREE:
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy2(ROOT / name, folder / name)


def freeze(wine: Wine, program: Path, places: Places) -> None:
    """Run `installer.freeze` under the Windows Python; the result is moved to `places.packed`.

    Raises:
        BuildFailed: It failed.
    """
    environment = wine.environment | wine_shims.ENVIRONMENT | {"PYTHONUTF8": "1"}
    command = [*wine.command(program), "-m", "installer.freeze"]
    child = subprocess.Popen(
        command, env=environment, cwd=places.source, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    assert child.stdout is not None
    for line in child.stdout:
        print(f"        {line.rstrip()}", flush=True)
    if child.wait(_FREEZE_LIMIT_S):
        raise BuildFailed(f"The freeze ended with status {child.returncode}.")
    shutil.rmtree(places.packed, ignore_errors=True)
    shutil.move(places.source / "dist" / "upreel", places.packed)


def describe(folder: Path) -> str:
    """Size, number of files and longest path of a folder, in words."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    longest = max(len(path.relative_to(folder).as_posix()) for path in files)
    return f"{size / 1e6:.0f} MB in {len(files)} files, longest path {longest} characters"


_BEGIN = time.monotonic()


def _say(step: str) -> None:
    print(f"{time.monotonic() - _BEGIN:6.1f} s  {step}", flush=True)


def main() -> int:
    """Parse the words and build; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="result")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="downloads; default: DIR/cache")
    parser.add_argument("--prefix", type=Path, metavar="DIR", help="of Wine; default: DIR/prefix")
    parser.add_argument("--stdlib", type=Path, metavar="DIR", help="Lib of a CPython 3.12")
    parser.add_argument("--lock", type=Path, default=LOCK, metavar="FILE", help="other packages")
    parser.add_argument("--setup", action="store_true", help="make the setup of it, too")
    args = parser.parse_args()
    out = args.out.resolve()
    cache = (args.cache or out / "cache").resolve()
    places = Places(out, cache, (args.prefix or out / "prefix").resolve(), args.lock)
    try:
        build(places, args.stdlib)
    except (BuildFailed, CannotAssemble, WineMissing) as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    if not args.setup:
        return 0
    return build_setup.main(["--payload", str(places.packed), "--out", str(out)])


if __name__ == "__main__":
    sys.exit(main())
