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
        raise OutputExists(
            f"{output.name} is already there.",
            hint="Choose another name, or allow it to be replaced.",
            path=output,
        )
    folder = output.parent
    if not folder.is_dir():
        raise OutputUnwritable(
            f"The folder {windows_paths.shown(folder)} does not exist.",
            hint="Create it or choose another.",
            path=folder,
        )
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"upreel")
    except OSError as err:
        raise translated(err, output) from err


def publish(part: Path, output: Path, *, overwrite: bool) -> None:
    """Give the finished file its name, in one step.

    Raises:
        OutputExists: Somebody put a file there meanwhile; the finished part stays.
        OutputUnwritable: The folder went away.
    """
    try:
        if overwrite and not part.is_dir():
            atomic_file.replace(part, output)
        else:
            atomic_file.rename(part, output)
    except FileExistsError as err:
        raise OutputExists(
            f"{output.name} appeared while the job ran.",
            hint=f"The finished result is kept as {part.name}; rename it.",
            path=output,
        ) from err
    except OSError as err:
        raise translated(err, output) from err


def translated(error: OSError, path: Path) -> OutputError:
    """An error of the operating system while writing `path`, as ours."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"The disk of {windows_paths.shown(path.parent)} is full.",
            hint="Free some space, then resume the job: finished parts are kept.",
            path=path,
        )
    return OutputUnwritable(
        f"{windows_paths.shown(path.parent)} cannot be written: {error.strerror or error}.",
        hint="Choose a folder of your own.",
        path=path,
    )


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
        raise OutputIsInput(
            "The result would replace its own source.",
            hint="Choose another name or folder.",
            path=output,
        )
