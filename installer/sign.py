"""Sign programs for Windows (Authenticode), and look at signatures.

    python -m installer.sign sign FILE_OR_FOLDER...   files; of folders, what has no signature yet
    python -m installer.sign verify FILE... [--issuer PEM]
    python -m installer.sign throw-away FOLDER        a certificate for trying it out

Signing reads its environment:

    UPREEL_SIGN_PFX         the certificate with its key, a PKCS#12 file
    UPREEL_SIGN_PASSWORD    its password
    UPREEL_SIGN_TIMESTAMP   address of a time-stamp service (RFC 3161); "none" for a try: without
                            a time a signature ends with its certificate

Works with osslsigncode, or where that is missing with Windows' signtool.
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


class SignError(Exception):
    """Something could not be signed, or is not signed as it should be."""


@dataclass(frozen=True)
class Certificate:
    """What signs.

    Args:
        pfx: PKCS#12 file with certificate and key.
        password: Of that file.
        timestamp: Address of a time-stamp service; "" for none.
    """

    pfx: Path
    password: str
    timestamp: str

    @classmethod
    def of_environment(cls) -> Certificate:
        """As the environment says.

        Raises:
            SignError: It says nothing, or half of it.
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
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("sign", help="files; of folders, what has no signature yet")
    one.add_argument("paths", nargs="+", type=Path)
    one = parts.add_parser("verify", help="whether files are signed and unchanged")
    one.add_argument("paths", nargs="+", type=Path)
    one.add_argument("--issuer", type=Path, metavar="PEM", help="trust this certificate")
    one = parts.add_parser("throw-away", help="make a certificate for trying it out")
    one.add_argument("folder", type=Path)
    args = parser.parse_args(arguments)
    try:
        if args.part == "sign":
            for path in args.paths:
                done = sign_folder(path) if path.is_dir() else sign_files([path])
                print(f"signed: {len(done)} of {path}")
        elif args.part == "verify":
            for path in args.paths:
                verify(path, args.issuer)
                print(f"signature holds: {path}")
        else:
            certificate = throw_away(args.folder)
            print(f"{certificate.pfx}, password {certificate.password}")
    except (SignError, OSError, subprocess.TimeoutExpired) as err:
        print(f"not signed: {err}", file=sys.stderr)
        return 1
    return 0


def sign_folder(folder: Path, certificate: Certificate | None = None) -> list[Path]:
    """Sign all programs and libraries below a folder that have no signature; which they were.

    Raises:
        SignError: One could not be signed.
    """
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _ENDINGS)
    unsigned = [path for path in found if path.is_file() and not is_signed(path)]
    return sign_files(unsigned, certificate)


def sign_files(files: Iterable[Path], certificate: Certificate | None = None) -> list[Path]:
    """Sign files where they lie.

    Args:
        files: Programs and libraries.
        certificate: Default: that of the environment.

    Raises:
        SignError: One could not be signed; that one is as it was.
    """
    used = certificate or Certificate.of_environment()
    done = []
    for file in files:
        with tempfile.TemporaryDirectory() as place:
            copy, password = Path(place, file.name), Path(place, "password")
            password.touch(mode=0o600)
            password.write_text(used.password, encoding="utf-8")
            _run(signing_words(used, file, copy, password), used.password)
            shutil.copyfile(copy, file)  # keeps mode and owner of the file
        done.append(file)
    return done


def signing_words(used: Certificate, file: Path, copy: Path, password: Path) -> list[str]:
    """The words that sign `file`; the result is `copy`.

    Raises:
        SignError: No tool is there.
    """
    stamp = used.timestamp
    if tool := shutil.which("osslsigncode"):
        words = [tool, "sign", "-pkcs12", str(used.pfx), "-readpass", str(password), "-h", "sha256"]
        words += ["-n", _NAME, *(["-ts", stamp] if stamp else [])]
        return [*words, "-in", str(file), "-out", str(copy)]
    if tool := shutil.which("signtool"):
        shutil.copyfile(file, copy)
        words = [tool, "sign", "/q", "/f", str(used.pfx), "/p", used.password, "/fd", "SHA256"]
        words += ["/d", _NAME, *(["/tr", stamp, "/td", "SHA256"] if stamp else [])]
        return [*words, str(copy)]
    raise SignError("neither osslsigncode nor signtool is there")


def verify(file: Path, issuer: Path | None = None) -> None:
    """Look whether a file is signed and unchanged.

    Args:
        file: A program, library or setup.
        issuer: PEM of a certificate to trust; default: those that the system trusts.

    Raises:
        SignError: It is not, or nobody trusts who signed.
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
        raise SignError("neither osslsigncode nor signtool is there")


def is_signed(file: Path) -> bool:
    """Whether a file for Windows carries a signature, right or wrong.

    Raises:
        SignError: It is no program or library for Windows.
    """
    with file.open("rb") as stream:
        head = stream.read(4096)
    try:
        (header,) = struct.unpack_from("<I", head, _PE_SIGNATURE_AT)
        optional = header + 24
        (magic,) = struct.unpack_from("<H", head, optional)
        table = optional + {0x10B: 96, 0x20B: 112}[magic]
        _, size = struct.unpack_from("<II", head, table + 8 * _CERTIFICATES)
    except (struct.error, KeyError) as err:
        raise SignError(f"{file} is no program for Windows") from err
    if head[:2] != b"MZ" or head[header : header + 4] != b"PE\0\0":
        raise SignError(f"{file} is no program for Windows")
    return bool(size)


def throw_away(folder: Path) -> Certificate:
    """Make a certificate that nobody trusts, for trying it out: `try.pfx` and `try.pem`.

    Raises:
        SignError: There is no openssl, or it failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key, pem, pfx = folder / "try.key", folder / "try.pem", folder / "try.pfx"
    password = secrets.token_hex(8)
    openssl = shutil.which("openssl")
    if openssl is None:
        raise SignError("openssl is not there")
    name = ["-subj", "/CN=Upreel, only a try", "-addext", "extendedKeyUsage=codeSigning"]
    made = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out", str(pem)]
    _run([openssl, "req", "-x509", *made, *name], "")
    packed = ["-inkey", str(key), "-in", str(pem), "-out", str(pfx), "-passout", f"pass:{password}"]
    _run([openssl, "pkcs12", "-export", *packed], password)
    return Certificate(pfx, password, "")


def _run(words: Sequence[str], secret: str) -> None:
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr)[-1200:].strip()
        raise SignError(f"{Path(words[0]).name}: {said.replace(secret, '***') if secret else said}")


if __name__ == "__main__":
    sys.exit(main())
