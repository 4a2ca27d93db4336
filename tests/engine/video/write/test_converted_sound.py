"""Sound that a container cannot hold is decoded and stored without loss, and a loss is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from engine.core.control import Control
from engine.protocol.media import MediaInfo, StreamInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Report
from engine.settings.schema import JobSettings
from engine.verify.verify import verify
from engine.video.read.probe import probe
from engine.video.read.samples import timed_samples
from engine.video.write.containers import conversion_of, plan_streams, stream_notices
from engine.video.write.mux import tried
from tests.helpers.clips import number_picture
from tests.helpers.results import mux_all, plan_of, segments_of

FAST = JobSettings(model="none", speed="fast")
FRAMES = 50
SECONDS = FRAMES / 25


def make_film(
    path: Path, codec: str, *, rate: int = 48_000, gap: float = 0.0, **how: Any
) -> Path:
    """A film of 2 s with one sound track, that says nothing for `gap` s from its middle on."""
    with av.open(f"file:{path}", "w", format=how.pop("muxer", None)) as output:
        film = output.add_stream("flv" if path.suffix == ".flv" else "mpeg4", rate=25)
        film.width, film.height = 96, 64
        sound: Any = output.add_stream(codec, rate=rate, **how)
        sound.bit_rate = 128_000  # of codecs that are lossy
        output.start_encoding()
        for number in range(FRAMES):
            picture = number_picture(number, 96, 64)
            output.mux(film.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        output.mux(film.encode(None))
        for frame in noise(sound.codec_context, rate):
            late = round(gap * rate) if frame.pts >= rate else 0
            frame.pts += late
            if frame.pts + frame.samples <= SECONDS * rate:
                output.mux(sound.encode(frame))
        output.mux(sound.encode(None))
    return path


def noise(context: Any, rate: int) -> Sequence[av.AudioFrame]:
    """Samples of all bits that a codec stores, without a silent one."""
    form, channels, random = context.format.packed.name, context.layout.nb_channels, np.random
    size = context.frame_size or 480
    source, frames = random.default_rng(7), []
    for first in range(0, round(SECONDS * rate), size):
        wave = source.integers(1, 2**15, size * channels)
        kinds = {"u8": np.uint8(wave % 100 + 1), "s16": np.int16(wave), "s32": np.int32(wave << 8)}
        samples = kinds.get(form, np.float32(wave / 2**16))
        frame = av.AudioFrame.from_ndarray(samples[None], format=form, layout=context.layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, first, Fraction(1, rate)
        frames.append(frame)
    return frames


def job(source: Path, output: Path, **changes: Any) -> tuple[MediaInfo, Plan]:
    """Run an identity job as far as its file."""
    media = probe(source)
    plan = tried(media, plan_of(media, output, FAST, **changes), Control())
    mux_all(media, plan, segments_of(media, plan, source.parent), output)
    return media, plan


def samples(path: Path) -> np.ndarray:
    media = probe(path)
    index = media.audio_streams[0].index
    return np.concatenate([part for _, part in timed_samples(media, index, (), Control())])


def problems(report: Report) -> dict[str, str]:
    return {check.code: str(check.message) for check in report.problems}


KINDS = {  # what a source has, and what its samples are stored as in MKV, MP4 and MOV
    "Blu-ray": ("a.m2ts", "pcm_bluray", {}, ("pcm_s16le",) * 3),
    "Blu-ray, 24 bits": ("a.m2ts", "pcm_bluray", {"format": "s32"}, ("pcm_s24le",) * 3),
    "Blu-ray, 5.1": (
        "a.m2ts",
        "pcm_bluray",
        {"layout": "5.1(side)", "format": "s32"},
        ("flac", "pcm_s24le", "pcm_s24le"),
    ),
    "Blu-ray, 3 front": (
        "a.m2ts",
        "pcm_bluray",
        {"layout": "3.0"},
        ("flac", "pcm_s16le", "pcm_s16le"),
    ),
    "DVD": ("a.vob", "pcm_dvd", {"muxer": "dvd"}, ("pcm_s16le",) * 3),
    "Flash": ("a.flv", "nellymoser", {"rate": 22050, "layout": "mono"}, ("pcm_f32le",) * 3),
    "Flash, ADPCM": ("a.flv", "adpcm_swf", {"rate": 44100}, ("pcm_s16le",) * 3),
    "Windows Media": ("a.wmv", "wmav2", {"rate": 44100, "muxer": "asf"}, ("pcm_f32le",) * 3),
    "AVI, ADPCM": ("a.avi", "adpcm_ms", {"rate": 44100}, ("pcm_s16le",) * 3),
    "PCM without a channel layout": ("a.mkv", "pcm_s16le", {}, ("", "pcm_s16le", "")),
    "8 bits": ("a.mov", "pcm_s8", {}, ("pcm_s16le", "pcm_s16le", "")),
    "big-endian floats": ("a.mov", "pcm_f32be", {}, ("pcm_f32le", "pcm_f32le", "")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sound_is_kept_sample_by_sample_in_every_container(tmp_path: Path, kind: str) -> None:
    name, codec, how, expected = KINDS[kind]
    source = make_film(tmp_path / name, codec, **how)
    for container, stored in zip(("mkv", "mp4", "mov"), expected, strict=True):
        output = tmp_path / f"out.{container}"
        media, plan = job(source, output)
        assert [stream.converted for stream in plan.streams if stream.copied] == [stored]
        for known in (plan, None):
            report = verify(media, output, plan=known)
            assert report.passed, problems(report)
        assert np.array_equal(samples(output), samples(source))
        codes = [notice.code for notice in stream_notices(media, container)]
        assert ("sound-converted" in codes) == bool(stored)
