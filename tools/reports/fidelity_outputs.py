"""Choices of the fidelity matrix: sources whose results are asked for in another format.

All other sources get the format that the program chooses. These become WebM, numbered images, other
sound or a video of a constant bit rate.
"""

from __future__ import annotations

from pathlib import Path

from tools.reports.fidelity_sources import PICTURE, Make, Source, ffmpeg

_X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-bf", "2", "-threads", "1")
_FFV1 = ("-c:v", "ffv1")
_SOUND = "aevalsrc='0.3*sin(440*2*PI*t*(1+t/4))|0.2*sin(700*2*PI*t)':s=48000:d=1"
_TONE = ("-f", "lavfi", "-i", _SOUND)
_SURROUND = "pan=5.1(side)|FL=c0|FR=c1|FC=0.2*c0|LFE=0*c0|SL=0.7*c0|SR=0.3*c1"
_CLEAR = ("-vf", "format=yuva444p,geq=lum=lum(X\\,Y):cb=cb(X\\,Y):cr=cr(X\\,Y):a=255*gt(X\\,48)")
_MASTERING = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"
_X265 = ("-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le")
_PQ = (
    *("-colorspace", "bt2020nc", "-color_primaries", "bt2020", "-color_trc", "smpte2084"),
    *("-color_range", "tv"),
)
_HDR = (
    *_X265,
    *("-x265-params", f"log-level=none:hdr10=1:master-display={_MASTERING}:max-cll=1000,400"),
    *_PQ,
)
_BIT_RATE = 40.0  # Mbit/s: enough for frames of this size


def chosen_outputs() -> list[Source]:
    """All of them, in the order of the table."""
    return [*_webm(), *_texts(), *_sound(), *_rates(), *_images()]


def _texts() -> list[Source]:
    """Subtitles of text that the container cannot hold."""
    return [
        _chosen(f"{about}, to {to}", name, _with_text(codec), container=to.lower())
        for about, codec, name, to in (
            ("SubRip", "subrip", "text3.mkv", "MP4"),
            ("ASS", "ass", "text4.mkv", "MP4"),
            ("WebVTT and chapters", "webvtt", "text5.mkv", "MOV"),
        )
    ]


def _webm() -> list[Source]:
    def source(about: str, name: str, *words: str, sound: bool = False, **more: object) -> Source:
        made = _film(*words, sound=sound)
        return _chosen(f"{about}, to WebM", name, made, container="webm", **more)

    return [
        source("H.264 and AAC", "a.mp4", *_X264, "-c:a", "aac", sound=True),
        source("AC-3 5.1", "a.mkv", *_X264, "-af", _SURROUND, "-c:a", "ac3", sound=True),
        source("Opus", "opus.mkv", *_X264, "-c:a", "libopus", sound=True),
        source("Vorbis, language", "vorbis.mkv", *_X264, *_VORBIS, sound=True),
        source("mono at 22050 Hz", "a.avi", *_MPEG4, "-ac", "1", "-ar", "22050", sound=True),
        _chosen("WebVTT and chapters, to WebM", "text.mkv", _with_text("webvtt"), container="webm"),
        _chosen("SubRip, to WebM", "text2.mkv", _with_text("subrip"), container="webm"),
        source("AV1", "b.mkv", *_X264, codec="av1"),
        source("10 bits", "c.mkv", *_X265, "-x265-params", "log-level=none"),
        source("HDR, PQ", "pq.mkv", *_HDR),
        source("transparency, ProRes", "d.mov", *_CLEAR, "-c:v", "prores_ks", *_WITH_ALPHA),
        source("pixels 16:15", "sar.mp4", *_X264, "-vf", "setsar=16/15"),
        source("23.976 fps", "ntsc.mp4", *_X264, "-r", "24000/1001"),
        source("variable frame rate", "vfr.mp4", *_X264, *_UNEVEN),
        source("3D, side by side", "e.mkv", *_X264, "-metadata:s:v:0", "stereo_mode=left_right"),
        source("time code track", "code.mov", *_X264, "-timecode", "01:00:00:00"),
    ]


_VORBIS = ("-c:a", "libvorbis", "-metadata:s:a:0", "language=deu")
_MPEG4 = ("-c:v", "mpeg4", "-c:a", "pcm_s16le")
_WITH_ALPHA = ("-pix_fmt", "yuva444p10le")
_UNEVEN = ("-vf", "setpts='if(gt(N,8),PTS+3/25/TB,PTS)',select='mod(n,7)'", "-fps_mode", "vfr")


def _sound() -> list[Source]:
    """Sound that the container cannot hold, encoded again."""
    wma, adpcm = ("-c:v", "wmv2", "-b:v", "2M", "-c:a", "wmav2"), ("-c:v", "mpeg4", "-c:a")
    lpcm = (*_X264, "-c:a", "pcm_bluray", "-ac", "2")
    return [
        _chosen(f"{about}, {codec} in {container}", name, _film(*words, sound=True), **choice)
        for about, name, words, container, codec in (
            ("ADPCM", "a.avi", (*adpcm, "adpcm_ms"), "MP4", "AAC"),
            ("WMA", "b.wmv", wma, "MKV", "Opus"),
            ("WMA", "c.wmv", wma, "MKV", "FLAC"),
            ("Blu-ray LPCM", "d.m2ts", lpcm, "MP4", "AAC"),
            ("Blu-ray LPCM", "e.m2ts", lpcm, "MP4", "Opus"),
            ("ADPCM", "f.avi", (*adpcm, "adpcm_ms"), "MP4", "FLAC"),
        )
        for choice in ({"container": container.lower(), "sound": codec.lower()},)
    ]


def _rates() -> list[Source]:
    names = {"h264": "H.264", "hevc": "HEVC"}  # others leave more out of so small frames
    return [
        _chosen(
            f"constant bit rate, {title}",
            f"{codec}.mkv",
            _film(*_X264),
            codec=codec,
            bit_rate=_BIT_RATE,
        )
        for codec, title in names.items()
    ]


def _images() -> list[Source]:
    found = []
    for about, name, words, formats in (
        ("H.264 and AAC", "a.mp4", (*_X264, "-c:a", "aac"), "png tiff exr dpx"),
        ("10 bits", "b.mkv", (*_FFV1, "-pix_fmt", "yuv422p10le"), "png exr dpx"),
        ("16 bits", "c.mkv", (*_FFV1, "-pix_fmt", "gbrp16le"), "tiff exr dpx"),
        ("grey", "d.mkv", (*_FFV1, "-pix_fmt", "gray"), "png tiff exr dpx"),
        ("transparency", "e.mkv", (*_CLEAR, *_FFV1, "-pix_fmt", "yuva420p"), "png tiff exr dpx"),
        ("HDR, PQ", "f.mkv", (*_X265, "-x265-params", "log-level=none", *_PQ), "png dpx exr"),
        ("23.976 fps", "g.mp4", (*_X264, "-r", "24000/1001"), "png"),
        ("pixels 16:15", "h.mp4", ("-vf", "setsar=16/15", *_X264), "png tiff exr dpx"),
    ):
        made = _film(*words, sound="aac" in words)
        for kind in formats.split():
            changes = {"container": kind}
            found.append(_chosen(f"{about}, to {kind.upper()} images", name, made, **changes))
    for kind, pixels in (("exr", "gbrpf32le"), ("dpx", "gbrp10be"), ("dpx", "rgb48be")):
        about, name = f"numbered {kind.upper()} images, {pixels}", f"in_%03d.{kind}"
        found.append(_chosen(about, name, _film("-c:v", kind, "-pix_fmt", pixels)))
    for kind in ("exr", "dpx"):
        found.append(_chosen(f"still, 8bit.{kind}", f"still.{kind}", _film("-frames:v", "1")))
    return found


def _chosen(about: str, name: str, make: Make, **choices: object) -> Source:
    return Source(about=about, name=name, make=make, choices=choices)


def _film(*words: str, sound: bool = False) -> Make:
    tone = (*_TONE, "-shortest") if sound else ()
    return lambda path: _write(path, *PICTURE, *tone, *words)


def _write(path: Path, *words: str | Path) -> None:
    ffmpeg(*words, path)


def _with_text(codec: str) -> Make:
    """Writes a video with subtitles, chapters and a title."""

    def make(path: Path) -> None:
        text, about = path.with_suffix(".srt"), path.with_suffix(".meta")
        text.write_text("1\n00:00:00,100 --> 00:00:00,700\nLine one\n\n", encoding="utf-8")
        about.write_text(
            ";FFMETADATA1\ntitle=A film\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=400\ntitle=One\n",
            encoding="utf-8",
        )
        inputs = ("-i", text, "-i", about, "-map", "0", "-map", "1", "-map_metadata", "2")
        _write(path, *PICTURE, *inputs, *_X264, "-c:s", codec)
        text.unlink()
        about.unlink()

    return make
