"""Describe and sign a newer version for the program's own look for updates.

    python -m installer.sign_manifest make-key --out FILE
    python -m installer.sign_manifest fill --address ADDRESS --public KEY [--public NEXT_KEY]
    python -m installer.sign_manifest fill --check
    python -m installer.sign_manifest sign --key FILE --setup SETUP.exe --notes NOTES.md --out DIR
    python -m installer.sign_manifest verify --public KEY DIR/update.json

make-key writes a new private Ed25519 key (keep it off the repository) and prints the public one.
fill writes the address of `update.json` and the public keys into resources/update.toml before the
program is frozen; --check fails where they are missing. sign writes update.json and
update.json.sig beside the setup that they describe; Chinese notes are taken from NOTES.zh_CN.md
beside NOTES.md. verify looks at all three as the program will. To change keys, release once with
both as --public, then sign with both (--key twice) until old versions have gone.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from nacl.signing import SigningKey

from engine.core.errors import EngineError
from engine.updates import build, manifest

ROOT = Path(__file__).resolve().parents[1]
UPDATE_TOML = ROOT / "resources" / "update.toml"
_KEY = re.compile(r"[0-9a-f]{64}")


class SignError(Exception):
    """This cannot be signed, or is not signed as it should be."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one of them; the exit status."""
    args = _parser().parse_args(arguments)
    try:
        print(args.do(args))
    except (SignError, EngineError, OSError, ValueError) as err:
        print(f"{args.part}: {err}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Describe and sign a newer version.")
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("make-key", help="a new private key; prints its public one")
    part.set_defaults(do=lambda args: make_key(args.out))
    part.add_argument("--out", type=Path, required=True, metavar="FILE")
    part = parts.add_parser("fill", help="write address and keys into resources/update.toml")
    part.set_defaults(do=_fill)
    part.add_argument("--address", default="", help="of update.json, where it will be published")
    part.add_argument("--public", action="append", default=[], metavar="KEY")
    part.add_argument("--check", action="store_true", help="only look whether they are there")
    part.add_argument("--file", type=Path, default=UPDATE_TOML, help=argparse.SUPPRESS)
    part = parts.add_parser("sign", help="write update.json and update.json.sig")
    part.set_defaults(do=_sign)
    part.add_argument("--key", type=Path, action="append", required=True, metavar="FILE")
    part.add_argument("--setup", type=Path, required=True, metavar="SETUP.exe")
    part.add_argument("--notes", type=Path, required=True, metavar="NOTES.md")
    part.add_argument("--out", type=Path, required=True, metavar="DIR")
    part = parts.add_parser("verify", help="look at all as the program will")
    part.set_defaults(do=lambda args: verify(args.file, args.public))
    part.add_argument("--public", action="append", required=True, metavar="KEY")
    part.add_argument("file", type=Path, metavar="DIR/update.json")
    return parser


def make_key(path: Path) -> str:
    """Write a new private key that only this user may read; the public one, 64 digits.

    Raises:
        SignError: Something is there: a key is never written over.
    """
    if path.exists():
        raise SignError(f"{path} is there already, and a key is never written over")
    key = SigningKey.generate()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key.encode().hex() + "\n")
    return key.verify_key.encode().hex()


def read_key(path: Path) -> SigningKey:
    """A private key as `make_key` wrote it.

    Raises:
        SignError: It is none; what stands in it is not shown.
    """
    text = path.read_text("utf-8").strip()
    if not _KEY.fullmatch(text):
        raise SignError(f"{path} holds no private key")
    return SigningKey(bytes.fromhex(text))


def _fill(args: argparse.Namespace) -> str:
    if args.check:
        found = build.read(args.file)
        if not found.is_here:
            raise SignError(f"{args.file.name} lacks the address or the keys")
        return f"{found.address}, {len(found.keys)} keys"
    if not args.public or not all(_KEY.fullmatch(key) for key in args.public):
        raise SignError("--public takes 64 hexadecimal digits, as make-key prints them")
    if not build.is_safe(args.address) or re.search(r'["\\\s]', args.address):
        raise SignError("--address takes an https:// address")
    text = filled_in(args.file.read_text("utf-8"), args.address, args.public)
    args.file.write_text(text, encoding="utf-8")
    return f"{args.address}, {len(args.public)} keys"


def filled_in(text: str, address: str, keys: Sequence[str]) -> str:
    """The file's text with these in it; comments stay."""
    words = ", ".join(f'"{key}"' for key in keys)
    values = {"address": f'"{address}"', "keys": f"[{words}]"}
    lines = []
    for line in text.splitlines():
        name = line.partition("=")[0].strip()
        lines.append(f"{name} = {values[name]}" if name in values else line)
    return "\n".join(lines) + "\n"


def _sign(args: argparse.Namespace) -> str:
    content = description(args.setup, notes(args.notes), datetime.now(UTC).date())
    found = manifest.parse(content)  # what the program would refuse is not published
    keys = [read_key(path) for path in args.key]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / manifest.NAME).write_bytes(content)
    (args.out / manifest.SIGNATURE).write_bytes(signatures(content, keys))
    languages = ", ".join(found.notes)
    return f"Upreel {found.version}, {found.setup.bytes:,} bytes, notes in {languages}"


def description(setup: Path, words: dict[str, str], day: date) -> bytes:
    """What is signed.

    Raises:
        SignError: The setup is not that of the version in pyproject.toml.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    expected = f"upreel-{project['version']}-setup.exe"
    if setup.name != expected:
        raise SignError(f"the setup is {setup.name}, and of this version would be {expected}")
    with setup.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    about = {
        "product": manifest.PRODUCT,
        "format": manifest.FORMAT,
        "version": project["version"],
        "date": day.isoformat(),
        "notes": words,
        "setup": {"name": setup.name, "bytes": setup.stat().st_size, "sha256": digest},
    }
    return (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode()


def notes(english: Path) -> dict[str, str]:
    """What is new, by language; Chinese where it lies beside.

    Raises:
        SignError: There is nothing in it.
    """
    found = {"en": english.read_text("utf-8").strip()}
    chinese = english.with_suffix(".zh_CN.md")
    if chinese.is_file():
        found["zh_CN"] = chinese.read_text("utf-8").strip()
    if not all(found.values()):
        raise SignError("the notes are empty")
    return found


def signatures(content: bytes, keys: Sequence[SigningKey]) -> bytes:
    """A line with a signature for each key."""
    return b"".join(base64.b64encode(key.sign(content).signature) + b"\n" for key in keys)


def verify(path: Path, keys: Sequence[str]) -> str:
    """Look at a description, its signature and its setup as the program will.

    Raises:
        UpdateError: The program would refuse the description.
        SignError: The setup beside it is not the one described.
    """
    signed = path.with_name(manifest.SIGNATURE).read_text("ascii", "replace")
    found = manifest.read(path.read_bytes(), signed, keys)
    setup = path.with_name(found.setup.name)
    if not setup.is_file():
        raise SignError(f"{setup.name} does not lie beside {path.name}")
    with setup.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if (setup.stat().st_size, digest) != (found.setup.bytes, found.setup.sha256):
        raise SignError(f"{setup.name} is not the setup that {path.name} describes")
    return f"Upreel {found.version} of {found.date}, {found.setup.name}: signed and whole"


if __name__ == "__main__":
    sys.exit(main())
