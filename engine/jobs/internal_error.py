"""A mistake of ours in words for the user."""

from __future__ import annotations

from engine.core.errors import InternalError


def internal(error: Exception) -> InternalError:
    """What the user hears; the traceback belongs into the log."""
    return InternalError(
        f"Something went wrong inside Upreel ({type(error).__name__}).",
        hint="Please report it with the log file.",
        kind=type(error).__name__,
    )
