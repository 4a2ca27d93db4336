"""What a release has to fulfil beside its tests; the release workflow calls these.

    python -m installer.release version v1.2.3      the tag, pyproject.toml and the changelog agree
    python -m installer.release notes --out FILE.md    the changelog's section of this version
    python -m installer.release sums FOLDER         sizes are within limits; write SHA256SUMS

One clear line and exit status 1 when something is not so.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETUP_LIMIT = 200_000_000  # bytes
ASSET_LIMIT = 2**31 - 1  # bytes; an asset of a release has to be smaller than 2 GiB
SUMS = "SHA256SUMS"

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_HIGHEST_PART = 65534  # Windows keeps each part of a version in 16 bits
_SETUP = re.compile(r"upreel-[\d.]+-setup\.exe")


class Unfit(Exception):
    """This cannot be released as it is."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one of them; the exit status."""
    parser = argparse.ArgumentParser(description="What a release has to fulfil.")
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("version", help="the tag, pyproject.toml and the changelog agree")
    one.add_argument("tag", help="as v1.2.3")
    one = parts.add_parser("notes", help="the changelog's section of this version")
    one.add_argument("--out", type=Path, required=True, metavar="FILE.md")
    one = parts.add_parser("sums", help="sizes are within limits; write SHA256SUMS")
    one.add_argument("folder", type=Path)
    args = parser.parse_args(arguments)
    try:
        if args.part == "version":
            fit = check_version(args.tag, version(), known_tags())
            notes(changelog(), fit)
            print(f"{fit} can be released")
        elif args.part == "notes":
            write_notes(args.out)
        else:
            check_sizes(args.folder)
            print(write_sums(args.folder), end="")
    except (Unfit, OSError, subprocess.CalledProcessError) as err:
        print(f"no release: {err}", file=sys.stderr)
        return 1
    return 0


def version() -> str:
    """The version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def changelog() -> str:
    """The changelog's text."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def known_tags() -> list[str]:
    """Tags of this checkout that name versions; needs its whole history."""
    command = ["git", "-C", str(ROOT), "tag", "--list", "v*"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def check_version(tag: str, ours: str, tags: Iterable[str]) -> str:
    """The version, if it can be released.

    Setups and updates compare versions as three numbers: 0.10.0 is newer than 0.9.0.

    Args:
        tag: Name of the tag that is released.
        ours: Version in pyproject.toml.
        tags: All tags that name versions.

    Raises:
        Unfit: It is no such version, another one than ours, or not the newest.
    """
    numbers = numbers_of(ours)
    if numbers is None or max(numbers) > _HIGHEST_PART:
        raise Unfit(f"{ours} in pyproject.toml is not three numbers, each up to {_HIGHEST_PART}")
    if tag != f"v{ours}":
        raise Unfit(f"the tag is {tag}, but pyproject.toml says {ours}")
    for other in tags:
        theirs = numbers_of(other.removeprefix("v"))
        if theirs is not None and theirs > numbers:
            raise Unfit(f"{other} is newer, nobody would be offered {ours}")
    return ours


def numbers_of(text: str) -> tuple[int, int, int] | None:
    """Three numbers of a version, or None where it is not such a one."""
    match = _VERSION.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def write_notes(english: Path) -> None:
    """Write this version's notes; beside them the Chinese ones, where somebody has written them.

    Raises:
        Unfit: As `notes`.
    """
    english.write_text(notes(changelog(), version()) + "\n", encoding="utf-8")
    chinese = ROOT / "docs" / "notes" / f"{version()}.zh_CN.md"
    if chinese.is_file():
        shutil.copyfile(chinese, english.with_suffix(".zh_CN.md"))


def notes(text: str, ours: str) -> str:
    """What the changelog says of a version.

    Raises:
        Unfit: It has no section of this version with a date, nothing is in it, or the section of
            what is not released yet still has lines.
    """
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    by_title = {section.partition("\n")[0]: section.partition("\n")[2] for section in sections}
    if by_title.get("[Unreleased]", "").strip():
        raise Unfit(f"CHANGELOG.md has lines under [Unreleased]; move them to [{ours}]")
    for title, body in by_title.items():
        if re.fullmatch(rf"\[{re.escape(ours)}\] - \d{{4}}-\d\d-\d\d", title) and body.strip():
            return body.strip()
    raise Unfit(f'CHANGELOG.md has no section "## [{ours}] - year-month-day" with lines in it')


def check_sizes(folder: Path) -> None:
    """Look at everything that will be published.

    Raises:
        Unfit: A file is too large or empty, or there is no setup.
    """
    files = _assets(folder)
    setups = [path for path in files if _SETUP.fullmatch(path.name)]
    if len(setups) != 1:
        raise Unfit(f"{folder} has {len(setups)} setups, not one")
    for path in files:
        size, limit = path.stat().st_size, SETUP_LIMIT if path in setups else ASSET_LIMIT
        if not 0 < size <= limit:
            raise Unfit(f"{path.name} has {size:,} bytes, allowed are 1 to {limit:,}")


def write_sums(folder: Path) -> str:
    """Write SHA256SUMS as sha256sum does; its text."""
    lines = []
    for path in _assets(folder):
        with path.open("rb") as stream:
            lines.append(f"{hashlib.file_digest(stream, 'sha256').hexdigest()}  {path.name}\n")
    (folder / SUMS).write_text("".join(lines), encoding="ascii", newline="\n")
    return "".join(lines)


def _assets(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != SUMS)


if __name__ == "__main__":
    sys.exit(main())
