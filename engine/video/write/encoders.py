"""Table of encoders: what each can write, and its options for a quality and a speed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from engine.core.errors import OutOfMemory, memory_ran_out
from engine.core.geometry import Size
from engine.protocol.media import Chroma, HdrMetadata, subsampling

os.environ.setdefault("SVT_LOG", "1")  # SVT-AV1 writes a page to standard error otherwise

Layout = tuple[Chroma, int, bool]  # chroma, bits, alpha


@dataclass(frozen=True, slots=True)
class Speed:
    """Preset of an encoder for a value of the setting `speed`, and what it takes."""

    preset: str
    cost: float  # CPU seconds over those of "auto"
    frames: int  # kept in RAM, copies included, once it was given enough


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSpec:
    """One encoder of FFmpeg."""

    name: str  # in FFmpeg
    codec: str  # value of the setting `codec`
    title: str  # title of the codec, for users
    formats: dict[Layout, str]  # FFmpeg's pixel format of each layout
    is_lossy: bool = True
    needs_whole_chroma: bool = True  # refuses sizes with a part of a chroma sample
    smallest: Size = Size(2, 2)  # limits of both sides, px
    largest: Size = Size(16384, 16384)
    speeds: dict[str, Speed] = field(default_factory=dict)  # by value of `speed`
    crf_scale: float = 1.0  # its CRF over x264's for about the same SSIM, on camera footage
    # Kept in RAM from the first frame on; docs/benchmarks/encoder-memory.md.
    megabytes: int = 0
    megabytes_per_thread: int = 0
    bytes_per_pixel: int = 24
    frames: int = 0
    most_threads: int = 16
    has_alpha_apart: bool = False  # alpha is encoded by a second encoder

    @property
    def has_rate(self) -> bool:
        """Whether quality, bit rate and speed count; not for codecs of single frames."""
        return bool(self.speeds)

    def speed_of(self, options: dict[str, str]) -> Speed:
        """The speed that options ask for; "auto" where they do not say."""
        preset = options.get("preset", options.get("cpu-used"))
        found = (one for one in self.speeds.values() if one.preset == preset)
        speed = next(found, self.speeds.get("auto", Speed("", 1, 0)))
        looks_ahead = _SVT_CONSTANT not in options.get("svtav1-params", "")
        return speed if looks_ahead else replace(speed, frames=0)

    def chromas(self) -> tuple[Chroma, ...]:
        """Chroma formats it can write, in the order of the table."""
        return tuple(dict.fromkeys(chroma for chroma, _, _ in self.formats))

    def depths(self, chroma: Chroma, alpha: bool = False) -> tuple[int, ...]:
        """Bits it can write of a chroma, rising."""
        return tuple(sorted(d for c, d, a in self.formats if c == chroma and a == alpha))

    def fits(self, size: Size) -> bool:
        """Whether it takes a picture of this size."""
        return (
            self.smallest.width <= size.width <= self.largest.width
            and self.smallest.height <= size.height <= self.largest.height
        )


def _yuv(
    chromas: Iterable[Chroma], depths: Iterable[int], alpha: bool = False
) -> dict[Layout, str]:
    letters = "yuva" if alpha else "yuv"
    depths = tuple(depths)
    return {
        (chroma, depth, alpha): f"{letters}{chroma}p" + (f"{depth}le" if depth > 8 else "")
        for chroma in chromas
        for depth in depths
    }


def _planar(
    stem: str, chroma: Chroma, depths: Iterable[int], alpha: bool = False
) -> dict[Layout, str]:
    return {(chroma, depth, alpha): f"{stem}{depth}le" for depth in depths}


# Without 12 and 14 bits with alpha, which FFmpeg 5.1, for one, cannot decode.
_FFV1: dict[Layout, str] = {
    **_yuv(("420", "422", "444"), (8, 9, 10, 12, 14, 16)),
    **_yuv(("440",), (8, 10, 12)),
    **_yuv(("411", "410"), (8,)),
    **_yuv(("420", "422", "444"), (8, 9, 10, 16), alpha=True),
    ("gray", 8, False): "gray",
    **_planar("gray", "gray", (9, 10, 12, 14, 16)),
    ("gray", 8, True): "ya8",
    ("rgb", 8, False): "bgr0",
    **_planar("gbrp", "rgb", (9, 10, 12, 14, 16)),
    ("rgb", 8, True): "bgra",
    **_planar("gbrap", "rgb", (10, 12, 16), alpha=True),
}


# No 10 bits: libvpx is built without them.
_VP9: dict[Layout, str] = {
    **_yuv(("420", "422", "440", "444"), (8,)),
    **_yuv(("420",), (8,), alpha=True),
}
# Floats, which the planes of 16 bits become.
_EXR: dict[Layout, str] = {
    ("rgb", 16, False): "gbrpf32le",
    ("rgb", 16, True): "gbrapf32le",
    ("gray", 16, False): "grayf32le",
}
_DPX: dict[Layout, str] = {
    ("rgb", 8, False): "rgb24",
    ("rgb", 8, True): "rgba",
    **_planar("gbrp", "rgb", (10, 12)),
    ("rgb", 16, False): "rgb48be",
    ("rgb", 16, True): "rgba64be",
    ("gray", 8, False): "gray",
    ("gray", 16, False): "gray16be",
}


def _pictures(order: str) -> dict[Layout, str]:
    return {
        ("rgb", 8, False): "rgb24",
        ("rgb", 8, True): "rgba",
        ("rgb", 16, False): f"rgb48{order}",
        ("rgb", 16, True): f"rgba64{order}",
        ("gray", 8, False): "gray",
        ("gray", 8, True): "ya8",
        ("gray", 16, False): f"gray16{order}",
        ("gray", 16, True): f"ya16{order}",
    }


def _lossless(codec: str, formats: dict[Layout, str]) -> EncoderSpec:
    """Encoder of single frames that loses nothing and takes any size."""
    return EncoderSpec(
        name=codec,
        codec=codec,
        title=codec.upper(),
        formats=formats,
        is_lossy=False,
        smallest=Size(1, 1),
    )


def _speeds(*rows: tuple[str, float, int]) -> dict[str, Speed]:
    values = ("fast", "auto", "medium", "slow")
    return {value: Speed(*row) for value, row in zip(values, rows, strict=True)}


_NVENC_SPEEDS = _speeds(("p2", 1, 0), ("p5", 1, 0), ("p6", 1, 0), ("p7", 1, 0))
_P010: dict[Layout, str] = {**_yuv(("420",), (8,)), ("420", 10, False): "p010le"}

ENCODERS: dict[str, EncoderSpec] = {
    e.name: e
    for e in (
        EncoderSpec(
            name="libx264",
            codec="h264",
            title="H.264",
            formats=_yuv(("420", "422", "444"), (8, 10)),
            speeds=_speeds(
                ("veryfast", 0.5, 33), ("faster", 1, 58), ("medium", 1.4, 103), ("slow", 1.9, 130)
            ),
            megabytes=12,
            bytes_per_pixel=40,
        ),
        EncoderSpec(
            name="libx265",
            codec="hevc",
            title="HEVC",
            formats=_yuv(("420", "422", "444"), (8, 10, 12)),
            smallest=Size(16, 16),
            speeds=_speeds(
                ("superfast", 0.7, 60), ("faster", 1, 90), ("medium", 1.4, 108), ("slow", 3.7, 125)
            ),
            megabytes_per_thread=12,
            bytes_per_pixel=104,
        ),
        EncoderSpec(
            name="libsvtav1",
            codec="av1",
            title="AV1",
            formats=_yuv(("420",), (8, 10)),
            smallest=Size(16, 16),
            largest=Size(16384, 8704),
            speeds=_speeds(("10", 0.6, 70), ("8", 1, 114), ("6", 1.9, 190), ("4", 3.2, 263)),
            crf_scale=0.75,
            megabytes_per_thread=80,
            bytes_per_pixel=190,
            most_threads=4,  # six take twice the memory of four
        ),
        EncoderSpec(
            name="libvpx-vp9",
            codec="vp9",
            title="VP9",
            formats=_VP9,
            speeds=_speeds(("6", 0.2, 0), ("5", 1, 0), ("3", 1.2, 0), ("1", 1.7, 0)),
            crf_scale=1.2,
            megabytes=50,
            bytes_per_pixel=15,
            frames=72,
            has_alpha_apart=True,
        ),
        EncoderSpec(
            name="prores_ks",
            codec="prores",
            title="ProRes",
            formats={**_yuv(("422", "444"), (10,)), **_yuv(("444",), (10,), alpha=True)},
        ),
        replace(_lossless("ffv1", _FFV1), needs_whole_chroma=False, bytes_per_pixel=8, frames=20),
        EncoderSpec(
            name="h264_nvenc",
            codec="h264",
            title="H.264",
            formats=_yuv(("420", "444"), (8,)),
            smallest=Size(146, 50),
            largest=Size(4096, 4096),
            speeds=_NVENC_SPEEDS,
        ),
        EncoderSpec(
            name="hevc_nvenc",
            codec="hevc",
            title="HEVC",
            formats={**_P010, **_yuv(("444",), (8,))},
            smallest=Size(130, 34),
            largest=Size(8192, 8192),
            speeds=_NVENC_SPEEDS,
        ),
        EncoderSpec(
            name="av1_nvenc",
            codec="av1",
            title="AV1",
            formats=_P010,
            smallest=Size(192, 128),
            largest=Size(8192, 8192),
            speeds=_NVENC_SPEEDS,
        ),
        _lossless("png", _pictures("be")),
        _lossless("tiff", _pictures("le")),
        replace(_lossless("exr", _EXR), bytes_per_pixel=56),
        _lossless("dpx", _DPX),
    )
}
ON_PROCESSOR = {e.codec: e for e in ENCODERS.values() if not e.name.endswith("_nvenc")}
ON_GPU = {e.codec: e for e in ENCODERS.values() if e.name.endswith("_nvenc")}


@dataclass(frozen=True, slots=True)
class Rate:
    """Bits that a video gets: as many as a quality takes, or the same number all the time."""

    crf: int = 16  # 0 to 51 on x264's scale; other encoders get a value of like quality
    constant: int = 0  # bits/s, whatever the quality; 0 for a constant quality


def encoder_options(
    encoder: EncoderSpec,
    *,
    rate: Rate,
    speed: str,
    layout: Layout,
    size: Size,
    source_bits: int = 8,
) -> dict[str, str]:
    """Every option of an encoder but those of threads (`with_threads`).

    Args:
        encoder: One of the table.
        rate: Quality or bit rate, for encoders that have one.
        speed: "fast", "auto", "medium" or "slow".
        layout: Pixel layout of the result.
        size: Size of a frame, px.
        source_bits: Bits of the source's frames.
    """
    if not encoder.has_rate:
        return _intra_options(encoder, layout, size, source_bits)
    preset = encoder.speeds[speed].preset
    if encoder.name.endswith("_nvenc"):
        control = "cbr" if rate.constant else "vbr"
        return {"preset": preset, "tune": "hq", "rc": control, **_bits(encoder, rate)}
    if encoder.name == "libvpx-vp9":
        deadline = "realtime" if speed == "fast" else "good"
        still = {"auto-alt-ref": "0"} if layout[2] else {}  # FFmpeg needs it for alpha
        options = {"deadline": deadline, "cpu-used": preset, "row-mt": "1", **still}
        return {**options, **_bits(encoder, rate)}
    parameters = {
        # without it the same frames give other bytes in another run: a resumed job would differ
        "libx264": ("x264-params", "cpu-independent=1", "nal-hrd=cbr:threads=1"),
        "libx265": ("x265-params", _x265_params(size), _X265_CONSTANT),
        "libsvtav1": ("svtav1-params", "", f"rc=2:{_SVT_CONSTANT}"),
    }
    name, always, constant = parameters[encoder.name]
    options = _joined({"preset": preset, **_bits(encoder, rate)}, name, always)
    return _joined(options, name, constant) if rate.constant else options


def _bits(encoder: EncoderSpec, rate: Rate) -> dict[str, str]:
    if rate.constant:
        # half a second, half full at the beginning: each segment has a buffer of its own
        room = {"bufsize": rate.constant // 2, "rc_init_occupancy": rate.constant // 4}
        bits = {**dict.fromkeys(("b", "minrate", "maxrate"), rate.constant), **room}
        return {name: str(value) for name, value in bits.items()}
    crf = round(rate.crf * encoder.crf_scale)
    if encoder.name.endswith("_nvenc"):
        return {"cq": str(max(1, crf)), "b": "0"}
    return {"crf": str(crf), "b": "0"} if encoder.name == "libvpx-vp9" else {"crf": str(crf)}


def _intra_options(
    encoder: EncoderSpec, layout: Layout, size: Size, source_bits: int
) -> dict[str, str]:
    chroma, _, alpha = layout
    if encoder.name == "prores_ks":
        profile = "4444" if chroma == "444" else "hq"
        return {"profile": profile, "vendor": "apl0", "alpha_bits": "16" if alpha else "0"}
    if encoder.name == "ffv1":
        across, down = subsampling(chroma)
        is_odd = size.width % across or size.height % down  # FFmpeg refuses some in slices
        is_small = min(size.width, size.height) < 64
        slices = 1 if is_odd or is_small else 4 if size.pixels < 2**21 else 16
        return {"level": "3", "g": "1", "slicecrc": "1", "slices": str(slices)}
    if encoder.name == "tiff":
        return {"compression_algo": "deflate"}
    if encoder.name == "png":
        return {"compression_level": "6", "pred": "up"}
    if encoder.name == "exr":  # halves tell apart all values of 10 bits
        return {"compression": "zip16", "format": "half" if source_bits <= 10 else "float"}
    return {}


def _x265_params(size: Size) -> str:
    """Parameters of x265.

    WORKAROUND for x265 4.2: it writes beyond its memory at widths of 40 and 48 px.

    Tried at 16 to 160 px a side: with these three together none aborts, with the first alone many.
    """
    tiny = ":ctu=16:no-weightp=1:no-cutree=1" if min(size.width, size.height) < 64 else ""
    return f"log-level=error:open-gop=0{tiny}"


_SVT_CONSTANT = "pred-struct=1"  # at a constant rate: no frame waits for later ones
# With several frames or rows at once, a constant rate gives other bytes in another run.
_X265_CONSTANT = "strict-cbr=1:frame-threads=1:no-wpp=1"

# Option, name of the light level, parts of 1 and of 1 cd/m2 in which values are given.
_HDR_OPTIONS: dict[str, tuple[str, str, tuple[int, int]]] = {
    "libx264": ("x264-params", "cll", (50_000, 10_000)),
    "libx265": ("x265-params", "max-cll", (50_000, 10_000)),
    "libsvtav1": ("svtav1-params", "content-light", (0, 0)),
}


def writes_hdr(encoder: str, metadata: HdrMetadata | None) -> bool:
    """Whether an encoder can write what a video states about its HDR."""
    return metadata is not None and encoder in _HDR_OPTIONS


def with_hdr(options: dict[str, str], encoder: str, metadata: HdrMetadata | None) -> dict[str, str]:
    """The options with those that make an encoder write what a video states about its HDR."""
    if metadata is None or encoder not in _HDR_OPTIONS:
        return options
    name, level, (of_colour, of_light) = _HDR_OPTIONS[encoder]
    found = []
    if metadata.primaries and metadata.luminance:
        x_y = [_in_units(value, of_colour) for value in metadata.primaries]
        red, green, blue, white = (f"({x},{y})" for x, y in zip(x_y[::2], x_y[1::2], strict=True))
        least, most = (_in_units(value, of_light) for value in metadata.luminance)
        display = f"G{green}B{blue}R{red}WP{white}L({most},{least})"
        found.append(f"mastering-display={display}")
    if metadata.light_level:
        found.append(f"{level}={','.join(map(str, metadata.light_level))}")
    if encoder == "libx265":
        found = [one.replace("mastering-display", "master-display") for one in found]
    return _joined(options, name, ":".join(found))


def _in_units(value: Fraction, parts: int) -> str:
    """A value as a whole number of parts, or as a decimal number where there are none."""
    return str(round(value * parts)) if parts else f"{float(value):.5f}"


def _joined(options: dict[str, str], name: str, added: str) -> dict[str, str]:
    """Options with more of an encoder's own parameters."""
    both = ":".join(filter(None, [options.get(name, ""), added]))
    return {**options, name: both} if both else options


def with_threads(options: dict[str, str], encoder: str, threads: int) -> dict[str, str]:
    """The options with a limit of threads, for encoders that ignore FFmpeg's."""
    if encoder == "libx265":
        is_constant = _X265_CONSTANT in options["x265-params"]
        own = f"pools={threads}:frame-threads={1 if is_constant else max(1, min(4, threads))}"
        return _joined(options, "x265-params", own)
    if encoder == "libsvtav1":
        most = ENCODERS[encoder].most_threads
        return _joined(options, "svtav1-params", f"lp={max(1, min(most, threads))}")
    return dict(options)


# Bits a pixel at CRF 16; a step of 6 in CRF halves them. Measured at 960x540: clean footage
# enlarged twice 0.12, 0.08, 0.08, noisy pictures 0.74, 0.50, 1.1; between them, nearer the first.
_BITS_AT_16 = {"h264": 0.2, "hevc": 0.14, "av1": 0.14, "vp9": 0.16}
_FIXED_BITS = {"prores": 4.4, "ffv1": 3.5, "png": 12.0, "tiff": 14.0, "exr": 15.0, "dpx": 24.0}


def bits_per_pixel(codec: str, crf: int, bit_depth: int, chroma: Chroma) -> float:
    """Rough size of a frame in bits a pixel, for predictions of the file's size."""
    across, down = subsampling(chroma)
    planes = 1.0 if chroma == "gray" else 1.0 + 2.0 / (across * down)
    if codec in _BITS_AT_16:
        quality: float = 2.0 ** ((16 - crf) / 6)
        return _BITS_AT_16[codec] * quality * (0.7 + 0.2 * planes)
    if codec == "prores":
        return _FIXED_BITS[codec] * (planes / 2.0)
    return _FIXED_BITS[codec] * (planes / 1.5 if codec == "ffv1" else planes / 3) * bit_depth / 8


@contextmanager
def own_scheduling() -> Iterator[None]:
    """Restores the scheduling policy of the process's threads.

    libsvtav1 puts the thread that opens it and its own threads into SCHED_FIFO with priority 99
    where it may (as root): everything else on the machine then waits for them.
    """
    if sys.platform != "linux":
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        for thread in (int(task.name) for task in Path("/proc/self/task").iterdir()):
            with suppress(OSError):  # it has ended
                if os.sched_getscheduler(thread) == os.SCHED_FIFO:
                    os.sched_setscheduler(thread, policy, parameters)


def opens(name: str) -> bool:
    """Whether an encoder exists here and really encodes a small frame. Loads av.

    Raises:
        OutOfMemory: There is no memory to try it.
    """
    from av import CodecContext, VideoFrame
    from av.error import FFmpegError
    from av.video.codeccontext import VideoCodecContext

    encoder = ENCODERS[name]
    layout, pixel_format = next(iter(encoder.formats.items()))
    size = Size(256, 128)
    options = encoder_options(encoder, rate=Rate(crf=30), speed="fast", layout=layout, size=size)
    try:
        context = CodecContext.create(name, "w")
        if not isinstance(context, VideoCodecContext):
            return False
        context.width, context.height, context.pix_fmt = size.width, size.height, pixel_format
        context.time_base, context.framerate = Fraction(1, 25), Fraction(25)
        context.options = with_threads(options, name, 1)
        frame = VideoFrame(size.width, size.height, pixel_format)
        frame.pts = 0
        with own_scheduling():
            return bool([*context.encode(frame), *context.encode(None)])
    except (FFmpegError, ValueError) as err:
        if memory_ran_out(err):  # it may pass: no verdict, and nothing is remembered
            raise OutOfMemory("encoder", name=name) from err
        return False  # no such encoder, no GPU, or one that refuses
