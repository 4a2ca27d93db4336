"""Requirements of a release apart from its tests; the release workflow runs these commands.

    python -m installer.release version v1.2.3         tag, pyproject.toml and changelog agree
    python -m installer.release notes --out FILE.md    write the changelog's section of this version
    python -m installer.release sums FOLDER            check the sizes, write SHA256SUMS

An unmet requirement is one line on stderr and exit status 1. Uses the standard library only.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from engine.delivery import manifest
from installer import project
from installer.project import PackagingError

SETUP_LIMIT = 200_000_000  # bytes
ASSET_LIMIT = 2**31 - 1  # bytes; an asset of a release has to be smaller than 2 GiB

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_HIGHEST_PART = 65534  # Windows keeps each part of a version in 16 bits
_RENEWED = (manifest.NAME, manifest.SIGNATURE)  # signed again later, in the same release
_SETUP = re.compile(r"upreel-[\d.]+-setup\.exe")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    parser = argparse.ArgumentParser(description="Check the requirements of a release.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("version", help="tag, pyproject.toml and changelog agree")
    command.add_argument("tag", help="as v1.2.3")
    command = commands.add_parser("notes", help="write the changelog's section of this version")
    command.add_argument("--out", type=Path, required=True, metavar="FILE.md")
    command = commands.add_parser("sums", help="check the sizes, write SHA256SUMS")
    command.add_argument("folder", type=Path)
    args = parser.parse_args(arguments)
    try:
        if args.command == "version":
            version = project.version()
            check_version(args.tag, version, known_tags())
            notes(changelog(), version)
            print(f"{version} can be released")
        elif args.command == "notes":
            write_notes(args.out)
        else:
            check_sizes(args.folder)
            lasting = [path for path in _assets(args.folder) if path.name not in _RENEWED]
            print(project.write_sums(lasting, args.folder), end="")
    except (PackagingError, OSError, subprocess.CalledProcessError) as err:
        print(f"no release: {err}", file=sys.stderr)
        return 1
    return 0


def changelog() -> str:
    """The changelog's text."""
    return (project.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def known_tags() -> list[str]:
    """Tags of this checkout that name versions; needs its whole history."""
    command = ["git", "-C", str(project.ROOT), "tag", "--list", "v*"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def check_version(tag: str, version: str, tags: Iterable[str]) -> None:
    """Check that a version can be released.

    Setups and updates compare versions as three numbers: 0.10.0 is newer than 0.9.0.

    Args:
        tag: Name of the tag that is released.
        version: Version in pyproject.toml.
        tags: All tags that name versions.

    Raises:
        PackagingError: It is not three numbers, does not match the tag, or is not the newest.
    """
    parts = numbers_of(version)
    if parts is None or max(parts) > _HIGHEST_PART:
        raise PackagingError(
            f"{version} in pyproject.toml is not three numbers, each up to {_HIGHEST_PART}"
        )
    if tag != f"v{version}":
        raise PackagingError(f"the tag is {tag}, but pyproject.toml has {version}")
    for other in tags:
        released = numbers_of(other.removeprefix("v"))
        if released is not None and released > parts:
            raise PackagingError(f"{other} is newer, no program would be offered {version}")


def numbers_of(text: str) -> tuple[int, int, int] | None:
    """The three numbers of a version; None for another format."""
    match = _VERSION.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def write_notes(english: Path) -> None:
    """Write this version's notes, and the Chinese ones next to them if they exist.

    Raises:
        PackagingError: As `notes`.
    """
    version = project.version()
    english.write_text(notes(changelog(), version) + "\n", encoding="utf-8")
    chinese = project.ROOT / "docs" / "notes" / f"{version}.zh_CN.md"
    if chinese.is_file():
        shutil.copyfile(chinese, english.with_suffix(".zh_CN.md"))


def notes(text: str, version: str) -> str:
    """The changelog's section of a version.

    Raises:
        PackagingError: No section of this version with date and lines, or lines in [Unreleased].
    """
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    by_title = {section.partition("\n")[0]: section.partition("\n")[2] for section in sections}
    if by_title.get("[Unreleased]", "").strip():
        raise PackagingError(f"CHANGELOG.md has lines under [Unreleased]; move them to [{version}]")
    for title, body in by_title.items():
        if re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", title) and body.strip():
            return body.strip()
    raise PackagingError(
        f'CHANGELOG.md has no section "## [{version}] - year-month-day" with lines in it'
    )


def check_sizes(folder: Path) -> None:
    """Check the sizes of all files that will be published.

    Raises:
        PackagingError: A file is too large or empty, or there is not one setup.
    """
    files = _assets(folder)
    setups = [path for path in files if _SETUP.fullmatch(path.name)]
    if len(setups) != 1:
        raise PackagingError(f"{folder} has {len(setups)} setups, not one")
    for path in files:
        size, limit = path.stat().st_size, SETUP_LIMIT if path in setups else ASSET_LIMIT
        if not 0 < size <= limit:
            raise PackagingError(f"{path.name} has {size:,} bytes, allowed are 1 to {limit:,}")


def _assets(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != project.SUMS)


if __name__ == "__main__":
    sys.exit(main())
