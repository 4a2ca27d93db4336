"""Which words Explorer is started with; rules as data, so that they are tested anywhere."""

from __future__ import annotations

from pathlib import PureWindowsPath

from engine.core import windows_paths

_LONGEST = 259  # characters; what Explorer takes, whatever is allowed to others


def command_for(file: PureWindowsPath, windows: PureWindowsPath) -> str:
    """Opens a folder with a file marked; only a folder above it where its path is too long.

    Explorer wants `/select,"path"` as one raw text: a list of words would be quoted the other way.
    A name cannot hold quotation marks, so it cannot end the text either.

    Args:
        file: An absolute path, in either form.
        windows: Windows' own folder; no other explorer.exe may be started.
    """
    program = windows / "explorer.exe"
    path = PureWindowsPath(windows_paths.shown(file))
    if len(str(path)) <= _LONGEST:
        return f'"{program}" /select,"{path}"'
    return f'"{program}" "{folder_for(path)}"'


def folder_for(path: PureWindowsPath) -> PureWindowsPath:
    """The nearest folder above a file whose path Explorer takes."""
    return next(
        (above for above in path.parents if len(str(above)) <= _LONGEST),
        PureWindowsPath(path.anchor),
    )
