"""Signs programs for Windows (Authenticode), and verifies signatures.

    python -m installer.sign sign FILE_OR_FOLDER...    of folders, the files without a signature
    python -m installer.sign verify FILE... [--issuer PEM]
    python -m installer.sign test-certificate FOLDER   a self-signed certificate for a trial

Signing reads its environment:

    UPREEL_SIGN_PFX         PKCS#12 file with the certificate and its key
    UPREEL_SIGN_PASSWORD    its password
    UPREEL_SIGN_TIMESTAMP   address of a time-stamp service (RFC 3161); "none" for a trial: without
                            a time stamp a signature expires with its certificate

Uses osslsigncode, or Windows' signtool where that is missing. makensis runs this file as a script,
so it imports the standard library only.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_ENDINGS = frozenset({".exe", ".dll", ".pyd"})
_PE_SIGNATURE_AT = 0x3C
_CERTIFICATES = 4  # index in the table of data directories of a PE file
_LIMIT_S = 600
_NAME = "Upreel"
_NO_TOOL = "neither osslsigncode nor signtool is installed"


class SignError(Exception):
    """A file could not be signed, or has no valid signature."""


@dataclass(frozen=True)
class Certificate:
    """A certificate for code signing.

    Args:
        pfx: PKCS#12 file with certificate and key.
        password: Password of that file.
        timestamp: Address of a time-stamp service; "" for none.
    """

    pfx: Path
    password: str
    timestamp: str

    @classmethod
    def from_environment(cls) -> Certificate:
        """The certificate that the environment names.

        Raises:
            SignError: A variable is missing.
        """
        pfx = os.environ.get("UPREEL_SIGN_PFX", "")
        timestamp = os.environ.get("UPREEL_SIGN_TIMESTAMP", "")
        if not pfx or not Path(pfx).is_file():
            raise SignError("UPREEL_SIGN_PFX names no certificate file")
        if not timestamp:
            raise SignError("UPREEL_SIGN_TIMESTAMP names no time-stamp service")
        password = os.environ.get("UPREEL_SIGN_PASSWORD", "")
        return cls(Path(pfx), password, "" if timestamp == "none" else timestamp)


def main(arguments: Sequence[str] | None = None) -> int:
    """Sign, verify, or make a certificate; the exit status."""
    parser = argparse.ArgumentParser(description="Sign programs for Windows.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("sign", help="files; of folders, those without a signature")
    command.add_argument("paths", nargs="+", type=Path)
    command = commands.add_parser("verify", help="whether files are signed and unchanged")
    command.add_argument("paths", nargs="+", type=Path)
    command.add_argument("--issuer", type=Path, metavar="PEM", help="trust this certificate")
    command = commands.add_parser("test-certificate", help="make a certificate for a trial")
    command.add_argument("folder", type=Path)
    args = parser.parse_args(arguments)
    try:
        if args.command == "sign":
            for path in args.paths:
                signed = sign_folder(path) if path.is_dir() else sign_files([path])
                print(f"signed: {len(signed)} of {path}")
        elif args.command == "verify":
            for path in args.paths:
                verify(path, args.issuer)
                print(f"valid signature: {path}")
        else:
            certificate = make_test_certificate(args.folder)
            print(f"{certificate.pfx}, password {certificate.password}")
    except (SignError, OSError, subprocess.TimeoutExpired) as err:
        print(f"not signed: {err}", file=sys.stderr)
        return 1
    return 0


def sign_folder(folder: Path, certificate: Certificate | None = None) -> list[Path]:
    """Sign all programs and libraries below a folder that have no signature; their paths.

    Raises:
        SignError: A file could not be signed.
    """
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _ENDINGS)
    unsigned = [path for path in found if path.is_file() and not is_signed(path)]
    return sign_files(unsigned, certificate)


def sign_files(files: Iterable[Path], certificate: Certificate | None = None) -> list[Path]:
    """Sign files in place.

    Args:
        files: Programs and libraries.
        certificate: Default: that of the environment.

    Raises:
        SignError: A file could not be signed; it is unchanged.
    """
    used = certificate or Certificate.from_environment()
    signed = []
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            copy, password = Path(folder, file.name), Path(folder, "password")
            password.touch(mode=0o600)
            password.write_text(used.password, encoding="utf-8")
            _run(signing_command(used, file, copy, password), used.password)
            shutil.copyfile(copy, file)  # keeps mode and owner of the file
        signed.append(file)
    return signed


def signing_command(used: Certificate, file: Path, copy: Path, password: Path) -> list[str]:
    """The command that signs `file`; the result is `copy`.

    Raises:
        SignError: No tool is installed.
    """
    stamp = used.timestamp
    if tool := shutil.which("osslsigncode"):
        start = [tool, "sign", "-pkcs12", str(used.pfx), "-readpass", str(password), "-h", "sha256"]
        start += ["-n", _NAME, *(["-ts", stamp] if stamp else [])]
        return [*start, "-in", str(file), "-out", str(copy)]
    if tool := shutil.which("signtool"):
        shutil.copyfile(file, copy)
        start = [tool, "sign", "/q", "/f", str(used.pfx), "/p", used.password, "/fd", "SHA256"]
        start += ["/d", _NAME, *(["/tr", stamp, "/td", "SHA256"] if stamp else [])]
        return [*start, str(copy)]
    raise SignError(_NO_TOOL)


def verify(file: Path, issuer: Path | None = None) -> None:
    """Verify that a file is signed and unchanged.

    Args:
        file: A program, library or setup.
        issuer: PEM of a certificate to trust; default: those that the system trusts.

    Raises:
        SignError: It is not, or its certificate is not trusted.
    """
    if not is_signed(file):
        raise SignError(f"{file} has no signature")
    if tool := shutil.which("osslsigncode"):
        trust = ["-CAfile", str(issuer)] if issuer else []
        _run([tool, "verify", *trust, "-in", str(file)], "")
    elif tool := shutil.which("signtool"):
        if issuer:
            raise SignError("signtool trusts only certificates of the system")
        _run([tool, "verify", "/pa", "/q", str(file)], "")
    else:
        raise SignError(_NO_TOOL)


def is_signed(file: Path) -> bool:
    """Whether a file for Windows has a signature, valid or not.

    Raises:
        SignError: It is no program or library for Windows.
    """
    with file.open("rb") as stream:
        start = stream.read(4096)
    try:
        (header,) = struct.unpack_from("<I", start, _PE_SIGNATURE_AT)
        optional = header + 24
        (magic,) = struct.unpack_from("<H", start, optional)
        table = optional + {0x10B: 96, 0x20B: 112}[magic]
        _, size = struct.unpack_from("<II", start, table + 8 * _CERTIFICATES)
    except (struct.error, KeyError) as err:
        raise SignError(f"{file} is no program for Windows") from err
    if start[:2] != b"MZ" or start[header : header + 4] != b"PE\0\0":
        raise SignError(f"{file} is no program for Windows")
    return bool(size)


def make_test_certificate(folder: Path) -> Certificate:
    """Make a self-signed certificate for a trial: `test.pfx` and `test.pem`.

    Raises:
        SignError: openssl is not installed, or failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key, pem, pfx = folder / "test.key", folder / "test.pem", folder / "test.pfx"
    password = secrets.token_hex(8)
    openssl = shutil.which("openssl")
    if openssl is None:
        raise SignError("openssl is not installed")
    name = ["-subj", "/CN=Upreel, only a test", "-addext", "extendedKeyUsage=codeSigning"]
    files = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out", str(pem)]
    _run([openssl, "req", "-x509", *files, *name], "")
    packed = ["-inkey", str(key), "-in", str(pem), "-out", str(pfx), "-passout", f"pass:{password}"]
    _run([openssl, "pkcs12", "-export", *packed], password)
    return Certificate(pfx, password, "")


def _run(command: Sequence[str], secret: str) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode:
        output = (done.stdout + done.stderr)[-1200:].strip()
        shown = output.replace(secret, "***") if secret else output
        raise SignError(f"{Path(command[0]).name}: {shown}")


if __name__ == "__main__":
    sys.exit(main())
