"""Pack Upreel into dist/upreel, then let the packed program test itself.

    python -m installer.freeze

Collects the licence texts, runs PyInstaller on app.spec, puts the licence beside the program, and
runs `upreel --smoke-test`; ends with an error when any of these fails. Needs the extra `dev`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
PACKED = ROOT / "dist" / "upreel"
SUFFIX = ".exe" if sys.platform == "win32" else ""
SMOKE_TEST_LIMIT_S = 300
FOLDER_LIMIT_MB = 900  # 10^6 bytes


def build() -> None:
    """Make dist/upreel anew."""
    licences = BUILD / "licences" / "THIRD_PARTY_LICENCES.txt"
    collect: list[str | Path] = [sys.executable, ROOT / "installer" / "licences.py", licences]
    subprocess.run(collect, check=True)
    command: list[str | Path] = [
        *(sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"),
        *("--distpath", ROOT / "dist", "--workpath", BUILD / "pyinstaller"),
        ROOT / "installer" / "app.spec",
    ]
    subprocess.run(command, check=True, cwd=ROOT)
    for name in ("LICENSE", "THIRD_PARTY_NOTICES.md"):
        shutil.copy2(ROOT / name, PACKED / name)
    for path in PACKED.rglob("*"):
        if not path.is_symlink():  # every user may read it, whatever the modes were here
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o644))


def describe(folder: Path) -> str:
    """Size and number of files of a folder, in words.

    Raises:
        SystemExit: It is larger than a download should be.
    """
    sizes = [path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()]
    text = f"{folder.relative_to(ROOT)}: {sum(sizes) / 1e6:.0f} MB in {len(sizes)} files"
    if sum(sizes) > FOLDER_LIMIT_MB * 1e6:
        raise SystemExit(f"{text}: more than {FOLDER_LIMIT_MB} MB")
    return text


def smoke_test() -> None:
    """Run the packed program's own test, without a display, in folders of its own.

    Raises:
        SystemExit: It failed; the result it wrote is printed.
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
    test: list[str | Path] = [PACKED / f"upreel{SUFFIX}", "--smoke-test", "--out", result]
    status = subprocess.run(
        test, check=False, cwd=folder, env=environment, timeout=SMOKE_TEST_LIMIT_S
    ).returncode
    said = result.read_text(encoding="utf-8") if result.is_file() else "it wrote no result"
    if status or not json.loads(said if result.is_file() else "{}").get("ok"):
        raise SystemExit(f"The smoke test failed with status {status}:\n{said}")
    print(f"smoke test passed in {time.monotonic() - started:.1f} s\n{said}")


def main() -> None:
    """Build, measure, test."""
    started = time.monotonic()
    build()
    print(f"{describe(PACKED)}, packed in {time.monotonic() - started:.0f} s")
    smoke_test()


if __name__ == "__main__":
    main()
