"""Bytecode of an installed runtime: its modules are compiled once, not at every start.

The packaged program never writes bytecode (`sys.dont_write_bytecode`), but reads what lies in
`__pycache__`; wheels contain none. Each file names the hash of its source instead of the source's
time, and importing does not compare it (PEP 552, "unchecked"): copies, backups and disks that round
times keep it valid, and a runtime is only ever replaced as a whole. It also depends on the version
of Python, so the program that loads a runtime compiles it.
"""

from __future__ import annotations

import importlib.util
import logging
import marshal
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.core import atomic_file
from engine.core.control import Control
from engine.core.serialization import read_json
from engine.runtimes.installation import Installed

logger = logging.getLogger(__name__)

REFUSED = "uncompiled.json"
_UNCHECKED = (1).to_bytes(4, "little")  # flags of a file that states a hash and is not compared
_HEADER_BYTES = 16


def module_bytes(installed: Installed) -> int:
    """Size of all modules."""
    return sum(installed.files[name] for name in _modules(installed))


def missing(folder: Path, installed: Installed) -> int:
    """Number of modules that this Python could compile and has no bytecode of; none is read."""
    without = [name for name in _modules(installed) if not _cached(folder / name).is_file()]
    return len(set(without) - _refused(folder))


def compile_modules(folder: Path, installed: Installed, control: Control) -> Iterator[int]:
    """Give every module right bytecode; damaged files are replaced.

    A module that cannot be compiled (torch has some for newer versions of Python) stays without
    and is noted, so that `missing` does not count it.

    Args:
        folder: Folder of the runtime, in the form that allows long paths.
        installed: Its description.
        control: Cancels it; files that exist are complete.

    Yields:
        Bytes of modules so far, of `module_bytes`.

    Raises:
        OSError: The folder cannot be written.
        Cancelled: The control was cancelled.
    """
    done, refused = 0, []
    for name in _modules(installed):
        control.check()
        path = folder / name
        cached = _cached(path)
        if not _is_right(cached, path.read_bytes()):
            try:
                py_compile.compile(
                    str(path),
                    cfile=str(cached),
                    doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )
            except py_compile.PyCompileError as err:
                logger.info("%s cannot be compiled: %s", name, err.msg)
                refused.append(name)
        done += installed.files[name]
        yield done
    if refused or (folder / REFUSED).exists():
        about = {"python": sys.implementation.cache_tag, "modules": refused}
        atomic_file.write_json(folder / REFUSED, about)


def _modules(installed: Installed) -> Iterator[str]:
    return (name for name in installed.files if name.endswith(".py"))


def _refused(folder: Path) -> set[str]:
    """Modules that this Python has refused to compile."""
    try:
        found = read_json(folder / REFUSED)
        is_ours = found["python"] == sys.implementation.cache_tag
        return set(map(str, found["modules"])) if is_ours else set()
    except (OSError, ValueError, TypeError, KeyError):
        return set()


def _cached(path: Path) -> Path:
    """File that Python looks for the bytecode of a module in."""
    return Path(importlib.util.cache_from_source(str(path)))


def _is_right(cached: Path, source: bytes) -> bool:
    """Whether a file has the whole bytecode of a source, made by this Python."""
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
    try:
        content = cached.read_bytes()
        if content[:_HEADER_BYTES] != header:
            return False
        marshal.loads(content[_HEADER_BYTES:])  # noqa: S302 - of a module that would be imported
    except (OSError, EOFError, ValueError, TypeError):
        return False
    return True
