"""Makes Upreel's setup for Windows from a packed program, on Windows or elsewhere.

    python -m installer.build_setup --payload dist/upreel --out release
    python -m installer.build_setup --payload dist/upreel --out release --portable --sign

Makes `upreel-VERSION-setup.exe`, with --portable also `upreel-VERSION-portable.zip`, and their
SHA256SUMS. With --sign the programs and libraries of the payload, the uninstaller and the setup are
signed; sign.py reads the certificate from its environment. Needs `makensis` (NSIS 3.08 or newer)
and PySide6, which paints the pictures of the pages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from installer import project, setup_parts, sign
from installer.project import ROOT, PackagingError

_LONGEST_PATH = 259  # characters, without the final zero
_PROGRAMS = ("upreel.exe", "upreel-cli.exe")
_NSIS = ("makensis", "C:/Program Files (x86)/NSIS/makensis.exe", "NSIS 3.08 or newer")


@dataclass(frozen=True)
class SetupOptions:
    """Options of a setup.

    Args:
        payload: Folder of the packed program.
        out: Folder of the results.
        version: Version of the program.
        is_fast: Use a fast compressor, for tests.
        is_signed: Sign the setup and the uninstaller.
    """

    payload: Path
    out: Path
    version: str
    is_fast: bool = False
    is_signed: bool = False

    @property
    def setup(self) -> Path:
        """The setup."""
        return self.out / project.setup_name(self.version)

    @property
    def portable(self) -> Path:
        """The zip."""
        return self.out / f"upreel-{self.version}-portable.zip"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the files that the arguments name; the exit status."""
    args = _parser().parse_args(arguments)
    try:
        files = _make(args)
        print(project.write_sums(files, args.out), end="")
    except (PackagingError, sign.SignError, OSError, subprocess.TimeoutExpired) as err:
        print(f"no setup: {err}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Make Upreel's setup for Windows.")
    parser.add_argument("--payload", type=Path, required=True, metavar="DIR", help="packed program")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of results")
    parser.add_argument("--portable", action="store_true", help="also make the zip")
    parser.add_argument("--sign", action="store_true", help="sign programs, libraries and setup")
    parser.add_argument("--fast", action="store_true", help="compress fast, for tests")
    parser.add_argument("--version", metavar="X.Y.Z", help="instead of pyproject's, for tests")
    return parser


def _make(args: argparse.Namespace) -> list[Path]:
    options = SetupOptions(
        payload=args.payload.resolve(),
        out=args.out.resolve(),
        version=args.version or project.version(),
        is_fast=args.fast,
        is_signed=args.sign,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    if options.is_signed:
        signed = sign.sign_folder(options.payload)
        print(f"signed {len(signed)} files of the payload")
    make_setup(options)
    if not args.portable:
        return [options.setup]
    started = time.monotonic()
    setup_parts.write_zip(options.payload, options.portable)
    _print_size(options.portable, started)
    return [options.setup, options.portable]


def make_setup(options: SetupOptions) -> None:
    """Make the setup.

    Raises:
        PackagingError: makensis is missing or failed, or the folder cannot be installed.
        SignError: The setup could not be signed.
    """
    started = time.monotonic()
    for name in _PROGRAMS:
        if not (options.payload / name).is_file():
            raise PackagingError(f"{options.payload} has no {name}")
    with tempfile.TemporaryDirectory() as folder:
        arguments = makensis_arguments(options, Path(folder))
        project.run_tool([project.find_tool(*_NSIS), *arguments])
    if options.is_signed:
        sign.sign_files([options.setup])
    _print_size(options.setup, started)


def makensis_arguments(options: SetupOptions, work: Path) -> list[str]:
    """Write the files that setup.nsi includes into `work`; the arguments of makensis.

    A warning of makensis is an error.

    Raises:
        PackagingError: As `make_setup`.
    """
    listed = setup_parts.listing(options.payload)
    setup_parts.write_list(listed, work / "payload.files")
    setup_parts.write_types(work / "types.nsh")
    setup_parts.write_licences(work)
    setup_parts.write_pictures(work)
    defines = {
        "VERSION": options.version,
        "VERSION4": four_numbers(options.version),
        "PAYLOAD": options.payload / "*",
        "FILES": work / "payload.files",
        "TYPES": work / "types.nsh",
        "LICENCES": work,
        "PICTURES": work,
        "ICON": ROOT / "resources" / "icons" / "upreel.ico",
        "OUTFILE": options.setup,
        "SIZE_KB": listed.bytes // 1024,
        "NEEDED_MB": listed.bytes * 21 // 20 // 2**20 + 20,
        "LONGEST_FOLDER": _LONGEST_PATH - len("\\~upreel-new\\") - listed.longest,
    }
    if options.is_fast:
        defines["FAST"] = "yes"
    if options.is_signed:
        defines["SIGN"] = f'"{sys.executable}" "{ROOT / "installer" / "sign.py"}" sign'
    script = ROOT / "installer" / "setup.nsi"
    given = [f"-D{name}={value}" for name, value in defines.items()]
    return ["-WX", "-V2", "-INPUTCHARSET", "UTF8", *given, str(script)]


def four_numbers(version: str) -> str:
    """A version in the format of Windows' resources: "0.1.0" is 0.1.0.0."""
    parts = [part for part in version.split(".") if part.isdecimal()][:4]
    return ".".join(parts + ["0"] * (4 - len(parts)))


def _print_size(file: Path, started: float) -> None:
    size = file.stat().st_size / 1e6
    print(f"{file.name}: {size:.1f} MB in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
