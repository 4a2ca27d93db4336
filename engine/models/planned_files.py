"""Files of weights as a plan keeps them: which one it is, whether it is here. Loads no torch."""

from __future__ import annotations

from pathlib import Path

from engine.core.errors import WeightsMissing
from engine.model_files.store import Store
from engine.protocol.model_file_state import PublishedState
from engine.protocol.plan import WeightsPlan


def named(path: Path) -> WeightsPlan:
    """A file of the user's own.

    Raises:
        WeightsMissing: It is not there.
    """
    if not path.is_file():
        raise WeightsMissing("chosen", file=str(path))
    return _at(path.absolute(), "")


def planned(state: PublishedState, store: Store) -> WeightsPlan:
    """A file of the list, where it lies or would lie, with the size it has or is said to have."""
    if not state.is_here or state.path is None:
        return WeightsPlan(
            path=store.target(state.filename),
            published=state.id,
            bytes=state.bytes or state.about_bytes,
        )
    return _at(state.path, "" if state.is_own else state.id)


def is_changed(weights: WeightsPlan) -> bool:
    """Whether a file is another one than when a job was planned, or gone."""
    try:
        about = weights.path.stat()
    except OSError:
        return True
    return (about.st_size, about.st_mtime_ns) != (weights.bytes, weights.modified_ns)


def _at(path: Path, published: str) -> WeightsPlan:
    about = path.stat()
    return WeightsPlan(
        path=path, published=published, bytes=about.st_size, modified_ns=about.st_mtime_ns
    )
