"""Findings in a sample of frames: combing, repeats, bars, detail, blocks, grain, changes.

Decodes a bounded number of frames at a few places, within a time limit. Findings only advise: a
file that cannot be decoded has none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from numpy.typing import NDArray

from engine.core.file_access import advised
from engine.core.geometry import Box
from engine.protocol.media import (
    Change,
    FieldOrder,
    Findings,
    MediaInfo,
    Scan,
    VideoInfo,
    subsampling,
)
from engine.video.colour_tags import assumed_range
from engine.video.planes import planes_of, without_margins
from engine.video.read.media_file import open_input, packets_of
from engine.video.read.probe import KindReader, with_kind
from engine.video.read.statements import FrameKind, changes_of, stated_by, with_statements
from engine.video.read.stream_info import decoder_of

if TYPE_CHECKING:
    from av import VideoFrame


SECONDS = 2.0  # time limit
_PLACES = (0.1, 0.45, 0.8)  # of the duration
_RUN = 16  # frames in succession: three cycles of telecine
_GLANCES = (0.0, 0.95, 0.3, 0.6, 0.02, 0.2, 0.7)  # places of a single frame
_GLANCE_TIME = 0.25  # of the time limit
_DETAILED_EVERY = 5  # frame of a run that is measured by itself
Luma = NDArray[np.float32]  # [h, w], 0 to 1 of full scale
Steps = NDArray[np.float32]  # [n, 4] of a run, see `_steps`
Combs = NDArray[np.float32]  # of pairs of lines, sums over frames; none for a frame alone


def examined(media: MediaInfo, *, seconds: float = SECONDS) -> MediaInfo:
    """A video with its findings; images, latents and undecodable files are returned unchanged.

    A property that changes within the video gets the value that most sampled frames have.

    Never raises: the job reports what is wrong with a file.

    Memory: two frames, and one of each kind. Time: `seconds`, and the decoding of one frame.
    """
    if media.kind != "video" or media.holds_latents or media.findings is not None:
        return media

    def look() -> MediaInfo:
        looks = _looks(media, seconds)
        # a time code from the middle would be taken for that of the first frame
        late = {kind: value for kind, value in looks.stated.items() if kind != "time-code"}
        stated = with_statements(media, late)
        if not looks.kinds:
            return replace(stated, findings=Findings())
        total = sum(sample.weight for sample in looks.kinds.values())
        main, sample = max(looks.kinds.items(), key=lambda item: item[1].weight)
        shares = {kind: one.weight / total for kind, one in looks.kinds.items()}
        changes = (*changes_of(main, shares), *_changes_of_fields(sample))
        mostly = replace(stated, video=sample.video)
        found = _findings(mostly, sample)
        if not stated.stated("stereo3d"):  # else the container states the shape of one view
            changes = (*looks.reader.contradiction, *changes)
        return replace(mostly, findings=replace(found, changes=changes))

    return advised(look, media)


@dataclass(slots=True)
class _Sample:
    """Measurements of the frames of one kind in all runs."""

    video: VideoInfo  # stream properties if all frames were of this kind
    weight: float = 0.0  # weight of its frames: a run and a glance have 1
    steps: list[Steps] = field(default_factory=list)  # one entry for each run
    combs: list[Combs] = field(default_factory=list)  # one entry for each run
    lit: NDArray[np.float32] | None = None  # brightest value of each row and column so far
    spectra: list[NDArray[np.float64]] = field(default_factory=list)
    blocking: list[float] = field(default_factory=list)
    noise: list[tuple[float, float]] = field(default_factory=list)  # within a frame, over time
    frames: int = 0


@dataclass(slots=True)
class _Looks:
    """All samples of a file, by the properties that their frames state."""

    reader: KindReader
    kinds: dict[FrameKind, _Sample] = field(default_factory=dict)
    stated: dict[str, str] = field(default_factory=dict)  # statements of any frame, by kind
    last: int = -1  # time stamp of the last frame of a run

    def sample_of(self, frame: VideoFrame, weight: float) -> _Sample:
        """The sample that a frame belongs to."""
        kind, video = self.reader.kind_of(frame), self.reader.video
        self.stated |= stated_by(frame, video.codec)
        if kind not in self.kinds:
            self.kinds[kind] = _Sample(with_kind(video, kind, frame))
        sample = self.kinds[kind]
        sample.weight += weight
        return sample


def _looks(media: MediaInfo, seconds: float) -> _Looks:
    """Samples of single frames at many places, then of runs of frames at a few."""
    begin, video = time.monotonic(), media.video
    deadline = begin + seconds
    duration = int(video.duration / video.time_base) if video.duration is not None else 0
    is_long = bool(duration) and video.frame_count > _RUN * len(_PLACES)
    with open_input(media.path) as container:
        stream: Any = container.streams[video.index]
        stream.thread_type = "SLICE"
        looks = _Looks(KindReader(video, stream))

        def frames_at(place: float) -> Iterator[VideoFrame]:
            container.seek(video.start_pts + round(duration * place), stream=stream)
            return decoded_until(container, stream, deadline)

        for place in _GLANCES if is_long else ():
            if time.monotonic() > begin + _GLANCE_TIME * seconds:
                break
            for frame in islice(frames_at(place), 1):
                looks.sample_of(frame, 1.0)
        frames = decoded_until(container, stream, deadline)
        for place in _PLACES:
            frames = frames_at(place) if is_long else frames
            _measure_run(looks, frames)
            if time.monotonic() > deadline:
                break
    return looks


def decoded_until(container: Any, stream: Any, deadline: float) -> Iterator[VideoFrame]:
    """The next frames, until the deadline or the first damaged packet."""
    decoder = decoder_of(stream)
    try:
        for packet in packets_of(container, stream):
            for frame in decoder.decode(packet):
                yield frame
                if time.monotonic() > deadline:
                    return
    except av.error.MemoryError:
        raise
    except av.error.FFmpegError:
        return


def _measure_run(looks: _Looks, frames: Iterator[VideoFrame]) -> None:
    """Add some frames in succession."""
    # in a file with few key frames a seek may end in frames that were measured already
    fresh = (frame for frame in frames if frame.pts is None or frame.pts > looks.last)
    steps: dict[int, list[tuple[float, float, float, float]]] = {}
    agreed: dict[int, Combs] = {}
    before: Luma | None = None
    sample: _Sample | None = None
    for number, frame in enumerate(islice(fresh, _RUN)):
        owner = looks.sample_of(frame, 1 / _RUN)
        if owner is not sample:  # a change of what frames state
            sample, before = owner, None
        luma = luma_of(frame, sample.video)
        run = steps.setdefault(id(sample), [])
        if before is not None:
            combs = _combs(luma, before)
            run.append(_steps(luma, before, combs))
            pairs = _pairs(combs - _combs(before, luma))
            agreed[id(sample)] = agreed.get(id(sample), np.float32(0)) + pairs
        if number % _DETAILED_EVERY == 0:
            _measure_frame(sample, luma, before)
        before = luma
        sample.frames += 1
        looks.last = looks.last if frame.pts is None else frame.pts
    for sample in looks.kinds.values():
        if id(sample) in steps:
            sample.steps.append(np.array(steps[id(sample)], dtype=np.float32).reshape(-1, 4))
            sample.combs.append(agreed.get(id(sample), np.zeros(0, np.float32)))


def luma_of(frame: VideoFrame, video: VideoInfo) -> Luma:
    """Luma of the visible part of a frame; black is 0, white 1."""
    peak = float((1 << video.bit_depth) - 1)
    is_full = (video.tags.range or assumed_range(video)) == "pc"
    low, span = (0.0, 1.0) if is_full else (16 / 255, 219 / 255)
    codes = without_margins(planes_of(frame, alpha=False)[:1], video.chroma, video.cropped)[0]
    luma: Luma = (codes.astype(np.float32) / peak - low) / span
    return luma


def _combs(luma: Luma, before: Luma) -> NDArray[np.float32]:
    """Misfit of each line in the frame before, minus its misfit in its own frame; from line 2 on.

    A line is compared with the mean of the lines above and below it, which are of the other field.
    In whole frames both fields give the same; in fields, one of them was recorded next to the
    frame before and fits it as well as its own.
    """
    combs = np.abs(before[:-2] + before[2:] - 2 * luma[1:-1])
    combs -= np.abs(luma[:-2] + luma[2:] - 2 * luma[1:-1])
    found: NDArray[np.float32] = combs.mean(axis=1)
    return found


def _pairs(combs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Differences of neighbouring lines, which belong to different fields."""
    count = len(combs) // 2
    return combs[: 2 * count : 2] - combs[1 : 2 * count : 2]


def _steps(
    luma: Luma, before: Luma, combs: NDArray[np.float32]
) -> tuple[float, float, float, float]:
    """Mean difference of two frames in the top field and in the bottom field.

    Then the means of `_combs` of both fields.
    """
    change = np.abs(luma - before)
    top, bottom = combs[1::2].mean(), combs[::2].mean()
    return float(change[::2].mean()), float(change[1::2].mean()), float(top), float(bottom)


def _measure_frame(sample: _Sample, luma: Luma, before: Luma | None) -> None:
    """Add the measurements that need one frame only, or the frame before it too."""
    lit = np.concatenate((np.percentile(luma, 98, axis=1), np.percentile(luma, 98, axis=0)))
    lit = lit.astype(np.float32)
    sample.lit = lit if sample.lit is None else np.maximum(sample.lit, lit)
    if min(luma.shape) < _SMALLEST:
        return
    sample.spectra.append(_spectrum(luma))
    sample.blocking.append(_blocking(luma))
    if before is not None:
        sample.noise.append(_noise(luma, before))


# --- from measurements to findings

_SMALLEST = 64  # px of a side, for detail, blocks and grain
_COMBED, _WHOLE = 0.55, 0.93  # misfit of the better field over that of the worse one
_COMBED_FRAMES, _COMBED_FILM = 0.7, 0.4  # share of moving frames; of telecine three of five
_CLEAR = 0.15  # misfit of whole frames over their motion; for noise it is near 0
_FITS = 1 / 3  # misfit of the better field over the motion
_SURE = 4.0  # standard deviations that chance does not reach
_CYCLE = 5  # frames of telecine
_FIELD_REPEATS = 0.5  # of the usual difference: a repeat, coding included
_STILL = 0.001  # difference of neighbours, of full scale: nothing moves
_SAME = 0.12  # of the usual difference: a repeat
_SAME_AS_NEXT = 0.3  # of the differences before and after it: a repeat
_BLACK = 0.045  # of full scale
_LEAST_BAR = 0.02  # of the side
_LIT = 0.1  # of full scale: the picture is no longer black
_DETAIL_DROP = 10**-0.6  # drop of the whitened spectrum where detail ends
_LESS_DETAIL = 0.75  # of the video's height: only a smaller height of detail is reported


def _findings(media: MediaInfo, sample: _Sample) -> Findings:
    scan, order = _scan(sample.steps, sample.combs)
    return Findings(
        frames=sample.frames,
        scan=scan,
        field_order=order,
        repeats=_repeats(sample),
        picture=_picture(media, sample),
        detail_height=_detail_height(media, sample),
        blocking=float(np.median(sample.blocking)) if sample.blocking else 1.0,
        # Noise differs from frame to frame: fine patterns that stay are detail.
        grain=float(np.median([min(pair) for pair in sample.noise])) if sample.noise else 0.0,
    )


def _scan(runs: list[Steps], combs: list[Combs]) -> tuple[Scan, FieldOrder]:
    """Whether frames are combed, and which of their fields is first; "" where it is not clear."""
    steps = np.concatenate([*runs, np.zeros((0, 4), np.float32)])
    moving = steps[steps[:, :2].mean(axis=1) >= _STILL]
    if not len(moving):
        return "", "tt"
    least, most = moving[:, 2:].min(axis=1), moving[:, 2:].max(axis=1)
    moves = moving[:, :2].mean(axis=1)
    is_combed, is_top = (least < _COMBED * most) & (most > 0), moving[:, 2] < moving[:, 3]
    fits = least[is_combed].sum() < _FITS * moves[is_combed].sum()
    is_combed &= bool(fits) and _lines_agree(combs)
    top, bottom = (float((is_combed & each).mean()) for each in (is_top, ~is_top))
    order: FieldOrder = "tt" if top >= bottom else "bb"
    if max(top, bottom) >= _COMBED_FILM and _is_telecined(runs):
        return "telecined", order
    if max(top, bottom) >= _COMBED_FRAMES:
        return "interlaced", order
    # noise fits nowhere, in whole frames and in fields alike
    is_whole = (least > _WHOLE * most) & (least > _CLEAR * moves)
    return ("progressive" if is_whole.mean() >= 0.5 else ""), order


def _changes_of_fields(sample: _Sample) -> Iterator[Change]:
    """Runs of whole frames among combed ones, and of another field order."""
    found = [_scan([run], [combs]) for run, combs in zip(sample.steps, sample.combs, strict=True)]
    combed = [order for scan, order in found if scan in ("interlaced", "telecined")]
    whole = sum(scan == "progressive" for scan, _ in found)
    if combed and whole:
        yield Change(what="scan", share=whole / (whole + len(combed)))
    if len(set(combed)) > 1:
        yield Change(what="field-order")


def _lines_agree(runs: list[Combs]) -> bool:
    """Whether lines all over the frame agree on which field is combed.

    The field that fits the frame before does not fit the frame after. A pattern in whole frames
    affects one field equally in both directions, so it cancels out. What remains of whole frames is
    chance: in small or short videos a few edges or noise can decide it.
    """
    combs = sum((run for run in runs if run.size), np.zeros(1, np.float32))
    return bool(abs(combs.sum()) > _SURE * np.linalg.norm(combs)) and bool(combs.any())


def _is_telecined(runs: list[Steps]) -> bool:
    """Whether, of five frames, one repeats the top field and another one the bottom field."""
    found = []
    for run in runs:
        run = run[:, :2]
        usual = np.median(run, axis=0) if len(run) >= 2 * _CYCLE else np.zeros(2)
        if usual.min() < _STILL:
            continue
        phases = np.array([np.median(run[phase::_CYCLE], axis=0) for phase in range(_CYCLE)])
        least = phases.argmin(axis=0)
        found.append(float((phases.min(axis=0) / usual).max()) if least[0] != least[1] else 1.0)
    return bool(found) and float(np.median(found)) < _FIELD_REPEATS


def _repeats(sample: _Sample) -> float:
    """Share of frames that repeat the one before while the video moves."""
    count = total = 0
    for run in sample.steps:
        steps = run[:, :2].mean(axis=1)
        usual = float(np.percentile(steps, 75)) if steps.size else 0.0
        if usual < _STILL:
            continue
        lower = [min(a, b) for a, b in zip(steps, steps[2:], strict=False)]  # of both neighbours
        limit = np.maximum(
            _SAME * usual, _SAME_AS_NEXT * np.array([0.0, *lower, 0.0])[: steps.size]
        )
        count, total = count + int((steps < limit).sum()), total + steps.size
    return count / total if total else 0.0


def _picture(media: MediaInfo, sample: _Sample) -> Box | None:
    """The part of the stored frame within black bars, in whole chroma samples; None for all."""
    if sample.lit is None or sample.lit.max() < _LIT:
        return None
    height = media.video.size.height
    down, across = (np.flatnonzero(part > _BLACK) for part in np.split(sample.lit, [height]))
    steps = subsampling(media.video.chroma)
    (x, right), (y, bottom) = (
        _kept(lit, side, step)
        for lit, side, step in (
            (across, media.video.size.width, steps[0]),
            (down, height, steps[1]),
        )
    )
    box = Box(x, y, right - x, bottom - y)
    is_whole = (box.width, box.height) == (media.video.size.width, height)
    return None if is_whole or min(box.width, box.height) < height // 4 else box


def _kept(lit: NDArray[np.intp], side: int, step: int) -> tuple[int, int]:
    """First and end pixel between the bars of two sides; bars that are too thin are kept."""
    first, end = int(lit[0]), int(lit[-1]) + 1
    least = max(4, _LEAST_BAR * side)
    first = -(-first // step) * step if first >= least else 0
    end = end // step * step if side - end >= least else side
    return first, end


def _spectrum(luma: Luma) -> NDArray[np.float64]:
    """Power of the rows by frequency, from 0 to that of alternating pixels, without bars."""
    lines = luma[luma.shape[0] // 4 : luma.shape[0] * 3 // 4]
    lines = lines - lines.mean(axis=1, keepdims=True)
    power = np.square(np.abs(np.fft.rfft(lines * np.hanning(lines.shape[1]), axis=1)))
    found: NDArray[np.float64] = power.mean(axis=0, dtype=np.float64)
    return found


def _detail_height(media: MediaInfo, sample: _Sample) -> int:
    """Height that would hold the video's detail; 0 where that is about its own height.

    The power of natural images falls with the square of the frequency. An enlarged image has
    nothing above the highest frequency of the smaller one.
    """
    if not sample.spectra:
        return 0
    power = np.max(sample.spectra, axis=0)
    place = np.arange(power.size) / (power.size - 1)
    bands = np.linspace(0.05, 1.0, 39)
    white = np.array(
        [
            (power * place**2)[(place >= low) & (place < high + 1e-9)].mean()
            for low, high in pairwise(bands)
        ]
    )
    usual = float(np.median(white[:4]))  # up to a seventh of the frequencies
    if usual <= 0 or white[0] <= 0:
        return 0
    held = np.flatnonzero(white > _DETAIL_DROP * usual)
    end = float(bands[held[-1] + 1])
    return round(end * media.video.size.height) if end <= _LESS_DETAIL else 0


def _blocking(luma: Luma) -> float:
    """Steps at columns and rows that are multiples of 8, compared with all others."""
    found = []
    for picture in (luma, luma.T):
        steps = np.abs(np.diff(picture, axis=1)).mean(axis=0)
        at_edges = np.arange(1, steps.size + 1) % 8 == 0
        found.append(float(steps[at_edges].mean() / max(1e-6, steps[~at_edges].mean())))
    return min(found)


def _noise(luma: Luma, before: Luma) -> tuple[float, float]:
    """Standard deviation of fine detail in the flattest blocks, within the frame and over time."""
    return _flattest(_fine(luma)), _flattest(_fine(luma - before)) / math.sqrt(2)


def _fine(values: Luma) -> Luma:
    """Difference from the mean of both neighbours in the row; noise keeps its deviation."""
    fine = values[:, 1:-1] - (values[:, :-2] + values[:, 2:]) / 2
    return (fine / math.sqrt(1.5)).astype(np.float32)


def _flattest(values: Luma) -> float:
    height, width = (side // 16 * 16 for side in values.shape)
    blocks = values[:height, :width].reshape(height // 16, 16, width // 16, 16)
    return float(np.percentile(blocks.std(axis=(1, 3)), 20))
