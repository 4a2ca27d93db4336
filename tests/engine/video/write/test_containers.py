from pathlib import Path

import av

from engine.video.write.containers import CONTAINERS
from tests.helpers.clips import make_clip

CODERS = ("aac", "ac3", "mp2", "alac", "flac", "libopus", "pcm_s16le")


def test_the_table_of_sound_codecs_is_that_of_the_muxers(tmp_path: Path) -> None:
    for coder in CODERS:
        codec = coder.removeprefix("lib")
        source = make_clip(tmp_path / "a.mkv", frames=3, audio_tracks=1, audio_codec=coder)
        for name, container in CONTAINERS.items():
            written = is_written(source, tmp_path / "copy", container.muxer)
            assert (codec in container.audio) is written, f"{codec} in {name}"


def is_written(source: Path, target: Path, muxer: str) -> bool:
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
