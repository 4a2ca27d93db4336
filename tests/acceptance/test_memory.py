"""Peak memory does not depend on the length of the film."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.jobs import options_of, settings_of
from tests.helpers.program import NEEDS_FFMPEG, make_film, upscale

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]
MB = 1_000_000


# kind of the model, size of a frame, frames, settings
CASES: list[tuple[str, str, int, dict[str, object]]] = [
    ("lite", "128x72", 300, {}),
    ("community", "128x72", 300, {}),
    ("seedvr2", "96x64", 100, {"strength": 10, "shots": "off"}),
]


@pytest.mark.parametrize(("kind", "size", "frames", "changes"), CASES)
def test_ten_times_the_frames_take_at_most_50_mb_more(
    kind: str, size: str, frames: int, changes: dict[str, object], tmp_path: Path
) -> None:
    words = options_of(settings_of(kind, tmp_path, codec="auto", **changes))
    peaks = []
    for count in (frames, 10 * frames):
        source = make_film(tmp_path / f"{count}.mp4", size, count / 25, sound=True)
        peaks.append(upscale(source, tmp_path / f"{count}_x2.mp4", *words).peak_bytes)
    assert peaks[1] <= peaks[0] + 50 * MB
