"""Where the chroma samples of a frame lie, asked of FFmpeg's own scaler."""

from __future__ import annotations

from typing import Any


def chroma_location(frame: Any) -> str:
    """ "" for now."""
    return ""
