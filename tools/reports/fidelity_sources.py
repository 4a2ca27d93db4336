"""Sources of the fidelity matrix: small videos that FFmpeg's own program writes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.geometry import Margins

# Soft and not too colourful: what 4:2:0 can hold, so that the judge sees small differences.
_SOFT = "hue=s=0.6,gblur=sigma=1.5,format=yuv444p"
PICTURE = ("-f", "lavfi", "-i", f"testsrc2=size=96x64:rate=25:duration=1,{_SOFT}")
_TONE = ("-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000:duration=1")
_X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-bf", "2", "-threads", "1")
_CLEAR = ("-vf", "format=yuva444p,geq=lum=lum(X\\,Y):cb=cb(X\\,Y):cr=cr(X\\,Y):a=255*gt(X\\,48)")
_FLV = ("-c:v", "flv", "-b:v", "2M")
_LPCM_51 = (
    *("-af", "pan=5.1(side)|FL=c0|FR=0.5*c0|FC=0.2*c0|LFE=0*c0|SL=0.7*c0|SR=0.3*c0"),
    *("-c:a", "pcm_bluray", "-sample_fmt", "s32"),
)
_PQ = "bt2020nc:bt2020:smpte2084"
_MASTERING = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"
Make = Callable[[Path], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file of the matrix: what is special about it, its name, and how it is written.

    `cropped` is what its container crops of each frame, which the judges do not; `choices` are
    settings of its job.
    """

    about: str
    name: str
    make: Make
    cropped: Margins = field(default_factory=Margins)
    choices: Mapping[str, object] = field(default_factory=dict)


def ffmpeg(*words: str | Path) -> bytes:
    """Standard output of FFmpeg's own program.

    Raises:
        RuntimeError: It failed; the message is FFmpeg's.
    """
    done = subprocess.run(
        ["ffmpeg", "-v", "error", "-nostdin", "-y", *map(str, words)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    return done.stdout


def sources() -> list[Source]:
    """All of them, in the order of the table."""
    found = [*_codecs(), *_shapes(), *_times(), *_fields(), *_colours(), *_other_streams()]
    return [*found, *_changes(), *_stills()]


def _film(about: str, name: str, *words: str, sound: bool = False, codec: bool = True) -> Source:
    """The test picture, with a tone where `sound` is set."""
    tone = (*_TONE, "-shortest") if sound else ()
    own = _X264 if codec else ()
    return Source(
        about=about, name=name, make=lambda path: _write(path, *PICTURE, *tone, *own, *words)
    )


def _write(path: Path, *words: str | Path) -> None:
    ffmpeg(*words, path)


def _codecs() -> list[Source]:
    """Codecs in their usual containers, several pixel formats each."""
    table = {
        "libx264": ("mp4 mov mkv ts flv avi", "yuv420p"),
        "libx265 -preset ultrafast -x265-params log-level=none": ("mp4 mkv", "yuv420p10le"),
        "libvpx-vp9 -cpu-used 8 -deadline realtime": ("webm mkv", "yuv420p"),
        "mpeg4": ("mp4 avi", "yuv420p"),
        "mpeg2video": ("mpg ts mkv", "yuv420p"),
        "ffv1": ("mkv avi", "yuv422p"),
        "prores_ks": ("mov", "yuv422p10le"),
        "mjpeg": ("avi mov", "yuvj420p"),
        "huffyuv": ("avi", "yuv422p"),
        "libtheora": ("ogv", "yuv420p"),
        "wmv2": ("wmv", "yuv420p"),
    }
    found = []
    for codec, (containers, pixels) in table.items():
        for container in containers.split():
            words = ("-c:v", *codec.split(), "-pix_fmt", pixels)
            if (codec, container) == ("libx264", "avi"):
                words = (*words, "-bf", "0")  # AVI has no times for B frames
            name = f"{codec.split()[0]}.{container}"
            found.append(_film(f"{codec.split()[0]} in {container}", name, *words, codec=False))
    for pixels in (
        "yuv422p10le",
        "yuv444p12le",
        "gray16le",
        "gbrp",
        "gbrp16le",
        "bgra",
        "yuva420p",
    ):
        words = ("-c:v", "ffv1", "-pix_fmt", pixels)
        found.append(_film(f"FFV1, {pixels}", f"{pixels}.mkv", *words, codec=False))
    for codec, end in (("libvpx", "webm"), ("libvpx-vp9", "webm"), ("libvpx-vp9", "mkv")):
        words = (*_CLEAR, "-c:v", codec, "-auto-alt-ref", "0", "-b:v", "2M", "-pix_fmt", "yuva420p")
        name = f"clear_{codec}.{end}"
        found.append(_film(f"transparency, {codec} in {end}", name, *words, codec=False))
    for codec, pixels in (("prores_ks", "yuva444p10le"), ("qtrle", "argb"), ("png", "rgba")):
        words = (*_CLEAR, "-c:v", codec, "-pix_fmt", pixels)
        name = f"clear_{codec}.mov"
        found.append(_film(f"transparency, {codec} in mov", name, *words, codec=False))
    return found


def _shapes() -> list[Source]:
    found = []
    for container in ("mp4", "mov", "mkv"):
        for number, sar in enumerate(("16/15", "64/45", "8/9")):
            about = f"pixels {sar.replace('/', ':')} in {container}"
            found.append(_film(about, f"sar{number}.{container}", "-vf", f"setsar={sar}"))
    for container in ("mp4", "mov"):
        for degrees in (90, 180, 270):
            about = f"rotated by {degrees} degrees in {container}"
            name = f"turned{degrees}.{container}"
            found.append(Source(about=about, name=name, make=_turned(degrees)))
    return found


def _turned(degrees: int) -> Make:
    def make(path: Path) -> None:
        upright = path.with_name(f"upright_{path.name}")
        _write(upright, *PICTURE, *_X264)
        _write(path, "-i", upright, "-c", "copy", "-metadata:s:v:0", f"rotate={degrees}")
        upright.unlink()

    return make


def _times() -> list[Source]:
    found = [
        _film("B frames, open GOPs", "open.mkv", "-x264-params", "open-gop=1:keyint=8"),
        _film("open GOPs in TS", "open.ts", "-x264-params", "open-gop=1:keyint=8"),
        _film("29.97 fps", "ntsc.mp4", "-r", "30000/1001"),
        _film("23.976 fps in MKV", "film.mkv", "-r", "24000/1001"),
        _film("times start at 10 s", "late.ts", "-output_ts_offset", "10"),
        _film("times start at 5 s in MKV", "late.mkv", "-output_ts_offset", "5"),
        _film(
            "times start below 0",
            "negative.mkv",
            "-output_ts_offset",
            "-0.4",
            "-avoid_negative_ts",
            "disabled",
        ),
        _film("time stamps just before they wrap", "wrap.ts", "-output_ts_offset", "95443"),
    ]
    for container in ("mp4", "mkv"):
        uneven = "setpts='if(gt(N,8),PTS+3/25/TB,PTS)',select='mod(n,7)'"
        words = ("-vf", uneven, "-fps_mode", "vfr")
        found.append(_film(f"variable frame rate in {container}", f"vfr.{container}", *words))
    for delay in ("0.3", "-0.3"):
        about = f"sound 0.3 s {'earlier' if delay[0] == '-' else 'later'} than the video"
        found.append(Source(about=about, name=f"sound{delay}.mp4", make=_delayed(delay)))
    found.append(Source(about="edit list: starts inside a GOP", name="edit.mp4", make=_edited))
    return found


def _delayed(seconds: str) -> Make:
    words = (*PICTURE, "-itsoffset", seconds, *_TONE, "-map", "0:v", "-map", "1:a", *_X264)
    return lambda path: _write(path, *words)


def _edited(path: Path) -> None:
    whole = path.with_name(f"whole_{path.name}")
    _write(whole, *PICTURE, *_TONE, *_X264)
    _write(path, "-ss", "0.52", "-i", whole, "-c", "copy")
    whole.unlink()


def _fields() -> list[Source]:
    double = ("-f", "lavfi", "-i", "testsrc2=size=96x64:rate=50:duration=1")
    found = []
    for order, mode in (("top", "interleave_top"), ("bottom", "interleave_bottom")):
        for container in ("mkv", "mp4"):
            flags = "tff=1" if order == "top" else "bff=1"
            words = (*double, "-vf", f"tinterlace={mode}", *_X264, "-x264-params", flags)
            about = f"interlaced, {order} field first, in {container}"
            found.append(
                Source(
                    about=about,
                    name=f"{order}.{container}",
                    make=lambda path, words=words: _write(path, *words),
                )
            )
    film = ("-f", "lavfi", "-i", "testsrc2=size=96x64:rate=24000/1001:duration=2")
    for about, name, pixels, codec in (
        ("telecined film", "telecined.mkv", "yuv420p", "ffv1"),
        ("telecined film, 10 bits", "telecined10.mkv", "yuv420p10le", "ffv1"),
        ("telecined film, ProRes", "telecined.mov", "yuv422p10le", "prores_ks"),
    ):
        words = (*film, "-vf", f"format={pixels},telecine", "-c:v", codec)
        found.append(
            Source(about=about, name=name, make=lambda path, words=words: _write(path, *words))
        )
    return found


def _colours() -> list[Source]:
    found = []
    tags = (
        "bt709:bt709:bt709",
        "smpte170m:smpte170m:smpte170m",
        "bt470bg:bt470bg:gamma28",
        "bt2020nc:bt2020:bt2020-10",
    )
    for triple in tags:
        for container in ("mp4", "mkv"):
            name = f"{triple.split(':')[0]}.{container}"
            about = f"colours {triple.split(':')[0]} in {container}"
            found.append(_film(about, name, *_tagged(triple)))
    found.append(_film("full range", "full.mp4", "-pix_fmt", "yuvj420p"))
    for name, triple in (("pq", _PQ), ("hlg", "bt2020nc:bt2020:arib-std-b67")):
        mastering = f":hdr10=1:master-display={_MASTERING}:max-cll=1000,400" if name == "pq" else ""
        words = ("-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le")
        parameters = ("-x265-params", f"log-level=none{mastering}")
        for container in ("mp4", "mkv"):
            about = f"HDR, {name.upper()}, in {container}"
            made = _film(
                about, f"{name}.{container}", *words, *parameters, *_tagged(triple), codec=False
            )
            found.append(made)
    return found


def _tagged(triple: str) -> tuple[str, ...]:
    matrix, primaries, transfer = triple.split(":")
    tags = ("-colorspace", matrix, "-color_primaries", primaries, "-color_trc", transfer)
    return (*tags, "-color_range", "tv")


def _other_streams() -> list[Source]:
    found = []
    for codec, container in (
        *(
            ("aac", "mp4"),
            ("ac3", "mkv"),
            ("libmp3lame", "mp4"),
            ("flac", "mkv"),
            ("libopus", "mkv"),
        ),
        *(("pcm_s16le", "mov"), ("pcm_s24le", "mkv"), ("mp2", "ts"), ("libvorbis", "mkv")),
    ):
        words = ("-c:a", codec, "-metadata:s:a:0", "language=deu")
        about = f"sound {codec} in {container}"
        found.append(_film(about, f"{codec}.{container}", *words, sound=True))
    for codec, container in (
        ("subrip", "mkv"),
        ("ass", "mkv"),
        ("webvtt", "mkv"),
        ("mov_text", "mp4"),
    ):
        found.append(
            Source(about=f"subtitles {codec}", name=f"{codec}.{container}", make=_subtitled(codec))
        )
    found.append(Source(about="chapters, title, attachment", name="chapters.mkv", make=_chapters))
    for about, container in (("time code track", "mov"), ("time code track in MP4", "mp4")):
        words = ("-timecode", "01:00:00:00")
        found.append(_film(about, f"code.{container}", *words, sound=True))
    for container in ("mp4", "mov"):
        about = f"camera telemetry (gpmd) in {container}"
        found.append(Source(about=about, name=f"measured.{container}", make=_measured))
    about = "data in TS"
    found.append(Source(about=about, name="data.ts", make=_with_data))
    return [*found, *_decoded_sound(), *_several_videos()]


def _decoded_sound() -> list[Source]:
    """Sound that no container of results holds."""
    found = []
    mpeg2 = ("-c:v", "mpeg2video", "-b:v", "2M")
    for about, name, video, words in (
        ("Blu-ray LPCM", "lpcm.m2ts", _X264, ("-c:a", "pcm_bluray", "-ac", "2")),
        ("Blu-ray LPCM, 5.1, 24 bits", "lpcm51.m2ts", _X264, _LPCM_51),
        ("DVD LPCM", "lpcm.vob", mpeg2, ("-c:a", "pcm_dvd", "-ac", "2", "-f", "dvd")),
        ("sound nellymoser in flv", "nelly.flv", _FLV, ("-c:a", "nellymoser", "-ar", "22050")),
        ("sound speex in flv", "speex.flv", _FLV, ("-c:a", "speex", "-ar", "16000")),
        ("sound wmav2 in wmv", "wma.wmv", ("-c:v", "wmv2", "-b:v", "2M"), ("-c:a", "wmav2")),
        ("sound adpcm_ms in avi", "adpcm.avi", ("-c:v", "mpeg4"), ("-c:a", "adpcm_ms")),
    ):
        make = (*video, "-pix_fmt", "yuv420p", *words)
        found.append(_film(about, name, *make, sound=True, codec=False))
    return found


def _several_videos() -> list[Source]:
    """Two video tracks, and a broadcast of two programmes."""
    rear = ("-f", "lavfi", "-i", "testsrc=size=80x48:rate=25:duration=1")
    maps = ("-map", "0", "-map", "1", "-map", "2", "-map", "3")
    first, second = ("-program", "title=One:st=0:st=1"), ("-program", "title=Two:st=2:st=3")
    mpeg2 = ("-c:v", "mpeg2video", "-b:v", "2M", "-pix_fmt", "yuv420p", "-c:a", "mp2")
    films = {
        "a second video track": (
            "cameras.mp4",
            (*PICTURE, *rear, *maps[:4], *_X264, "-pix_fmt", "yuv420p"),
        ),
        "two programmes in TS": (
            "programmes.ts",
            (*PICTURE, *_TONE, *rear, *_TONE, *maps, *mpeg2, *first, *second),
        ),
    }
    return [
        Source(about=about, name=name, make=lambda path, words=words: _write(path, *words))
        for about, (name, words) in films.items()
    ]


def _measured(path: Path) -> None:
    """Tracks of a GoPro camera, telemetry and time code, represented by texts."""
    text = path.with_name("measured_text.mp4")
    _subtitled("mov_text")(text)
    data = text.read_bytes().replace(b"tx3g", b"gpmd").replace(b"sbtl", b"meta")
    text.write_bytes(data)
    code = ("-timecode", "01:00:00:00", "-write_tmcd", "1")
    _write(path, "-i", text, "-map", "0", "-c", "copy", *code)
    text.unlink()


def _with_data(path: Path) -> None:
    data = path.with_suffix(".bin")
    data.write_bytes(bytes(range(256)) * 8)
    _write(
        path, *PICTURE, "-f", "data", "-i", data, "-map", "0", "-map", "1", *_X264, "-c:d", "copy"
    )
    data.unlink()


def _subtitled(codec: str) -> Make:
    def make(path: Path) -> None:
        text = path.with_suffix(".srt")
        text.write_text("1\n00:00:00,100 --> 00:00:00,700\nLine one\n\n", encoding="utf-8")
        _write(path, *PICTURE, "-i", text, *_X264, "-c:s", codec, "-metadata:s:s:0", "language=fra")
        text.unlink()

    return make


def _chapters(path: Path) -> None:
    about, note = path.with_suffix(".meta"), path.with_suffix(".txt")
    about.write_text(
        ";FFMETADATA1\ntitle=A film\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=400\ntitle=One\n"
        "[CHAPTER]\nTIMEBASE=1/1000\nSTART=400\nEND=1000\ntitle=Two\n",
        encoding="utf-8",
    )
    note.write_text("attached", encoding="utf-8")
    attach = ("-attach", str(note), "-metadata:s:t", "mimetype=text/plain")
    _write(path, *PICTURE, "-i", about, "-map_metadata", "1", *_X264, *attach)
    about.unlink()
    note.unlink()


def _changes() -> list[Source]:
    return [
        Source(
            about="aspect ratio changes within the video",
            name="aspects.ts",
            make=_joined(("-vf", "setsar=16/15", "-t", "0.4"), ("-vf", "setsar=64/45")),
        ),
        Source(
            about="size changes within the video",
            name="sizes.ts",
            make=_joined(("-s", "96x64"), ("-s", "128x96")),
        ),
        Source(
            about="pixel format changes within the video",
            name="formats.ts",
            make=_joined(("-pix_fmt", "yuv420p"), ("-pix_fmt", "yuv422p")),
        ),
    ]


def _joined(*parts: tuple[str, ...]) -> Make:
    def make(path: Path) -> None:
        data = b""
        for words in parts:
            _write(path, *PICTURE, *_X264, *words, "-output_ts_offset", str(bool(data) * 1.2))
            data += path.read_bytes()
        path.write_bytes(data)

    return make


def _stills() -> list[Source]:
    found = []
    for name, words in {
        "moving.gif": (),
        "moving.apng": ("-plays", "0", "-pix_fmt", "rgb24"),
        "clear.apng": (
            "-plays",
            "0",
            "-pix_fmt",
            "rgba",
            "-vf",
            "format=rgba,colorchannelmixer=aa=0.5",
        ),
        "moving.webp": (
            "-c:v",
            "libwebp_anim",
        ),
    }.items():
        found.append(_film(f"animated, {name}", name, *words, codec=False))
    for name, words in {
        "8bit.png": ("-pix_fmt", "rgb24"),
        "16bit.png": ("-pix_fmt", "rgb48be"),
        "clear.png": ("-pix_fmt", "rgba64be"),
        "grey.png": ("-pix_fmt", "gray16be"),
        "16bit.tif": ("-pix_fmt", "rgb48le"),
        "plain.jpg": ("-pix_fmt", "yuvj420p"),
        "still.webp": (),
        "plain.bmp": (),
    }.items():
        found.append(_film(f"still, {name}", name, "-frames:v", "1", *words, codec=False))
    return found
