from __future__ import annotations

from pathlib import Path

import av
import pytest

from engine.video.write.containers import CONTAINERS
from tests.helpers.clips import make_clip

SOUND = {
    "aac": "aac",
    "ac3": "ac3",
    "mp2": "mp2",
    "alac": "alac",
    "flac": "flac",
    "libopus": "opus",
    "pcm_s16le": "pcm_s16le",
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("coder", SOUND)
def test_sound_that_the_table_allows_can_really_be_written(
    coder: str, container: str, tmp_path: Path
) -> None:
    kind = CONTAINERS[container]
    source = make_clip(tmp_path / "source.mkv", frames=3, audio_tracks=1, audio_codec=coder)
    assert (SOUND[coder] in kind.audio) is _writes(source, tmp_path / "copy", kind.muxer)


def _writes(source: Path, target: Path, muxer: str) -> bool:
    try:
        with av.open(str(source)) as old, av.open(str(target), "w", format=muxer) as new:
            stream = new.add_stream_from_template(old.streams.audio[0], opaque=True)
            for packet in old.demux(audio=0):
                if packet.dts is not None:
                    packet.stream = stream
                    new.mux(packet)
    except av.FFmpegError:
        return False
    return True
