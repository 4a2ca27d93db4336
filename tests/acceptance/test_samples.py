"""Both clips of a folder of real footage, x2 and x4, judged by ffprobe."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.program import NEEDS_FFMPEG, film_stream, frame_times, tags_of, upscale

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]

FOLDER = os.environ.get("UPREEL_SAMPLES", "")
CLIPS = sorted(Path(FOLDER).glob("*.mp4")) if FOLDER else []
GUESS = {
    "color_range": {"tv"},
    "color_space": {"smpte170m", "bt470bg"},
    "color_transfer": {"smpte170m", "bt709"},
    "color_primaries": {"smpte170m", "bt470bg"},
}


@pytest.mark.skipif(not CLIPS, reason="UPREEL_SAMPLES names no folder with MP4 clips")
@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov"])
@pytest.mark.parametrize("scale", [2, 4])
@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.stem)
def test_ffprobe_agrees_on_frames_times_and_tags(
    clip: Path, scale: int, suffix: str, tmp_path: Path
) -> None:
    if suffix != ".mp4" and scale == 4:
        pytest.skip("the container does not depend on the scale")
    result = tmp_path / f"result{suffix}"
    upscale(clip, result, "--scale", str(scale))
    old, new = film_stream(clip), film_stream(result)
    assert new["nb_read_frames"] == old["nb_read_frames"]
    assert (new["width"], new["height"]) == (old["width"] * scale, old["height"] * scale)
    before, after = frame_times(clip), frame_times(result)
    off = max(abs((b - after[0]) - (a - before[0])) for a, b in zip(before, after, strict=True))
    assert float(off) <= (0.0005 if suffix == ".mkv" else 0)
    tags = tags_of(clip)
    for name, value in tags_of(result).items():
        assert value == tags[name] if name in tags else value in GUESS[name]
    assert set(tags) <= set(tags_of(result))
