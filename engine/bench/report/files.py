"""Files that the benchmark writes: figures, pages, charts and traces."""

from __future__ import annotations

from pathlib import Path

from engine.core.errors import OutputUnwritable


def write_file(path: Path, text: str) -> None:
    """Write a text file in UTF-8.

    Raises:
        OutputUnwritable: The system refuses.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as err:
        reason = err.strerror or str(err)
        raise OutputUnwritable("figures", path=path, reason=reason) from err
