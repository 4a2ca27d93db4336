"""Where the result goes: checked before the start, published only when it is complete."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from engine.core import atomic_file, windows_paths
from engine.core.errors import (
    DiskFull,
    OutputError,
    OutputExists,
    OutputIsInput,
    OutputNameUnusable,
    OutputUnwritable,
)
from engine.protocol.media import MediaInfo


def part_path(output: Path, job_id: str) -> Path:
    """Name of the unfinished result: next to the final one, never mistaken for it."""
    return output.with_name(f"{output.stem}.{job_id}.part{output.suffix}")


def check_output(media: MediaInfo, output: Path, *, overwrite: bool) -> None:
    """Refuse a result that cannot be written or would cost the user something.

    Raises:
        OutputNameUnusable: Windows would make something else of its name.
        OutputIsInput: It is the source itself, even through a link.
        OutputExists: Something of that name is there and may not be replaced.
        OutputUnwritable: The folder is missing or not writable.
        DiskFull: Not even an empty file fits.
    """
    _check_name(output)
    _check_not_source(media, output)
    if os.path.lexists(output) and (not overwrite or output.is_dir()):
        raise OutputExists("before-start", name=output.name, path=output)
    folder = output.parent
    if not folder.is_dir():
        raise OutputUnwritable("no-folder", folder=windows_paths.shown(folder), path=folder)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"upreel")
    except OSError as err:
        raise translated(err, output) from err


def publish(part: Path, output: Path, *, overwrite: bool) -> None:
    """Give the finished file its name, in one step.

    Raises:
        OutputExists: A file appeared there meanwhile; the finished part stays.
        OutputUnwritable: The folder went away.
    """
    try:
        if overwrite and not part.is_dir():
            atomic_file.replace(part, output)
        else:
            atomic_file.rename(part, output)
    except FileExistsError as err:
        raise OutputExists("meanwhile", name=output.name, part=part.name, path=output) from err
    except OSError as err:
        raise translated(err, output) from err


def translated(error: OSError, path: Path) -> OutputError:
    """EngineError for an error of the operating system while writing `path`."""
    folder = windows_paths.shown(path.parent)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull("folder", folder=folder, path=path)
    reason = error.strerror or str(error)
    return OutputUnwritable("folder", folder=folder, reason=reason, path=path)


def _check_name(output: Path) -> None:
    problem = windows_paths.name_problem(output.name)
    if problem is not None:
        raise OutputNameUnusable(problem.case, **problem.params, path=output)


def _check_not_source(media: MediaInfo, output: Path) -> None:
    try:
        same = output.samefile(media.path) or (
            media.kind == "sequence" and output.is_dir() and output.samefile(media.path.parent)
        )
    except OSError:
        return
    if same:
        raise OutputIsInput(path=output)
