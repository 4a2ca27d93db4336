"""What is planned: a source, settings and, where the user named one, a result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.protocol.media import MediaInfo
from engine.settings.schema import JobSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is wanted."""

    media: MediaInfo
    settings: JobSettings
    output: Path | None = None
