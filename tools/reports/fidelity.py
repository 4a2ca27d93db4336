"""The fidelity matrix: what of many sources is the same in their results, as others see it.

    python -m tools.reports.fidelity > docs/fidelity.md

Each source is written by FFmpeg's own program, or by Pillow, and goes through a job without a
model, so that pictures can be compared. The judges are ffprobe, ffmpeg and Pillow, never the
program itself. A property that differs is red unless the plan said so before the start. Needs
ffmpeg and ffprobe; about ten minutes on two cores. `--only WORDS` has only the sources whose
description has these words.
"""

from __future__ import annotations

import argparse
import json
import math
import queue
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.api import Engine
from engine.core.geometry import Margins, Size
from engine.protocol import commands, events
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings, JobSettings, with_values
from tools.reports import fidelity_pictures
from tools.reports.fidelity_cropping import cropped_sources
from tools.reports.fidelity_outputs import chosen_outputs
from tools.reports.fidelity_photographs import (
    Photograph,
    colours_of,
    exif_fault,
    judged,
    photograph,
    photographs,
    pixel_fault,
)
from tools.reports.fidelity_pictures import GREY, RGB
from tools.reports.fidelity_sources import Source, ffmpeg, sources
from tools.reports.fidelity_statements import statements, stating_sources

_SETTINGS = JobSettings(model="none", crf=1, speed="fast")
_MS = 0.0011  # of MKV's time stamps, rounded twice
PROPERTIES = (
    "frames",
    "times",
    "shape",
    "colours",
    "sound",
    "other streams",
    "titles",
    "statements",
)
_COPIED = ("audio", "subtitle", "data")
_REWRITTEN = ("tmcd", "text")  # tracks that result from time code and chapters
_SAMPLES = ("pcm_", "flac")  # what sound is decoded into
_ENCODED = ("aac", "opus")  # what sound is encoded into again
_RATE, _WINDOW = 8000, 2000  # of sound that was encoded again: samples/s, and compared at once
_LEAST_RATIO = 2.0  # of the energies of sound and difference: 3 dB
_LEAST_SAMPLE = 2**-20  # of full scale; versions of ffmpeg round floats differently
_NO_MATRIX = (*RGB, *GREY)
_TAGS = ("color_space", "color_range", "color_primaries", "color_transfer")
_SAID = {  # notice of the plan -> properties that it announces
    "deinterlaced": ("frames", "times"),
    "stream-left-out": ("sound", "other streams"),
    "alpha-left-out": ("frames",),
    "colours-guessed": ("colours",),
    "profile-left-out": ("colours",),
    "exif-left-out": ("titles",),
    "times-left-out": ("times", "titles"),
    "hdr-unstated": ("colours",),
    "gamut-unstated": ("colours",),
    "light-unstated": ("colours",),
    "aspect-doubtful": (),
    "changes-within": ("shape", "colours"),
    "statement-left-out": ("statements", "titles", "colours", "shape"),
}


@dataclass(slots=True)
class Row:
    """One line of the matrix: a mark by property, or why the source was refused."""

    source: Source
    marks: dict[str, str] = field(default_factory=dict)
    refused: str = ""

    @property
    def is_red(self) -> bool:
        """Whether something is lost that was not announced."""
        return not self.refused and any(mark.startswith("no") for mark in self.marks.values())


class _Queue:
    """Events of the engine, one by one."""

    def __init__(self) -> None:
        self._events: queue.Queue[events.Event] = queue.Queue()

    def emit(self, event: events.Event) -> None:
        self._events.put(event)

    def until(self, *kinds: type[events.Event]) -> Iterator[events.Event]:
        """Events up to the first of some classes."""
        while True:
            event = self._events.get(timeout=300)
            yield event
            if isinstance(event, kinds):
                return


def all_sources() -> list[Source]:
    """Films, streams and stills, in the order of the table."""
    found = [*sources(), *cropped_sources(), *stating_sources(), *photographs()]
    return [*found, *chosen_outputs()]


def rows(wanted: Sequence[Source], folder: Path) -> Iterator[Row]:
    """The matrix, line by line, with its files in a folder."""
    heard = _Queue()
    engine = Engine(heard, settings=EngineSettings(threads=2), jobs_folder=folder / "jobs")
    engine.start()
    engine.send(commands.StartQueue())
    try:
        for number, source in enumerate(wanted):
            path = folder / f"{number:03}" / source.name
            path.parent.mkdir()
            source.make(path)
            yield _row(source, path, engine, heard)
    finally:
        engine.close()


def _row(source: Source, path: Path, engine: Engine, heard: _Queue) -> Row:
    settings = with_values(_SETTINGS, source.choices)
    engine.send(commands.AddJob(job_id=path.parent.name, source=path, settings=settings))
    ends = (events.JobFinished, events.JobFailed, events.JobRejected)
    seen = list(heard.until(*ends))
    end = seen[-1]
    if isinstance(end, events.JobFailed | events.JobRejected):
        return Row(source=source, refused=end.error.message)
    assert isinstance(end, events.JobFinished)
    plans = [event.plan for event in seen if isinstance(event, events.PlanChosen)]
    before = described(judged(path), source.cropped)
    after = described(_shown(end.report.output))
    return Row(source=source, marks=dict(_marks(before, after, plans[-1])))


def _shown(output: Path) -> Path:
    """A result as FFmpeg's program is given it: numbered images by the pattern of their names."""
    if not output.is_dir():
        return output
    first = min(output.iterdir())
    digits = re.search(r"\d+(?=\.\w+$)", first.name)
    assert digits is not None
    return output / f"{first.name[: digits.start()]}%0{len(digits[0])}d{first.suffix}"


def _marks(before: _Described, after: _Described, plan: Plan) -> Iterator[tuple[str, str]]:
    codes = [notice.code for notice in plan.notices]
    said = {name for code in codes for name in _SAID.get(code, ())}
    for name in PROPERTIES:
        fault = FAULTS[name](before, after)
        if not fault:
            yield name, "yes"
        else:
            yield name, f"said: {fault}" if name in said else f"no: {fault}"


@dataclass(frozen=True, slots=True)
class _Described:
    """A file as ffprobe and ffmpeg describe it."""

    path: Path
    film: dict[str, Any]
    streams: list[dict[str, Any]]
    titles: dict[str, str]
    chapters: list[tuple[str, float]]
    times: list[float]  # s, of each frame after the first
    start: float  # s, of the picture after the sound
    photograph: Photograph | None  # facts of a still
    sums: dict[int, str]  # sums over the packets of other streams
    is_still: bool


def described(path: Path, cropped: Margins | None = None) -> _Described:
    """A file as other programs describe it, which do not see what a container crops."""
    found = _ffprobe(path, "-show_streams", "-show_format", "-show_chapters")
    streams = found["streams"]
    videos = [one for one in streams if one["codec_type"] == "video"]
    film = next(one for one in videos if not one["disposition"]["attached_pic"])
    if cropped is not None and cropped != Margins():
        part = cropped.inside(Size(film["width"], film["height"]))
        crop = f"crop={part.width}:{part.height}:{cropped.left}:{cropped.top},"
        film |= {"width": part.width, "height": part.height, "crop": crop}
    at = ("-select_streams", str(film["index"]))
    stamps = _ffprobe(path, *at, "-show_entries", "frame=best_effort_timestamp_time")["frames"]
    times = [float(one.get("best_effort_timestamp_time", "nan")) for one in stamps]
    is_still = path.suffix in (".png", ".tif", ".jpg", ".bmp", ".webp", ".avif") and len(times) == 1
    return _Described(
        path=path,
        film=film,
        streams=[one for one in streams if one is not film],
        titles={k.lower(): v for k, v in found["format"].get("tags", {}).items()},
        chapters=[
            (one.get("tags", {}).get("title", ""), float(one["start_time"]))
            for one in found.get("chapters", [])
        ],
        times=[time - times[0] for time in times],
        start=times[0] - _sound_start(path, times[0]),
        photograph=photograph(path) if is_still else None,
        sums={one["index"]: _sum(path, one) for one in streams if one["codec_type"] in _COPIED},
        is_still=is_still,
    )


def _sound_start(path: Path, otherwise: float) -> float:
    """Time of the first sound, s: decoders drop what encoders put before it."""
    first = ("-select_streams", "a:0", "-read_intervals", "%+#8")
    found = _ffprobe(path, *first, "-show_entries", "frame=pts_time").get("frames", [])
    return next((float(one["pts_time"]) for one in found if "pts_time" in one), otherwise)


def _ffprobe(path: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        ["ffprobe", "-v", "quiet", "-of", "json", *words, str(path)],
        capture_output=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _sum(path: Path, stream: dict[str, Any]) -> str:
    """A checksum of all payloads of a stream."""
    words = ("-map", f"0:{stream['index']}", "-c", "copy", "-f", "streamhash", "-")
    return ffmpeg("-i", path, *words).decode().rpartition("=")[2].strip()


# --- one function for each property: what differs, "" where nothing does


def _of_pictures(before: _Described, after: _Described) -> str:
    if len(before.times) != len(after.times):
        return f"{len(before.times)} frames, {len(after.times)} in the result"
    if before.film.get("field_order", "progressive") not in ("progressive", "unknown"):
        return ""  # combs are no part of the picture
    if before.photograph is not None and after.photograph is not None and _is_for_pillow(before):
        return pixel_fault(before.photograph, after.photograph)
    return fidelity_pictures.fault(before.path, after.path, before.film, after.film)


def _is_for_pillow(file: _Described) -> bool:
    """Stills that are turned, and those whose chroma FFmpeg puts elsewhere than JPEG and WebP."""
    assert file.photograph is not None
    return file.photograph.is_marked or file.film["codec_name"] in ("mjpeg", "webp")


def _of_times(before: _Described, after: _Described) -> str:
    if len(before.times) != len(after.times):
        return "another number of frames"
    pairs = zip(before.times, after.times, strict=True)
    offs = [
        abs(a - b) if not math.isnan(a) else 0.0 for a, b in pairs
    ]  # ffprobe does not know all of AVI
    if max(offs, default=0) > _MS:
        return f"frame {offs.index(max(offs))} is {1000 * max(offs):.1f} ms off"
    moved = abs(before.start - after.start)
    return f"sound is {1000 * moved:.0f} ms off" if moved > 0.02 else ""


def _of_shape(before: _Described, after: _Described) -> str:
    if before.photograph and after.photograph:
        old, new = before.photograph.shape, after.photograph.shape
    else:
        turns = [_turn(one.film) for one in (before, after)]
        if turns[0] != turns[1]:
            return f"turned by {turns[0]} degrees, {turns[1]} in the result"
        old, new = (_shape(one.film) for one in (before, after))
    return "" if abs(old / new - 1) < 0.01 else f"{old:.3f}, {new:.3f} in the result"


def _shape(film: dict[str, Any]) -> float:
    """Width over height as stored, with the shape of its pixels."""
    sar = film.get("sample_aspect_ratio", "1:1").split(":")
    aspect = int(sar[0]) / int(sar[1]) if len(sar) == 2 and int(sar[0]) else 1.0
    return float(film["width"] * aspect / film["height"])


def _turn(film: dict[str, Any]) -> int:
    turns = [side.get("rotation", 0) for side in film.get("side_data_list", [])]
    return round(turns[0]) % 360 if turns else 0


def _of_colours(before: _Described, after: _Described) -> str:
    if before.photograph and before.photograph.profile:
        same = after.photograph and after.photograph.profile == before.photograph.profile
        return "" if same else "the colour profile is missing"
    stated, found = (colours_of(one.path) for one in (before, after))
    if lost := [name for name in stated if found.get(name, "") != stated[name]]:
        return f"{', '.join(lost)} of the image is missing"
    pixels = (before.film["pix_fmt"], after.film["pix_fmt"])
    if after.is_still or any(one.startswith(_NO_MATRIX) for one in pixels):
        return ""  # a matrix and a range of its own
    for tag in _TAGS:
        old, new = (one.film.get(tag, "unknown") for one in (before, after))
        if old not in ("unknown", "gbr", "reserved", new):
            return f"{tag} {old}, {new} in the result"
    return ""


def _of_sound(before: _Described, after: _Described) -> str:
    return _missing(before, after, "audio")


def _of_other_streams(before: _Described, after: _Described) -> str:
    kinds = ("video", "subtitle", "attachment", "data")
    found = (_missing(before, after, kind) for kind in kinds)
    return "; ".join(filter(None, found))


def _missing(before: _Described, after: _Described, kind: str) -> str:
    old, new = (_of_kind(one, kind) for one in (before, after))
    if len(old) != len(new):
        return f"{len(old)} of kind {kind}, {len(new)} in the result"
    languages = [[_language(s) for s in part] for part in (old, new)]
    if any(a != b for a, b in zip(*languages, strict=True) if a):
        return f"languages {languages[0]}, {languages[1]} in the result"
    pairs = zip(old, new, strict=True)
    same = (_is_same(before, a, after, b) for a, b in pairs)
    return "" if all(same) else f"packets of kind {kind} differ"


def _is_same(
    before: _Described, old: dict[str, Any], after: _Described, new: dict[str, Any]
) -> bool:
    codec = new.get("codec_name", "")
    if old.get("codec_name") != codec and codec in _ENCODED:
        return _sounds_alike(before, old, after, new)
    if old.get("codec_name") != codec and codec.startswith(_SAMPLES):
        return _has_same_samples(before, old, after, new)
    if old.get("codec_name") != codec and codec == "mov_text":
        texts = (_words(before.path, old["index"]), _words(after.path, new["index"]))
        return texts[0] == texts[1]
    return before.sums.get(old["index"]) == after.sums.get(new["index"])


def _words(path: Path, index: int) -> str:
    """Texts of subtitles and their times, without styles."""
    found = ffmpeg("-i", path, "-map", f"0:{index}", "-f", "srt", "-").decode()
    return re.sub("<[^>]*>", "", found)


def _sounds_alike(
    before: _Described, old: dict[str, Any], after: _Described, new: dict[str, Any]
) -> bool:
    """Whether sound that was encoded again is alike in each quarter of a second, up to 4 kHz."""
    layout = f"aformat=channel_layouts={new['channel_layout']},aresample={_RATE}"
    one, other = (
        np.frombuffer(
            ffmpeg("-i", path, "-map", f"0:{index}", "-af", layout, "-f", "f32le", "-"), np.float32
        ).reshape(-1, new["channels"])
        for path, index in ((before.path, old["index"]), (after.path, new["index"]))
    )
    whole = min(len(one), len(other)) // _WINDOW * _WINDOW
    if not whole or abs(len(one) - len(other)) > _RATE // 20:
        return False
    one, other = (part[:whole].reshape(-1, _WINDOW, new["channels"]) for part in (one, other))
    sound, off = (np.square(part).sum(axis=1) for part in (one, other - one))
    return bool((sound + 1e-3 >= _LEAST_RATIO * off).all())


def _has_same_samples(
    before: _Described, old: dict[str, Any], after: _Described, new: dict[str, Any]
) -> bool:
    """Whether sound that was decoded on the way is the same, as ffmpeg decodes both."""
    if (old["channels"], old["sample_rate"]) != (new["channels"], new["sample_rate"]):
        return False
    one, other = (
        np.frombuffer(ffmpeg("-i", path, "-map", f"0:{index}", "-f", "f32le", "-"), np.float32)
        for path, index in ((before.path, old["index"]), (after.path, new["index"]))
    )
    return one.size == other.size and bool(np.abs(one - other).max() < _LEAST_SAMPLE)


def _of_kind(file: _Described, kind: str) -> list[dict[str, Any]]:
    return [
        one
        for one in file.streams
        if one["codec_type"] == kind and one.get("codec_tag_string") not in _REWRITTEN
    ]


def _language(stream: dict[str, Any]) -> str:
    found = str(stream.get("tags", {}).get("language", ""))
    return "" if found == "und" else found


def _of_titles(before: _Described, after: _Described) -> str:
    if before.photograph is not None and before.photograph.is_marked:
        return exif_fault(before.photograph, after.photograph)
    for key in ("title", "artist", "comment", "timecode"):
        if key in before.titles and before.titles[key] != after.titles.get(key):
            return f"{key} is missing"
    old, new = before.chapters, after.chapters
    same = len(old) == len(new) and all(
        a[0] == b[0] and abs(a[1] - b[1]) < 0.05 for a, b in zip(old, new, strict=True)
    )
    return "" if same else f"{len(old)} chapters, {len(new)} in the result"


def _of_statements(before: _Described, after: _Described) -> str:
    if before.photograph:  # its colours and titles are judged, too
        resolution = before.photograph.resolution
        is_same = after.photograph and after.photograph.resolution == resolution
        return "resolution is missing" if resolution and not is_same else ""
    if before.is_still:
        return ""
    old, new = (statements(one.path) for one in (before, after))
    missing = [name for name, value in old.items() if value and new.get(name) != value]
    missing += old.keys() - new.keys() - set(missing)
    return f"{', '.join(missing)} is missing" if missing else ""


FAULTS = {
    "frames": _of_pictures,
    "times": _of_times,
    "shape": _of_shape,
    "colours": _of_colours,
    "sound": _of_sound,
    "other streams": _of_other_streams,
    "titles": _of_titles,
    "statements": _of_statements,
}


def page(found: Iterable[Row]) -> str:
    """The matrix in Markdown."""
    table = list(found)
    red = sum(row.is_red for row in table)
    lines = [
        "# What is preserved in the result",
        "",
        "This page is written by `python -m tools.reports.fidelity > docs/fidelity.md`: small",
        "sources, written by ffmpeg and Pillow (what those cannot write is added byte by byte),",
        "are processed by a job without a model, and ffprobe, ffmpeg and Pillow compare source and",
        "result. *statements* are side data of frames and streams. The planes of a frame must not",
        "have moved, and may differ only a little more than after ffmpeg's own conversion of the",
        "source through RGB to the codec of the result; values of EXR images are brought from",
        "linear light to sRGB. Sound that is encoded again must be alike in each quarter second",
        "up to 4 kHz. *said* marks a difference that the plan announces before the start. The last",
        "rows name the format that was chosen; all others have the one that the program chooses.",
        "",
        f"{len(table)} sources, {red} with an unannounced difference.",
        "",
        f"| source | {' | '.join(PROPERTIES)} |",
        f"|---|{'---|' * len(PROPERTIES)}",
    ]
    for row in table:
        cells = [row.marks.get(name, "") for name in PROPERTIES]
        if row.refused:
            cells[0] = f"refused: {row.refused}"
        lines.append(f"| {row.source.about} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page to standard output."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--only", default="", metavar="WORDS", help="sources described so")
    only = parser.parse_args(arguments).only
    wanted = [source for source in all_sources() if only in source.about]
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for row in rows(wanted, Path(folder)):
            print(f"{row.source.about}: {row.refused or row.marks}", file=sys.stderr)
            found.append(row)
    sys.stdout.write(page(found))


if __name__ == "__main__":
    main()
