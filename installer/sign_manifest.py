"""Describes and signs a newer version for the program's update check.

    python -m installer.sign_manifest make-key --out FILE
    python -m installer.sign_manifest fill --address ADDRESS --public KEY [--public NEXT_KEY]
    python -m installer.sign_manifest sign --key FILE --setup SETUP.exe --notes NOTES.md --out DIR
    python -m installer.sign_manifest renew --key FILE DIR/update.json
    python -m installer.sign_manifest verify --public KEY DIR/update.json

make-key writes a new private Ed25519 key (keep it out of the repository) and prints the public
one. fill writes the address of `update.json` and the public keys into resources/update.toml before
the program is frozen. sign writes update.json and update.json.sig into the folder of the setup
that they describe; Chinese notes come from NOTES.zh_CN.md next to NOTES.md. A description expires
after half a year, because programs have to notice that somebody holds back a newer one; renew
signs the same again, for a release that is still the newest one or is so again. verify checks all
three as the program does. To change keys, release once with both as --public, then sign with both
(--key twice) until old versions are gone.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from engine.core.errors import EngineError
from engine.delivery import manifest
from engine.files.http_client import is_safe
from installer import project
from installer.project import ROOT, PackagingError

UPDATE_TOML = ROOT / "resources" / "update.toml"
_VALID = timedelta(days=182)
_KEY = re.compile(r"[0-9a-f]{64}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    args = _parser().parse_args(arguments)
    try:
        print(args.run(args))
    except (PackagingError, EngineError, OSError, ValueError) as err:
        print(f"{args.command}: {err}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Describe and sign a newer version.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("make-key", help="a new private key; prints its public one")
    command.set_defaults(run=lambda args: make_key(args.out))
    command.add_argument("--out", type=Path, required=True, metavar="FILE")
    command = commands.add_parser("fill", help="write address and keys into resources/update.toml")
    command.set_defaults(run=_fill)
    command.add_argument("--address", required=True, help="of update.json in the release")
    command.add_argument("--public", action="append", required=True, metavar="KEY")
    command.add_argument("--file", type=Path, default=UPDATE_TOML, help=argparse.SUPPRESS)
    command = commands.add_parser("sign", help="write update.json and update.json.sig")
    command.set_defaults(run=_sign)
    command.add_argument("--key", type=Path, action="append", required=True, metavar="FILE")
    command.add_argument("--setup", type=Path, required=True, metavar="SETUP.exe")
    command.add_argument("--notes", type=Path, required=True, metavar="NOTES.md")
    command.add_argument("--out", type=Path, required=True, metavar="DIR")
    command = commands.add_parser("renew", help="sign the same update.json for another half year")
    command.set_defaults(run=lambda args: renew(args.file, [read_key(key) for key in args.key]))
    command.add_argument("--key", type=Path, action="append", required=True, metavar="FILE")
    command.add_argument("file", type=Path, metavar="DIR/update.json")
    command = commands.add_parser("verify", help="verify them as the program does")
    command.set_defaults(run=lambda args: verify(args.file, args.public))
    command.add_argument("--public", action="append", required=True, metavar="KEY")
    command.add_argument("file", type=Path, metavar="DIR/update.json")
    return parser


def make_key(path: Path) -> str:
    """Write a new private key that only this user may read; the public one, 64 digits.

    Raises:
        PackagingError: The file exists: a key is never overwritten.
    """
    if path.exists():
        raise PackagingError(f"{path} exists already, and a key is never overwritten")
    key = SigningKey.generate()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key.encode().hex() + "\n")
    return key.verify_key.encode().hex()


def read_key(path: Path) -> SigningKey:
    """A private key as `make_key` wrote it.

    Raises:
        PackagingError: It is none; the message does not show its content.
    """
    text = path.read_text("utf-8").strip()
    if not _KEY.fullmatch(text):
        raise PackagingError(f"{path} holds no private key")
    return SigningKey(bytes.fromhex(text))


def _fill(args: argparse.Namespace) -> str:
    if not all(_KEY.fullmatch(key) for key in args.public):
        raise PackagingError("--public takes 64 hexadecimal digits, as make-key prints them")
    if not is_safe(args.address) or re.search(r'["\\\s]', args.address):
        raise PackagingError("--address takes an https:// address")
    text = filled_in(args.file.read_text("utf-8"), args.address, args.public)
    args.file.write_text(text, encoding="utf-8")
    return f"{args.address}, {len(args.public)} keys"


def filled_in(text: str, address: str, keys: Sequence[str]) -> str:
    """The file's text with this address and these keys; comments stay."""
    quoted = ", ".join(f'"{key}"' for key in keys)
    values = {"address": f'"{address}"', "keys": f"[{quoted}]"}
    lines = []
    for line in text.splitlines():
        name = line.partition("=")[0].strip()
        lines.append(f"{name} = {values[name]}" if name in values else line)
    return "\n".join(lines) + "\n"


def _sign(args: argparse.Namespace) -> str:
    about = description(args.setup, notes(args.notes), datetime.now(UTC).date())
    return _write(args.out, about, [read_key(path) for path in args.key])


def renew(path: Path, keys: Sequence[SigningKey]) -> str:
    """Sign a description again, with a later counter and date of expiry.

    Raises:
        UpdateError: It is no description that the program would accept, but for its signature.
    """
    content = path.read_bytes()
    manifest.parse(content)
    return _write(path.parent, json.loads(content), keys)


def _write(folder: Path, about: dict[str, Any], keys: Sequence[SigningKey]) -> str:
    """Sign a description from now on and write both files; what was written."""
    now = datetime.now(UTC)
    expires = now.date() + _VALID
    about |= {"counter": int(now.timestamp()), "expires": expires.isoformat()}
    content = (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode()
    found = manifest.parse(content)  # the program would refuse an invalid one
    folder.mkdir(parents=True, exist_ok=True)
    (folder / manifest.NAME).write_bytes(content)
    (folder / manifest.SIGNATURE).write_bytes(signatures(content, keys))
    languages = ", ".join(found.notes)
    return (
        f"Upreel {found.version}, {found.setup.bytes:,} bytes, notes in {languages}, "
        f"expires on {found.expires}"
    )


def description(setup: Path, notes_by_language: dict[str, str], day: date) -> dict[str, Any]:
    """Content of update.json without what each signature changes.

    Raises:
        PackagingError: The setup is not that of the version in pyproject.toml.
    """
    version = project.version()
    if setup.name != project.setup_name(version):
        raise PackagingError(f"the setup is {setup.name}, not {project.setup_name(version)}")
    return {
        "product": manifest.PRODUCT,
        "format": manifest.FORMAT,
        "version": version,
        "date": day.isoformat(),
        "notes": notes_by_language,
        "setup": {
            "name": setup.name,
            "bytes": setup.stat().st_size,
            "sha256": project.sha256_of(setup),
        },
    }


def notes(english: Path) -> dict[str, str]:
    """Release notes by language; Chinese ones where the file exists.

    Raises:
        PackagingError: A file is empty.
    """
    found = {"en": english.read_text("utf-8").strip()}
    chinese = english.with_suffix(".zh_CN.md")
    if chinese.is_file():
        found["zh_CN"] = chinese.read_text("utf-8").strip()
    if not all(found.values()):
        raise PackagingError("the notes are empty")
    return found


def signatures(content: bytes, keys: Sequence[SigningKey]) -> bytes:
    """A line with a signature for each key."""
    return b"".join(base64.b64encode(key.sign(content).signature) + b"\n" for key in keys)


def verify(path: Path, keys: Sequence[str]) -> str:
    """Verify a description, its signature, its expiry and its setup as the program does.

    Raises:
        UpdateError: The program would refuse the description.
        PackagingError: The setup next to it is not the one described.
    """
    signed = path.with_name(manifest.SIGNATURE).read_text("ascii", "replace")
    found = manifest.read(path.read_bytes(), signed, keys)
    manifest.check_fresh(found, ())
    setup = path.with_name(found.setup.name)
    if not setup.is_file():
        raise PackagingError(f"{setup.name} is not next to {path.name}")
    actual = (setup.stat().st_size, project.sha256_of(setup))
    if actual != (found.setup.bytes, found.setup.sha256):
        raise PackagingError(f"{setup.name} is not the setup that {path.name} describes")
    return (
        f"Upreel {found.version} of {found.date}, {found.setup.name}, until {found.expires}: "
        "signed and complete"
    )


if __name__ == "__main__":
    sys.exit(main())
