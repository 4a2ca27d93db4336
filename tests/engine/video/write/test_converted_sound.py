"""Sound that a container cannot hold is decoded and stored without loss, and a loss is seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from engine.verification.verify import verify
from engine.video.read.media_file import readable_packets
from engine.video.read.probe import probe
from engine.video.read.sound import restarts, timed_samples
from engine.video.write import passthrough
from engine.video.write.containers import bit_rate_of, conversion_of, plan_streams
from engine.video.write.mux import tried
from engine.video.write.stream_notices import stream_notices, trial_notices
from tests.helpers.clips import number_picture
from tests.helpers.program import NEEDS_FFMPEG, ROOT, ffmpeg
from tests.helpers.results import mux_all, plan_of, segments_of

FAST = JobSettings(model="none", speed="fast")
FRAMES = 30
SECONDS = FRAMES / 25
SAMPLE = ROOT / "resources" / "samples" / "upreel_sample.mp4"


def make_film(
    path: Path,
    codec: str,
    *,
    rate: int = 48_000,
    gap: float = 0.0,
    made: Callable[..., Sequence[av.AudioFrame]] | None = None,
    **how: Any,
) -> Path:
    """A film of 1.2 s with one sound track, that says nothing for `gap` s after 0.6 s."""
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
        for frame in (made or noise)(sound.codec_context, rate):
            late = round(gap * rate) if frame.pts >= 0.6 * rate else 0
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


def job(
    source: Path, output: Path, settings: JobSettings = FAST, **changes: Any
) -> tuple[MediaInfo, Plan]:
    """Run an identity job as far as its file."""
    media = probe(source)
    plan = tried(media, plan_of(media, output, settings, **changes), Control())
    mux_all(media, plan, segments_of(media, plan, source.parent, length=FRAMES // 2), output)
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


def extended(case: str) -> Any:
    """A case that only the extended tests run."""
    return pytest.param(case, marks=pytest.mark.extended)


QUICK = ("Blu-ray", "Blu-ray, 5.1", "Flash")
EXTENDED = [extended(kind) for kind in KINDS if kind not in QUICK]


@pytest.mark.parametrize("kind", [*QUICK, *EXTENDED])
def test_sound_is_kept_sample_by_sample_in_every_container(tmp_path: Path, kind: str) -> None:
    name, codec, how, expected = KINDS[kind]
    source = make_film(tmp_path / name, codec, **how)
    wanted = samples(source)
    for container, stored in zip(("mkv", "mp4", "mov"), expected, strict=True):
        output = tmp_path / f"out.{container}"
        media, plan = job(source, output)
        assert [stream.converted for stream in plan.streams if stream.copied] == [stored]
        report = verify(media, output, plan=plan if container == "mkv" else None)
        assert report.passed, problems(report)
        assert np.array_equal(samples(output), wanted)
        codes = [notice.code for notice in stream_notices(media, container)]
        assert ("sound-converted" in codes) == bool(stored)


PARTS = [("Blu-ray", "mp4"), ("Blu-ray, 5.1", "mkv"), ("Flash", "mkv")]


@pytest.mark.parametrize(("kind", "container"), PARTS)
def test_a_part_has_its_own_sound_alone(tmp_path: Path, kind: str, container: str) -> None:
    name, codec, how, _ = KINDS[kind]
    source = make_film(tmp_path / name, codec, **how)
    for start, stop in ((Fraction(1, 5), Fraction(1)), (Fraction(2, 5), None)):
        output = tmp_path / f"part{start.numerator}.{container}"
        media, plan = job(source, output, start=start, stop=stop)
        report = verify(media, output, plan=plan)
        assert report.passed, problems(report)
        seconds = len(samples(output)) / media.audio_streams[0].sample_rate
        assert seconds == pytest.approx((stop or SECONDS) - start, abs=0.1)


@pytest.mark.parametrize(
    ("codec", "rate", "container"), [("ac3", 48_000, "webm"), ("pcm_s16le", 44_100, "mp4")]
)
def test_sound_of_a_part_is_the_same_where_reading_does_not_begin_at_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, rate: int, container: str
) -> None:
    """Times in MKV are rounded, and AC-3 adds noise: neither depends on what is read."""
    media = probe(make_film(tmp_path / "a.mkv", codec, rate=rate))
    output, start = tmp_path / f"out.{container}", Fraction(1)
    plan = plan_of(media, output, replace(FAST, container=container), start=start)
    made, read = [], Counter[bool]()

    def packets(*about: Any) -> Iterator[Any]:
        for packet in readable_packets(*about):
            read[is_sought] += 1
            yield packet

    monkeypatch.setattr(passthrough, "readable_packets", packets)
    for is_sought in (False, True):
        monkeypatch.setattr(passthrough, "_SLACK", 0.3 if is_sought else 10.0)
        with av.open(str(media.path)) as source, av.open(str(output), "w") as target:
            copies = passthrough.CopiedStreams(media, plan, start, None, {})
            copies.add(source.streams[1], target)
            taken = [timed.packet for timed in copies.packets(source)]
            made.append([(packet.pts, bytes(packet)) for packet in taken])
    assert made[0] == made[1] != []
    assert read[True] < 0.7 * read[False]
    exact, noisy = (
        [codec for codec in ("dts", "aac", "adpcm_yamaha") if restarts(codec, exactly=exactly)]
        for exactly in (True, False)
    )
    assert (exact, noisy) == (["dts"], ["dts", "aac"])


@pytest.mark.parametrize("codec", ["alac", "tta", extended("flac"), extended("wavpack")])
def test_a_part_of_long_packets_has_its_own_samples(tmp_path: Path, codec: str) -> None:
    """A packet of TTA lasts a second: a part would begin with silence, or last longer."""
    source, output = make_film(tmp_path / "a.mkv", codec), tmp_path / "part.mkv"
    media, plan = job(source, output, start=Fraction(1, 5), stop=Fraction(3, 5))
    bits = {"alac": 24, "tta": 8, "flac": 16}
    assert media.audio_streams[0].sample_bits == bits.get(codec, 0)
    report = verify(media, output, plan=plan)
    assert report.passed, problems(report)
    (content,) = (check for check in report.checks if check.code == "stream-content")
    assert "equal in every sample" in str(content.message)
    assert np.array_equal(samples(output), samples(source)[9600:28_800])


def test_a_part_that_begins_in_silence_is_compared_from_the_first_sound_on(tmp_path: Path) -> None:
    """Times in MKV are rounded: of silence they do not tell which sample it begins with."""

    def made(*how: Any) -> Sequence[av.AudioFrame]:
        return [
            lowered(frame, bits=15) if 0.1 < frame.time < 0.6 else frame for frame in noise(*how)
        ]

    source, output = make_film(tmp_path / "a.mkv", "flac", rate=44_100, made=made), "part.mkv"
    media, plan = job(source, tmp_path / output, start=Fraction(6, 25))
    assert problems(verify(media, tmp_path / output, plan=plan)) == {}


def test_other_sound_in_tta_is_seen(tmp_path: Path) -> None:
    """The CRC-32 of a packet that ends with its own is always the same."""
    source, result = (tmp_path / name for name in ("a.mkv", "b.mkv"))
    make_film(result, "tta", made=lambda *how: [lowered(frame) for frame in noise(*how)])
    report = verify(probe(make_film(source, "tta")), result)
    assert [*problems(report)] == ["stream-content"]


def lowered(frame: av.AudioFrame, bits: int = 1) -> av.AudioFrame:
    """A frame whose samples have some bits less."""
    new = av.AudioFrame.from_ndarray(frame.to_ndarray() >> bits, frame.format.name, frame.layout)
    new.sample_rate, new.pts, new.time_base = frame.sample_rate, frame.pts, frame.time_base
    return new


def test_the_last_packet_is_heard_though_its_length_is_not_stated(tmp_path: Path) -> None:
    """MKV states none of it, and FFmpeg's MP4 would end before it."""
    source, output = make_film(tmp_path / "a.mkv", "alac"), tmp_path / "out.mp4"
    media, plan = job(source, output)
    assert problems(verify(media, output, plan=plan)) == {}
    assert np.array_equal(samples(output), samples(source))


def test_silence_fills_what_the_times_leave_out_where_there_are_no_gaps(tmp_path: Path) -> None:
    source = make_film(tmp_path / "a.m2ts", "pcm_bluray", gap=0.3)
    lengths = {}
    for container in ("mkv", "mp4", "mov"):
        output = tmp_path / f"out.{container}"
        media, plan = job(source, output)
        report = verify(media, output, plan=plan)
        assert report.passed, problems(report)
        lengths[container] = len(samples(output))
    assert lengths["mkv"] == len(samples(source))
    assert lengths["mp4"] == lengths["mov"] == lengths["mkv"] + 14_400


@pytest.mark.parametrize("container", ["mp4", "mov"])
def test_silence_fills_the_gaps_of_copied_pcm(tmp_path: Path, container: str) -> None:
    """MP4 and MOV have no place for them: all that follows would come too early."""
    source, rate = make_film(tmp_path / "a.mkv", "pcm_s16le", rate=44_100, gap=0.3), 44_100
    for start in (None, Fraction(1, 5)):
        output = tmp_path / f"from{float(start or 0)}.{container}"
        media, plan = job(source, output, start=start)
        report = verify(media, output, plan=plan)
        assert report.passed, problems(report)
        expected = len(samples(source)) / rate - (start or 0) + 0.3
        assert len(samples(output)) / rate == pytest.approx(expected, abs=0.02)


def test_channels_that_change_within_a_track_are_named(tmp_path: Path) -> None:
    parts = [
        make_film(tmp_path / f"{layout}.m2ts", "pcm_bluray", layout=layout).read_bytes()
        for layout in ("stereo", "5.1(side)")
    ]
    source, output = tmp_path / "a.m2ts", tmp_path / "out.mkv"
    source.write_bytes(b"".join(parts))
    media, plan = job(source, output)
    (notice,) = trial_notices(media, plan_of(media, output, FAST), plan)
    assert notice.code == "sound-mixed"
    report = verify(media, output, plan=plan)
    assert "stream-content" not in problems(report)
    assert probe(output).audio_streams[0].channels == 2


def garbled(source: Path, target: Path, count: int) -> MediaInfo:
    """Facts of a copy whose first packets of sound cannot be decoded."""
    damaged(source, target, lambda n, packet: changed(packet, slice(None)) if n < count else packet)
    return probe(target)


def test_sound_that_cannot_be_decoded_is_named_before_the_start(tmp_path: Path) -> None:
    source, output = tmp_path / "b.mkv", tmp_path / "out.mov"
    media = garbled(make_film(tmp_path / "a.mkv", "flac"), source, 1000)
    assert [stream.copied for stream in plan_streams(media, "mkv")] == [True]
    (notice,) = (one for one in stream_notices(media, "mov") if one.code == "stream-left-out")
    assert "could not decode" in notice.message
    assert notice.hint == "Choose the format MKV to keep it."
    plan = plan_of(media, output, FAST)
    assert not [*trial_notices(media, plan, tried(media, plan, Control()))]


@NEEDS_FFMPEG
def test_a_track_that_begins_late_is_converted_though_its_header_states_no_samples(
    tmp_path: Path,
) -> None:
    source, output = tmp_path / "a.mkv", tmp_path / "out.mp4"
    film = "-f lavfi -t 40 -i color=s=96x64:r=2 -itsoffset 35 -f lavfi -t 1 -i sine=r=48000"
    tracks = "-map 0 -map 1 -map 1 -c:v mpeg4 -c:a truehd -c:a:1 wavpack -strict -2 -ac 2"
    ffmpeg(*film.split(), *tracks.split(), source)
    media, plan = job(source, output)
    assert [stream.converted for stream in plan.streams] == ["pcm_s24le", "pcm_s32le"]
    report = verify(media, output, plan=plan)
    assert "stream-content" not in problems(report)
    assert np.array_equal(samples(output), samples(source))


@NEEDS_FFMPEG
def test_sound_of_a_recording_that_begins_late_is_copied(tmp_path: Path) -> None:
    source, output = tmp_path / "a.ts", tmp_path / "out.mkv"
    film = "-f lavfi -t 110 -i color=s=96x64:r=1 -itsoffset 100 -f lavfi -t 1 -i sine=r=48000"
    ffmpeg(*film.split(), *["-c:v", "libx264", "-c:a", "ac3", "-ac", "2"], source)
    media, plan = job(source, output)
    assert [(one.copied, one.codec) for one in plan.streams] == [(True, "ac3")]
    assert "stream-content" not in problems(verify(media, output, plan=plan))
    assert np.array_equal(samples(output), samples(source))


def test_sound_of_unknown_format_is_left_out_with_its_reason(tmp_path: Path) -> None:
    media = probe(make_film(tmp_path / "a.mkv", "flac"))
    (sound,) = media.streams
    unseen = replace(sound, layout="0 channels", channels=0, sample_rate=0)
    for container in ("mkv", "mov", "webm"):
        (plan,) = plan_streams(replace(media, streams=(unseen,)), container)
        assert (plan.copied, plan.converted) == (False, "")
        assert "format is unknown" in str(plan.why)


def test_damaged_first_packets_do_not_cost_a_track(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_film(tmp_path / "a.mkv", "flac")
    half = garbled(source, tmp_path / "b.mkv", 5)
    assert [stream.converted for stream in plan_streams(half, "mov")] == ["pcm_s16le"]
    monkeypatch.setattr("engine.video.read.sound._TRIED_S", 0.2)
    again = garbled(source, tmp_path / "c.mkv", 5)
    assert [stream.converted for stream in plan_streams(again, "mov")] == ["pcm_s16le"], "middle"


def test_the_trial_of_decoders_does_not_read_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_film(tmp_path / "a.mkv", "flac")
    monkeypatch.setattr("engine.video.read.sound._TRIED_BYTES", 1000)
    media = garbled(source, tmp_path / "b.mkv", 1000)
    assert [stream.converted for stream in plan_streams(media, "mov")] == ["pcm_s16le"]


LOSSES: dict[str, tuple[Callable[[int, av.Packet], av.Packet | None], str, str]] = {
    "one sample": (lambda n, packet: changed(packet) if n == 9 else packet, "content", "differ"),
    "a packet": (lambda n, packet: None if n == 9 else packet, "content", "differ"),
    "the end": (lambda n, packet: packet if n < 150 else None, "content", "missing"),
    "time": (lambda n, packet: later(packet), "timing", "40 ms late"),
}


@pytest.fixture(scope="module")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> tuple[MediaInfo, Plan]:
    """A job whose sound was decoded."""
    folder = tmp_path_factory.mktemp("decoded")
    return job(make_film(folder / "a.m2ts", "pcm_bluray"), folder / "whole.mkv")


def changed(packet: av.Packet, part: slice = slice(100, 101)) -> av.Packet:
    data = bytearray(bytes(packet))
    data[part] = bytes(byte ^ 1 for byte in data[part])
    new = av.Packet(bytes(data))
    new.pts, new.dts, new.time_base = packet.pts, packet.dts, packet.time_base
    return new


def later(packet: av.Packet) -> av.Packet:
    packet.pts += 40
    packet.dts += 40
    return packet


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_of_decoded_sound_is_seen(
    tmp_path: Path, loss: str, decoded: tuple[MediaInfo, Plan]
) -> None:
    (media, plan), result = decoded, tmp_path / "out.mkv"
    change, check, words = LOSSES[loss]
    damaged(plan.output, result, change)
    for known in (plan, None):
        found = problems(verify(media, result, plan=known))
        assert [*found] == [{"content": "stream-content", "timing": "sound-timing"}[check]]
        assert words in next(iter(found.values()))


def damaged(
    whole: Path, result: Path, change: Callable[[int, av.Packet], av.Packet | None]
) -> None:
    """Copy a result with other packets of sound."""
    with av.open(f"file:{whole}") as old, av.open(f"file:{result}", "w") as new:
        streams = [new.add_stream_from_template(stream, opaque=True) for stream in old.streams]
        number = 0
        for packet in old.demux():
            index = packet.stream.index
            if packet.stream.type == "audio" and packet.size:
                number, packet = number + 1, change(number, packet)
            if packet is not None and packet.size:
                packet.stream = streams[index]
                new.mux(packet)


def wave(context: Any, rate: int) -> Sequence[av.AudioFrame]:
    """Tones that rise, another one in each channel: what encoders keep well."""
    channels, frames = context.layout.nb_channels, []
    size = context.frame_size or 480
    time = np.arange(round(SECONDS * rate) + size) / rate
    tones = np.stack([np.sin((1 + n / 3) * 1500 * (time + time**2)) for n in range(channels)])
    whole = (0.3 * tones.T).astype(np.float32)
    for first in range(0, round(SECONDS * rate), size):
        part = whole[first : first + size].reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(part, format="flt", layout=context.layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, first, Fraction(1, rate)
        frames.append(frame)
    return frames


ENCODED = {  # what a source has, the choice, and what is in the result
    "AAC in WebM": ("a.mkv", "aac", {"rate": 44100}, "webm", "auto", ("opus", "stereo")),
    "5.1 in WebM": ("a.mkv", "ac3", {"layout": "5.1(side)"}, "webm", "auto", ("opus", "5.1")),
    "4.0 in WebM": ("a.mkv", "flac", {"layout": "4.0"}, "webm", "auto", ("opus", "5.1")),
    "LPCM in MP4": ("a.m2ts", "pcm_bluray", {}, "mp4", "aac", ("aac", "stereo")),
    "96 kHz in MKV": ("a.m2ts", "pcm_bluray", {"rate": 96000}, "mkv", "opus", ("opus", "stereo")),
    "WMA in MP4": (
        "a.wmv",
        "wmav2",
        {"rate": 44100, "muxer": "asf"},
        "mp4",
        "flac",
        ("flac", "stereo"),
    ),
}


@pytest.mark.parametrize("kind", ["AAC in WebM", *map(extended, [*ENCODED][1:])])
def test_sound_that_is_encoded_again_is_alike_and_named(tmp_path: Path, kind: str) -> None:
    name, codec, how, container, sound, (stored, layout) = ENCODED[kind]
    source, output = (
        make_film(tmp_path / name, codec, made=wave, **how),
        tmp_path / f"o.{container}",
    )
    media, plan = job(source, output, replace(FAST, sound=sound))
    report = verify(media, output, plan=plan)
    assert report.passed, problems(report)
    assert verify(media, output).passed, "without a plan"
    (track,) = probe(output).audio_streams
    assert (track.codec, track.layout) == (stored, layout)
    notices = {notice.code: notice for notice in stream_notices(media, container, sound)}
    lossy = notices.get("sound-encoded" if stored != "flac" else "sound-converted")
    assert lossy is not None
    assert {"opus": "Opus", "aac": "AAC", "flac": "24 bits"}[stored] in lossy.message


@pytest.mark.extended
def test_a_part_of_encoded_sound_is_compared(tmp_path: Path) -> None:
    source, output = make_film(tmp_path / "a.mkv", "aac", made=wave), tmp_path / "part.webm"
    media, plan = job(source, output, start=Fraction(1, 5), stop=Fraction(1))
    report = verify(media, output, plan=plan)
    assert report.passed, problems(report)


ENCODED_LOSSES = {
    "a packet": (lambda n, packet: None if n == 20 else packet, "content", "other sound"),
    "the end": (lambda n, packet: packet if n < 50 else None, "content", "missing"),
    "time": (lambda n, packet: later(packet), "timing", "40 ms late"),
}


@pytest.mark.parametrize("loss", ["a packet", *map(extended, [*ENCODED_LOSSES][1:])])
def test_a_loss_of_encoded_sound_is_seen(tmp_path: Path, loss: str) -> None:
    source, whole, result = tmp_path / "a.mkv", tmp_path / "whole.webm", tmp_path / "out.webm"
    media, plan = job(make_film(source, "aac", made=wave), whole)
    change, check, words = ENCODED_LOSSES[loss]
    damaged(whole, result, change)
    for known in (plan, None):
        found = problems(verify(media, result, plan=known))
        assert [*found] == [{"content": "stream-content", "timing": "sound-timing"}[check]]
        assert words in next(iter(found.values()))


@pytest.mark.extended
def test_channels_that_change_places_are_seen(tmp_path: Path) -> None:
    source, other = make_film(tmp_path / "a.mkv", "aac", made=wave), tmp_path / "b.mkv"
    make_film(other, "aac", made=lambda *how: [swapped(frame) for frame in wave(*how)])
    media, result = probe(source), tmp_path / "out.webm"
    job(other, result)
    assert "other sound" in problems(verify(media, result))["stream-content"]


def swapped(frame: av.AudioFrame) -> av.AudioFrame:
    turned = frame.to_ndarray().reshape(-1, 2)[:, ::-1].reshape(1, -1)
    new = av.AudioFrame.from_ndarray(np.ascontiguousarray(turned), "flt", frame.layout)
    new.sample_rate, new.pts, new.time_base = frame.sample_rate, frame.pts, frame.time_base
    return new


def test_the_notice_names_the_codec_and_what_is_not_kept() -> None:
    def sound(codec: str, layout: str, samples: str) -> StreamInfo:
        channels = 6 if "5.1" in layout else 2
        about = {"layout": layout, "sample_format": samples, "channels": channels}
        return StreamInfo(index=1, kind="audio", codec=codec, sample_rate=48_000, **about)

    cases = {
        ("truehd", "5.1", "s32p", "mp4"): ("pcm_s24le", "info", "Choose the format MKV"),
        ("vorbis", "5.1", "fltp", "mov"): ("pcm_f32le", "info", "Choose the format MKV"),
        ("wmapro", "5.1(side)", "fltp", "mkv"): ("pcm_f32le", "warning", "Choose the format MOV"),
        ("ape", "stereo", "s32p", "mkv"): ("pcm_s32le", "info", ""),
        ("unheard-of", "stereo", "", "mkv"): ("", "warning", ""),
    }
    film = probe(SAMPLE)
    for (codec, layout, kind, container), (stored, severity, hint) in cases.items():
        media = replace(film, streams=(sound(codec, layout, kind),), container="avi")
        assert [plan.converted for plan in plan_streams(media, container)] == [stored]
        (notice,) = stream_notices(media, container)
        assert (notice.severity, stored in notice.message) == (severity, True)
        assert notice.hint.startswith(hint)
        assert conversion_of("image", media.streams[0]) == ""
        (entry,) = plan_streams(media, container)
        bits = {"pcm_s24le": 24, "": 0}.get(stored, 32)
        assert bit_rate_of(entry, media.streams[0]) == bits * 48_000 * media.streams[0].channels
