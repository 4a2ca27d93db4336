"""Answers go to standard output, remarks and errors to standard error; plain data as JSON."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import io
import json
import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

from engine.core.errors import EngineError, ErrorInfo
from engine.core.messages import Message, text_of
from engine.core.plain_text import one_line
from engine.protocol.events import Picture
from engine.protocol.media import VideoInfo
from engine.protocol.plan import Notice, PicturePlan, Plan, Reasons
from engine.protocol.report import DoctorLine, Report

# Properties that belong to the JSON.
_PROPERTIES = {
    DoctorLine: ("hint",),
    ErrorInfo: ("message", "hint"),
    Notice: ("message", "hint"),
    PicturePlan: ("seen_size",),
    Plan: ("frames", "fits", "source_seen_size"),
    Reasons: ("message",),
    Report: ("passed",),
    VideoInfo: ("seen_size",),
}


class Console:
    """Two streams and the rule which text belongs to which; foreign text cannot begin a line.

    With `json` standard output carries JSON only, and `say` goes to standard error; `is_verbose`
    says that the log goes there, too.
    """

    def __init__(
        self, out: IO[str], err: IO[str], *, json: bool = False, is_verbose: bool = False
    ) -> None:
        self.out = out
        self.err = err
        self.json = json
        self.is_verbose = is_verbose

    def say(self, *lines: str) -> None:
        """The answer as text."""
        _write(self.err if self.json else self.out, *lines)

    def note(self, *lines: str) -> None:
        """A remark next to the answer."""
        _write(self.err, *lines)

    def data(self, value: Any, **extra: Any) -> None:
        """One JSON object in one line on standard output; `extra` stands in front."""
        text = json.dumps(extra | encode(value), allow_nan=False)
        _write(self.out, text.replace("\x7f", "\\u007f"))  # the one that JSON leaves as it is

    def error(self, error: EngineError | ErrorInfo) -> None:
        """An error as its code, its sentence and what to do next."""
        self._problem("error", error.code, error.message, error.hint)

    def notice(self, notice: Notice) -> None:
        """One thing to know, before the start or while running."""
        word = {"info": "note", "warning": "warning", "refusal": "error"}[notice.severity]
        self._problem(word, notice.code, notice.message, notice.hint)

    def is_confirmed(self, question: str) -> bool:
        """Ask for a yes; without a terminal, and with `json`, the answer is no."""
        if self.json or sys.stdin is None or not sys.stdin.isatty():
            return False
        self.err.write(one_line(f"{question} [y/N] "))
        self.err.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def _problem(self, word: str, code: str, message: str, hint: str) -> None:
        _write(self.err, f"{word}[{code}]: {message}", *([f"  hint: {hint}"] if hint else []))


def standard(*, json: bool = False, is_verbose: bool = False) -> Console:
    """The process's own streams, in UTF-8 whatever the code page of the window is.

    A windowed program has none: then text is dropped.
    """
    return Console(_utf8(sys.stdout), _utf8(sys.stderr), json=json, is_verbose=is_verbose)


def _utf8(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        return io.StringIO()
    if isinstance(stream, io.TextIOWrapper):  # another kind where the output is captured
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    return stream


def _write(stream: IO[str], *lines: str) -> None:
    stream.writelines(one_line(line) + "\n" for line in lines)
    stream.flush()


def encode(value: Any) -> Any:
    """The value as JSON knows it: messages as English text; pictures and raw bytes are left out."""
    if isinstance(value, Message):
        return text_of(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    match value:
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case Fraction() | Path():
            return str(value)
        case dict():
            return {str(key): encode(entry) for key, entry in value.items()}
        case tuple() | list() | set() | frozenset():
            return [encode(entry) for entry in value]
    raise TypeError(f"no JSON for {type(value).__name__}")


def _fields(value: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(value)]
    names += _PROPERTIES.get(type(value), ())
    pairs = ((name, getattr(value, name)) for name in names)
    return {name: encode(entry) for name, entry in pairs if not isinstance(entry, bytes | Picture)}


_UTF_8 = 65001


@contextlib.contextmanager
def utf8_console() -> Iterator[None]:
    """The console reads UTF-8 inside, as from a pipe through `more`; afterwards as before."""
    if sys.platform == "win32":
        with code_page(ctypes.windll.kernel32, _UTF_8):
            yield
    else:
        yield


@contextlib.contextmanager
def code_page(kernel: Any, wanted: int) -> Iterator[None]:
    """Another output code page inside; it belongs to the console and would outlive us.

    Args:
        kernel: `kernel32.dll`.
        wanted: Number of the code page; nothing happens where there is no console.
    """
    before = int(kernel.GetConsoleOutputCP())
    is_changed = before not in (0, wanted) and bool(kernel.SetConsoleOutputCP(wanted))
    try:
        yield
    finally:
        if is_changed:
            kernel.SetConsoleOutputCP(before)
