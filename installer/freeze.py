"""Packs Upreel into dist/upreel, then runs the smoke test of the packed program.

    python -m installer.freeze

Collects the licence texts, runs PyInstaller on app.spec, copies the licence into the folder, and
runs `upreel --smoke-test`; ends with an error if any of these fails. Needs the extra `dev`.

On Windows the folder has `bin`, for the PATH of those who want it: `upreel` and `upreel-cli` in it
are the command line, while `upreel.exe` in the folder itself is the window.

It also has one copy of each library of Microsoft's C++ runtime there, the newest, at its top, where
every library finds it. Qt, numpy and Python each bring their own copy; the one that is loaded first
serves the whole process, and a torch newer than that copy fails to load (WinError 1114).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from installer import licences
from installer.project import ROOT

BUILD = ROOT / "build"
PACKED = ROOT / "dist" / "upreel"
SUFFIX = ".exe" if sys.platform == "win32" else ""
LICENCE_FILES = ("LICENSE", "THIRD_PARTY_NOTICES.md")
SMOKE_TEST_LIMIT_S = 300
FOLDER_LIMIT_MB = 900  # 10^6 bytes
VC_RUNTIME = re.compile(
    r"(concrt140|msvcp140(_1|_2|_atomic_wait|_codecvt_ids)?|vcruntime140(_1|_threads)?)\.dll",
    re.IGNORECASE,
)


def build() -> None:
    """Make dist/upreel from scratch."""
    licences.write(BUILD / "licences" / "THIRD_PARTY_LICENCES.txt")
    command: list[str | Path] = [
        *(sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"),
        *("--distpath", ROOT / "dist", "--workpath", BUILD / "pyinstaller"),
        ROOT / "installer" / "app.spec",
    ]
    subprocess.run(command, check=True, cwd=ROOT)
    for name in LICENCE_FILES:
        shutil.copy2(ROOT / name, PACKED / name)
    if sys.platform == "win32":
        write_commands(PACKED)
    for path in PACKED.rglob("*"):
        if not path.is_symlink():  # readable for every user, whatever the modes are here
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o644))


def write_commands(folder: Path) -> None:
    """Write the commands for the PATH into a packed folder; they pass on words and exit status."""
    (folder / "bin").mkdir()
    for name in ("upreel", "upreel-cli"):
        text = '@"%~dp0..\\upreel-cli.exe" %*\r\n'
        (folder / "bin" / f"{name}.cmd").write_text(text, encoding="ascii", newline="")


def describe(folder: Path) -> str:
    """Size and number of files of a folder, as text.

    Raises:
        SystemExit: It is larger than FOLDER_LIMIT_MB.
    """
    sizes = [path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()]
    text = f"{folder.relative_to(ROOT)}: {sum(sizes) / 1e6:.0f} MB in {len(sizes)} files"
    if sum(sizes) > FOLDER_LIMIT_MB * 1e6:
        raise SystemExit(f"{text}: more than {FOLDER_LIMIT_MB} MB")
    return text


def smoke_test() -> None:
    """Run the packed program's smoke test without a display, with its own data folders.

    Raises:
        SystemExit: It failed; the message has the result that it wrote.
    """
    folder = BUILD / "smoke-test"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    result = folder / "result.json"
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen",
        "UPREEL_DATA": str(folder / "data"),
        "UPREEL_CACHE": str(folder / "cache"),
    }
    environment.pop("PYTHONPATH", None)
    started = time.monotonic()
    command: list[str | Path] = [PACKED / f"upreel{SUFFIX}", "--smoke-test", "--out", result]
    status = subprocess.run(
        command, check=False, cwd=folder, env=environment, timeout=SMOKE_TEST_LIMIT_S
    ).returncode
    text = result.read_text(encoding="utf-8") if result.is_file() else "it wrote no result"
    if status or not json.loads(text if result.is_file() else "{}").get("ok"):
        raise SystemExit(f"The smoke test failed with status {status}:\n{text}")
    print(f"smoke test passed in {time.monotonic() - started:.1f} s\n{text}")


def is_vc_runtime(path: str) -> bool:
    """Whether a file, by its path in the packed folder, is a library of the C++ runtime."""
    return VC_RUNTIME.fullmatch(path.replace("\\", "/").rpartition("/")[2]) is not None


def newest_vc_runtime(copies: Iterable[tuple[str, tuple[int, ...], str]]) -> dict[str, str]:
    """Path of the newest copy of each library of the C++ runtime, by its name in lower case.

    Args:
        copies: File name, version and path of each copy. Of equal versions the first is taken.
    """
    best: dict[str, tuple[tuple[int, ...], str]] = {}
    for name, version, path in copies:
        known = best.get(name.lower())
        if known is None or version > known[0]:
            best[name.lower()] = (version, path)
    return {name: path for name, (_, path) in best.items()}


def file_version(path: str) -> tuple[int, ...]:
    """Version resource of a library; (0,) without one.

    Reads the file itself: Wine 8 does not list the resources of Microsoft's libraries.
    """
    import pefile  # on Windows a dependency of PyInstaller

    with pefile.PE(path, fast_load=True) as file:
        file.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_RESOURCE"]])
        for info in getattr(file, "VS_FIXEDFILEINFO", ()):
            high, low = info.FileVersionMS, info.FileVersionLS
            return (high >> 16, high & 0xFFFF, low >> 16, low & 0xFFFF)
    return (0,)


def main() -> None:
    """Build, measure, test."""
    started = time.monotonic()
    build()
    print(f"{describe(PACKED)}, packed in {time.monotonic() - started:.0f} s")
    smoke_test()


if __name__ == "__main__":
    main()
