"""Where words go: answers to standard output, talk and errors to standard error."""

from __future__ import annotations

import io
import json
import sys
from typing import IO, Any

from engine.cli.json_output import encode
from engine.core.errors import EngineError, ErrorInfo
from engine.protocol.plan import Notice

# What the engine's hints leave open, since the window has buttons for it.
_OPTION_HINTS = {
    "output-exists": "Here: -o NAME, or --overwrite.",
    "truncated-media": "To take what is there: --set accept_damaged=yes.",
}


class Console:
    """Two streams and the rule which text belongs to which.

    With `json` standard output carries JSON only, and `say` goes to standard error.
    """

    def __init__(self, out: IO[str], err: IO[str], *, json: bool = False) -> None:
        self.out = out
        self.err = err
        self.json = json

    def say(self, text: str) -> None:
        """The answer in words."""
        _write(self.err if self.json else self.out, text)

    def note(self, text: str) -> None:
        """Talk beside the answer."""
        _write(self.err, text)

    def data(self, value: Any, **extra: Any) -> None:
        """One JSON object in one line on standard output; `extra` stands in front."""
        _write(self.out, json.dumps(extra | encode(value), allow_nan=False))

    def error(self, error: EngineError | ErrorInfo) -> None:
        """An error as its code, its sentence and what to do next."""
        hint = " ".join(filter(None, [error.hint, _OPTION_HINTS.get(error.code, "")]))
        self._problem("error", error.code, error.message, hint)

    def notice(self, notice: Notice) -> None:
        """One thing to know, before the start or while running."""
        word = {"info": "note", "warning": "warning", "refusal": "error"}[notice.severity]
        self._problem(word, notice.code, notice.message, notice.hint)

    def _problem(self, word: str, code: str, message: str, hint: str) -> None:
        _write(self.err, f"{word}[{code}]: {message}" + (f"\n  hint: {hint}" if hint else ""))


def standard(*, json: bool = False) -> Console:
    """The process's own streams, in UTF-8 whatever the code page of the window is.

    A windowed program has none: then words go nowhere.
    """
    return Console(_utf8(sys.stdout), _utf8(sys.stderr), json=json)


def _utf8(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        return io.StringIO()
    if isinstance(stream, io.TextIOWrapper):  # another kind where somebody captures the output
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    return stream


def _write(stream: IO[str], text: str) -> None:
    stream.write(text + "\n")
    stream.flush()
