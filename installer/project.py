"""Parts that the packaging scripts share: the project's metadata, hashes of files, external tools.

Uses the standard library only: jobs of the release workflow run it without any package.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SUMS = "SHA256SUMS"
_TOOL_LIMIT_S = 3600


class PackagingError(Exception):
    """The program cannot be packed, described or released as it is."""


def metadata() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text)["project"])


def version() -> str:
    """The version in pyproject.toml."""
    return str(metadata()["version"])


def setup_name(number: str) -> str:
    """File name of the setup of a version."""
    return f"upreel-{number}-setup.exe"


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_sums(files: Iterable[Path], folder: Path) -> str:
    """Write SHA256SUMS of these files in the format of `sha256sum`; its text."""
    text = "".join(f"{sha256_of(file)}  {file.name}\n" for file in sorted(files))
    (folder / SUMS).write_text(text, encoding="utf-8", newline="\n")
    return text


def find_tool(name: str, windows_path: str, requirement: str) -> str:
    """An external tool: on the path, or where its own setup installs it on Windows.

    Raises:
        PackagingError: It is not installed; the message names the requirement.
    """
    found = shutil.which(name)
    if found is None and Path(windows_path).is_file():
        found = windows_path
    if found is None:
        raise PackagingError(f"{name} is not installed; it is part of {requirement}")
    return found


def run_tool(command: Sequence[str]) -> None:
    """Run an external tool.

    Raises:
        PackagingError: It failed; the message has the end of its output.
        subprocess.TimeoutExpired: It takes longer than an hour.
    """
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=_TOOL_LIMIT_S,
        check=False,
    )
    if done.returncode:
        output = (done.stdout + done.stderr)[-3000:]
        raise PackagingError(f"{command[0]} ended with status {done.returncode}:\n{output}")
