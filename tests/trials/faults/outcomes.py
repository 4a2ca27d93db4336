"""How a case ended: well, with an error for the user, or in a way that must not happen."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from engine.core.errors import EngineError, InternalError

OK = "ok"
REFUSED = "refused"  # an EngineError, which has a code and a text
FFMPEG = "FFmpeg crashed"  # on an allocation refused to it; resumed, and the result is right
INTERNAL = "internal error"
CRASH = "crash"
HANG = "hang"
INCOMPLETE = "incomplete"  # or unequal, under the final name
CHANGED = "source changed"
LOST = "not resumed"
MEMORY = "memory"
RAN = "code ran"
BAD = (INTERNAL, CRASH, HANG, INCOMPLETE, CHANGED, LOST, MEMORY, RAN)
KINDS = (OK, REFUSED, FFMPEG, *BAD)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case ended.

    Attributes:
        kind: One of KINDS.
        code: Of an EngineError.
        detail: What a developer needs.
    """

    kind: str
    code: str = ""
    detail: str = ""

    @property
    def is_bad(self) -> bool:
        """True for what must not happen."""
        return self.kind in BAD

    @property
    def text(self) -> str:
        """The kind and what is known of it."""
        return ": ".join(filter(None, (self.kind, self.code, self.detail)))


def outcome_of(action: Callable[[], object]) -> Outcome:
    """Call and classify: an EngineError refuses, any other exception is an internal error."""
    try:
        action()
    except InternalError as err:
        return Outcome(INTERNAL, err.code, _place_of(err))
    except EngineError as err:
        try:
            text = f"{err.message} {err.hint}"
        except Exception as worse:  # a message without its values is a fault too
            return Outcome(INTERNAL, err.code, _place_of(worse))
        return Outcome(REFUSED, err.code, text)
    except Exception as err:  # whatever it is, it has no code and no hint
        return Outcome(INTERNAL, "", _place_of(err))
    return Outcome(OK)


def last_lines(log: str) -> str:
    """The end of a log; of one that a crash or SIGUSR1 ended, the thread that was running."""
    crash = re.search(r"^(?:Fatal|Current thread)(?:.*\n)+?(?:  File .*\n){1,8}", log, re.MULTILINE)
    text = crash[0] if crash else "\n".join(log.splitlines()[-8:])
    return " | ".join(" ".join(line.split()) for line in text.splitlines())[-900:]


def _place_of(error: BaseException) -> str:
    """Class, text, and the last place in the engine or the window that the error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/engine/" in f.filename or "/app/" in f.filename] or frames[-1:]
    place = f" at {ours[-1].filename.rpartition('/')[2]}:{ours[-1].lineno}" if ours else ""
    return f"{type(error).__name__}: {str(error)[:120]}{place}"
