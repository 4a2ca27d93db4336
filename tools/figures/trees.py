"""The tree of another commit next to this one, measured by the code of this one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TOOLS = Path("tools", "figures")


class NoSuchCommit(Exception):
    """A name that git does not know as a commit."""


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """The files of a commit in a temporary folder, with `tools/figures` of this tree.

    Both trees are then measured in the same way, whatever that commit itself measured.

    Raises:
        NoSuchCommit: git knows no such commit.
    """
    with tempfile.TemporaryDirectory(prefix="upreel-tree-", ignore_cleanup_errors=True) as name:
        folder = Path(name, "tree")
        done = _git("worktree", "add", "--detach", str(folder), f"{commit}^{{commit}}")
        if done.returncode:
            raise NoSuchCommit(f"git has no commit {commit!r}: {done.stderr.strip()}")
        try:
            shutil.rmtree(folder / _TOOLS, ignore_errors=True)
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / _TOOLS, folder / _TOOLS, ignore=ignored)
            (folder / "tools" / "__init__.py").touch()
            yield folder
        finally:
            _git("worktree", "remove", "--force", str(folder))


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    """A git command in this tree."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
    )
