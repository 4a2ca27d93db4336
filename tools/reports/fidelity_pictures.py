"""Pictures of the fidelity matrix: every plane of a result, judged by FFmpeg's own program.

Source and result are brought to one pixel format by FFmpeg, as stored, in the result's subsampling,
matrix and chroma location. How far they may be apart is measured: FFmpeg takes the source through
RGB to the result's codec and back by itself, and a result may be a little farther off than that in
each plane. Beyond that no plane may have moved, which shows a wrong chroma location.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tools.reports.fidelity_sources import ffmpeg

Film = dict[str, Any]  # a video stream as ffprobe describes it
Planes = tuple[NDArray[np.float32], ...]  # each [frames, height, width], 0 to 255

RGB: Final = ("gbr", "rgb", "bgr", "pal8", "argb", "abgr", "0rgb", "0bgr")
GREY: Final = ("gray", "ya")
_FARTHER, _MORE = 1.5, 0.6  # of the yardstick's difference, and of 255
_MOVED = 0.12  # samples of a plane; a wrong chroma location moves it by 0.25
_ALPHA: Final = ("yuva", "gbrap", "rgba", "bgra", "argb", "abgr", "ya8", "ya16", "pal8")
# FFmpeg's own decoders skip what is stored beside the coded stream.
_WITH_ALPHA = {"vp8": "libvpx", "vp9": "libvpx-vp9"}
_OPAQUE, _ALPHA_OFF = 255, 0.6  # of 255
_ENCODERS = {
    "h264": ("libx264", "-preset", "veryfast", "-crf", "1"),
    "hevc": ("libx265", "-preset", "superfast", "-crf", "1", "-x265-params", "log-level=none"),
    "prores": ("prores_ks",),
    "vp9": ("libvpx-vp9", "-crf", "1", "-b:v", "0", "-deadline", "realtime", "-cpu-used", "6"),
    "av1": ("libsvtav1", "-crf", "1", "-preset", "10"),
}
_LOSSLESS = ("ffv1",)
_QUALITY = "flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp"
_PLAIN = _QUALITY.replace("bicubic", "bilinear")
_MIDDLE = 128
_PLACES = {  # of chroma samples, in 1/256 luma samples: across and down
    **{"left": (0, 128), "center": (128, 128), "topleft": (0, 0), "top": (128, 0)}
}
_MATRICES = {"bt470bg": "bt601", "smpte170m": "bt601", "bt2020nc": "bt2020"}
_PARTS = {"444": (1, 1), "420": (2, 2), "422": (2, 1), "440": (1, 2), "411": (4, 1), "410": (4, 4)}


def fault(source: Path, result: Path, old: Film, new: Film) -> str:
    """Difference of the planes of a result from the source; "" for none.

    Args:
        source: The file.
        result: The file made of it.
        old: The video of the source.
        new: Properties of the result.
    """
    form = _Form(old, new)
    wanted, found = form.planes(source, old), form.planes(result, new)
    if len(wanted[0]) != len(found[0]):
        return f"{len(wanted[0])} frames, {len(found[0])} in the result"
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder, "again.mkv")
        form.round_trip(source, old, again)
        usual = form.planes(again, {**new, "index": 0})  # it has nothing else
    for name, *planes in zip(form.names, wanted, found, usual, strict=True):
        if problem := _fault_of_plane(*planes):
            return f"{name} {problem}"
    return _fault_of_alpha(source, result, old, new)


def _fault_of_alpha(source: Path, result: Path, old: Film, new: Film) -> str:
    wanted = _alpha(source, old)
    if wanted is None or wanted.min() == _OPAQUE:
        return ""
    found = _alpha(result, new)
    if found is None:
        return "transparency is missing"
    off = np.abs(found.astype(np.float32) - wanted).mean() if found.shape == wanted.shape else 255.0
    return f"transparency is {off:.1f} of 255 off" if off > _ALPHA_OFF else ""


def _alpha(path: Path, film: Film) -> NDArray[np.uint8] | None:
    """Alpha of all frames, as a list of bytes; None where the video has none."""
    tags = {name.lower(): value for name, value in film.get("tags", {}).items()}
    is_beside = tags.get("alpha_mode") == "1"
    beside = _WITH_ALPHA.get(film["codec_name"], "") if is_beside else ""
    if not beside and not film["pix_fmt"].startswith(_ALPHA):
        return None
    decoder = ("-c:v", beside) if beside else ()
    taken = ("-map", f"0:{film['index']}", "-vf", "alphaextract,format=gray")
    words = ("-noautorotate", *decoder, "-i", path, *taken)
    return np.frombuffer(ffmpeg(*words, "-f", "rawvideo", "-"), np.uint8)


def _fault_of_plane(
    wanted: NDArray[np.float32], found: NDArray[np.float32], usual: NDArray[np.float32]
) -> str:
    off, limit = (np.abs(one - wanted).mean(axis=(1, 2)) for one in (found, usual))
    if off.max() > _FARTHER * limit.max() + _MORE:
        frame = int(off.argmax())
        return f"of frame {frame} is {off[frame]:.1f} of 255 off, FFmpeg's {limit.max():.1f}"
    for axis, way in ((2, "across"), (1, "down")):
        moved = _moved(wanted, found, axis)
        if abs(moved) > _MOVED:
            return f"has moved by {moved:.2f} samples {way}"
    return ""


def _moved(wanted: NDArray[np.float32], found: NDArray[np.float32], axis: int) -> float:
    """Offset of a plane from another one, in samples: the least squares of its slopes."""
    slopes = np.gradient(wanted, axis=axis)
    whole = float(np.square(slopes).sum())
    return -float(((found - wanted) * slopes).sum()) / whole if whole > wanted.size else 0.0


class _Form:
    """The pixel format in which two videos are compared: that of the result, with 16 bits."""

    def __init__(self, old: Film, new: Film) -> None:
        self._new = new
        self._size = new["width"], new["height"]
        pixels, parts = new["pix_fmt"], (1, 1)
        if pixels.startswith(GREY):
            self.names, self._format = ("luma",), "gray16le"
        elif pixels.startswith(RGB):
            self.names, self._format = ("green", "blue", "red"), "gbrp16le"
        else:
            parts = _parts_of(pixels)
            chroma = next(name for name, factors in _PARTS.items() if factors == parts)
            self.names, self._format = ("luma", "Cb", "Cr"), f"yuv{chroma}p16le"
        self._parts = parts
        self._has_matrix = not old["pix_fmt"].startswith((*RGB, *GREY))

    def planes(self, path: Path, film: Film) -> Planes:
        """All frames of a file."""
        filters = f"{self._scale(film)}{self._places('out', self._new)}{self._matrix()}"
        raw = ffmpeg(
            *(
                "-noautorotate",
                *_light(film),
                "-i",
                path,
                "-map",
                f"0:{film['index']}",
                "-vf",
                f"{filters},format={self._format}",
            ),
            *("-fps_mode", "passthrough", "-f", "rawvideo", "-"),
        )
        width, height = self._size
        across, down = self._parts
        small = (-(-height // down), -(-width // across))
        shapes = [(height, width), small, small][: len(self.names)]
        ends = np.cumsum([rows * columns for rows, columns in shapes])
        frames = np.frombuffer(raw, "<u2").reshape(-1, ends[-1])
        parts = np.split(frames, ends[:-1], axis=1)
        return tuple(
            part.reshape(-1, *shape).astype(np.float32) / 257
            for part, shape in zip(parts, shapes, strict=True)
        )

    def round_trip(self, source: Path, film: Film, target: Path) -> None:
        """FFmpeg's own video of the source in the result's codec, through RGB."""
        encoder = _ENCODERS.get(self._new["codec_name"], _LOSSLESS)
        pixels = self._format if encoder is _LOSSLESS else self._new["pix_fmt"]
        pixels = pixels.replace("yuvj", "yuv")
        # how chroma is enlarged is free where the result has none that is reduced
        way = _PLAIN if self._has_matrix and "Cb" not in self.names else _QUALITY
        back = f"scale={_QUALITY}{self._places('out', self._new)}{self._matrix(always=True)}"
        tags = {"color_space": "-colorspace", "color_range": "-color_range"}
        ffmpeg(
            *("-noautorotate", *_light(film), "-i", source, "-map", f"0:{film['index']}"),
            *("-vf", f"{self._scale(film, way)},format=gbrp16le,{back},format={pixels}"),
            *("-fps_mode", "passthrough", "-c:v", *encoder),
            *(
                word
                for name, option in tags.items()
                if self._new.get(name, "gbr") != "gbr"
                for word in (option, self._new[name])
            ),
            target,
        )

    def _scale(self, film: Film, way: str = _QUALITY) -> str:
        width, height = self._size
        # FFmpeg takes grey of floats for limited range
        full = ":in_range=pc:out_range=pc" if film["codec_name"] == "exr" else ""
        places = self._places("in", film)
        return f"{film.get('crop', '')}scale={width}:{height}:{way}{full}{places}"

    def _places(self, side: str, film: Film) -> str:
        """Position of chroma along the axes in which it is reduced: elsewhere it would be moved.

        The middle is FFmpeg's own choice, which goes with a format that changes within the video.
        """
        places = _PLACES.get(film.get("chroma_location", "left"), _PLACES["left"])
        factors = _parts_of(film["pix_fmt"])
        found = zip(("h", "v"), places, factors, strict=True)
        return "".join(
            f":{side}_{axis}_chr_pos={at}" for axis, at, part in found if part > 1 and at != _MIDDLE
        )

    def _matrix(self, *, always: bool = False) -> str:
        if "Cb" not in self.names or (self._has_matrix and not always):
            return ""
        return f":out_color_matrix={_MATRICES.get(self._new.get('color_space', ''), 'bt709')}"


def _light(film: Film) -> tuple[str, ...]:
    """Options of the decoder by which linear light becomes sRGB."""
    return ("-apply_trc", "iec61966_2_1") if film["codec_name"] == "exr" else ()


def _parts_of(pixels: str) -> tuple[int, int]:
    """Luma samples to a chroma sample, across and down."""
    return next((parts for chroma, parts in _PARTS.items() if f"{chroma}p" in pixels), (1, 1))
