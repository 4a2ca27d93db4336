"""Make Upreel's setup for Windows of a packed program, on Windows or elsewhere.

    python -m installer.build_setup --payload dist/upreel --out release
    python -m installer.build_setup --payload dist/upreel --out release --portable --sign

Makes `upreel-VERSION-setup.exe`, with --portable also `upreel-VERSION-portable.zip`, and SHA256SUMS
of them. With --sign the programs and libraries of the payload, the uninstaller and the setup are
signed as `sign.py` is told by its environment. Needs `makensis` (NSIS 3.08 or newer) and PySide6,
which paints the pictures of the pages.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from installer import setup_parts, setup_pictures, sign

ROOT = Path(__file__).resolve().parents[1]
_LONGEST_PATH = 259  # characters, without the zero at the end
_PROGRAMS = ("upreel.exe", "upreel-cli.exe")


class BuildError(Exception):
    """No setup can be made of this."""


@dataclass(frozen=True)
class Order:
    """What is to be made.

    Args:
        payload: Folder of the packed program.
        out: Folder of the results.
        version: As in pyproject.
        is_fast: A quick compressor, for tests.
        is_signed: Sign what is made.
    """

    payload: Path
    out: Path
    version: str
    is_fast: bool = False
    is_signed: bool = False

    @property
    def setup(self) -> Path:
        """The setup."""
        return self.out / f"upreel-{self.version}-setup.exe"

    @property
    def portable(self) -> Path:
        """The zip."""
        return self.out / f"upreel-{self.version}-portable.zip"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make what the words ask for; the exit status."""
    args = _parser().parse_args(arguments)
    try:
        made = _make(args)
        print(setup_parts.write_sums(made, args.out), end="")
    except (BuildError, setup_parts.PayloadError, sign.SignError, OSError) as err:
        print(f"no setup: {err}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Make Upreel's setup for Windows.")
    parser.add_argument("--payload", type=Path, required=True, metavar="DIR", help="packed program")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to")
    parser.add_argument("--portable", action="store_true", help="also make the zip")
    parser.add_argument("--sign", action="store_true", help="sign programs, libraries and setup")
    parser.add_argument("--fast", action="store_true", help="compress quickly, for tests")
    parser.add_argument("--version", metavar="X.Y.Z", help="instead of pyproject's, for tests")
    return parser


def _make(args: argparse.Namespace) -> list[Path]:
    order = Order(
        payload=args.payload.resolve(),
        out=args.out.resolve(),
        version=args.version or project_version(),
        is_fast=args.fast,
        is_signed=args.sign,
    )
    order.out.mkdir(parents=True, exist_ok=True)
    if order.is_signed:
        signed = sign.sign_folder(order.payload)
        print(f"signed {len(signed)} files of the payload")
    make_setup(order)
    if not args.portable:
        return [order.setup]
    started = time.monotonic()
    setup_parts.write_zip(order.payload, order.portable)
    _say(order.portable, started)
    return [order.setup, order.portable]


def project_version() -> str:
    """Version of pyproject."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def make_setup(order: Order) -> None:
    """Make the setup.

    Raises:
        BuildError: makensis is not there, or does not like what it got.
        PayloadError: The folder is no packed program.
        SignError: The setup could not be signed.
    """
    started = time.monotonic()
    for name in _PROGRAMS:
        if not (order.payload / name).is_file():
            raise BuildError(f"{order.payload} has no {name}")
    with tempfile.TemporaryDirectory() as place:
        run_makensis(words(order, Path(place)))
    if order.is_signed:
        sign.sign_files([order.setup])
    _say(order.setup, started)


def words(order: Order, work: Path) -> list[str]:
    """Write what setup.nsi includes into `work`; the words of makensis.

    Raises:
        PayloadError: As `make_setup`.
    """
    listed = setup_parts.listing(order.payload)
    setup_parts.write_list(listed, work / "payload.files")
    setup_parts.write_types(work / "types.nsh")
    setup_parts.write_licences(work)
    setup_pictures.paint(work)
    defined = {
        "VERSION": order.version,
        "VERSION4": four_numbers(order.version),
        "PAYLOAD": order.payload / "*",
        "FILES": work / "payload.files",
        "TYPES": work / "types.nsh",
        "LICENCES": work,
        "PICTURES": work,
        "ICON": ROOT / "resources" / "icons" / "upreel.ico",
        "OUTFILE": order.setup,
        "SIZE_KB": listed.bytes // 1024,
        "NEEDED_MB": listed.bytes * 21 // 20 // 2**20 + 20,
        "LONGEST_FOLDER": _LONGEST_PATH - len("\\~upreel-new\\") - listed.longest,
    }
    if order.is_fast:
        defined["FAST"] = "yes"
    if order.is_signed:
        defined["SIGN"] = f'"{sys.executable}" "{ROOT / "installer" / "sign.py"}" sign'
    given = [f"-D{name}={value}" for name, value in defined.items()]
    script = ROOT / "installer" / "setup.nsi"
    return ["-WX", "-V2", "-INPUTCHARSET", "UTF8", *given, str(script)]


def four_numbers(version: str) -> str:
    """A version as Windows' resources want it: "0.1.0" is 0.1.0.0."""
    numbers = [part for part in version.split(".") if part.isdecimal()][:4]
    return ".".join(numbers + ["0"] * (4 - len(numbers)))


def run_makensis(arguments: Sequence[str]) -> None:
    """Run it; a warning is an error.

    Raises:
        BuildError: It failed.
    """
    program = find_makensis()
    done = subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise BuildError(f"makensis failed:\n{(done.stdout + done.stderr)[-3000:]}")


def find_makensis() -> str:
    """On the path, or where NSIS' own setup puts it.

    Raises:
        BuildError: It is not installed.
    """
    usual = PureWindowsPath("C:/Program Files (x86)/NSIS/makensis.exe")
    found = shutil.which("makensis") or (str(usual) if Path(usual).is_file() else None)
    if found is None:
        raise BuildError("makensis is not there; install NSIS 3.08 or newer")
    return found


def _say(file: Path, started: float) -> None:
    size = file.stat().st_size / 1e6
    print(f"{file.name}: {size:.1f} MB in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
