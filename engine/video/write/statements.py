"""Statements of the source that a result can keep, and notices of those that it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from engine.core.messages import Message, has_text, message
from engine.protocol.media import Hdr, MediaInfo, Statement
from engine.protocol.plan import Notice, Plan
from engine.video.read.hdr10_plus import UNWRITABLE
from engine.video.write.containers import CONTAINERS, source_family
from engine.video.write.picture_data import HOLDING_DATA
from engine.video.write.track_header import states_projection, states_stereo3d

# What the file of a picture holds besides the one that is taken.
PARTS = frozenset(
    {"pages", "layers", "channels", "images", "mattes", "depth-map", "gain-map", "motion-video"}
)
_DYNAMIC_HDR = frozenset({"dolby-vision", "hdr10-plus", "hdr-vivid"})
_MINOR = frozenset({"afd", "ambient-viewing", "pan-scan", "reference-displays"})
_MINOR |= {"xmp", "iptc", "text-entries", "program-data", "resolution", "attributes"}
# Codecs of images that take a statement from an image.
_IMAGES_WITH = {
    **dict.fromkeys(("resolution", "pixel-ratio"), HOLDING_DATA),
    "primaries": frozenset({"png", "exr"}),
    "gamma": frozenset({"png"}),
    "attributes": frozenset({"exr"}),
    "densities": frozenset({"dpx"}),
    **dict.fromkeys(("transfer-function", "other-profiles", "inks"), frozenset[str]()),
}
CAPTIONED = frozenset({"h264", "hevc", "av1"})  # codecs that carry captions
OF_FRAMES = frozenset({"captions", "hdr10-plus"})  # kept as messages in the packets
_TIME_CODE = re.compile(r"^\d\d:\d\d:\d\d([:;.,])\d\d$")
_STANDARDS: dict[Hdr, str] = {"pq": "HDR10 (PQ)", "hlg": "HDR (HLG)", "": "SDR"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedResult:
    """A result, as far as it decides what it can state."""

    container: str  # "mkv", "mp4", "mov", "webm", "image", "sequence"
    codec: str
    frame_rate: Fraction | None
    is_rotated: bool = False
    is_from_start: bool = True  # it has the first frame of the source
    is_square: bool = True  # its pixels; PNG and TIFF state another shape by their resolution

    @classmethod
    def of_plan(cls, plan: Plan) -> StatedResult:
        """The result that a plan will have."""
        picture = plan.picture
        return cls(
            container=plan.container,
            codec=picture.codec,
            frame_rate=picture.frame_rate,
            is_rotated=bool(picture.rotation or picture.is_mirrored),
            is_from_start=not plan.start,
            is_square=picture.sample_aspect == 1,
        )

    @classmethod
    def of_file(cls, media: MediaInfo) -> StatedResult:
        """A finished file, as if all of its source had been taken."""
        video = media.video
        return cls(
            container=source_family(media) or ("image" if media.kind != "video" else ""),
            codec=video.codec,
            frame_rate=video.frame_rate,
            is_rotated=bool(video.rotation or video.is_mirrored),
        )

    def keeps(self, statement: Statement) -> bool:
        """Whether this program writes such a statement into such a result."""
        if statement.kind in _IMAGES_WITH:
            has_room = self.is_square or _IMAGES_WITH[statement.kind] != HOLDING_DATA
            if statement.kind == "primaries" and self.codec == "png":
                has_room = "-" not in statement.value
            return has_room and self.codec in _IMAGES_WITH[statement.kind]
        if self.container not in CONTAINERS:
            return False
        match statement.kind:
            case "stereo3d":
                return states_stereo3d(self.container, statement.value)
            case "spherical":
                has_room = not (self.is_rotated and self._is_matroska)  # it is one element
                return has_room and states_projection(statement.value)
            case "captions":
                return self.codec in CAPTIONED
            case "hdr10-plus":  # of one window: the places of others are in pixels
                return self.codec in ("hevc", "av1") and statement.value != UNWRITABLE
            case "time-code":
                return self.is_from_start and self._takes_time_code(statement.value)
        return False

    def _takes_time_code(self, code: str) -> bool:
        """Whether it may be written: Matroska holds any text, FFmpeg drops numbers at 30 fps."""
        match = _TIME_CODE.match(code)
        drops = match is not None and match[1] == ";"
        is_right = match is not None and not (drops and round(self.frame_rate or 0) % 30)
        return is_right or (self._is_matroska and bool(code))

    @property
    def _is_matroska(self) -> bool:
        return CONTAINERS[self.container].is_matroska


def name_of(statement: Statement) -> Message:
    """Name of a statement for users: "360-degree projection"."""
    code = f"statement.{statement.kind}"
    if has_text(code):
        return message(code, value=statement.value)
    return message("statement.other", name=statement.kind)


def statement_notices(media: MediaInfo, result: StatedResult) -> Iterator[Notice]:
    """Notices, before the start, of statements that the result will not have.

    Codes: "dolby-vision-colours" (refusal) where the colours have no meaning without Dolby Vision,
    "statement-left-out" (a warning, or info where hardly any player heeds it) for all others.
    """
    for statement in media.statements:
        if has_own_colours(statement):
            yield Notice(
                code="dolby-vision-colours",
                severity="refusal",
                params={"name": media.name, "what": name_of(statement)},
            )
        elif not result.keeps(statement):
            yield Notice(
                code="statement-left-out",
                case=_case_of(statement, result),
                severity="info" if statement.kind in _MINOR else "warning",
                params={
                    "name": media.name,
                    "kind": statement.kind,
                    "what": name_of(statement),
                    "standard": _STANDARDS[media.video.hdr],
                },
            )


def has_own_colours(statement: Statement) -> bool:
    """Whether a video is in the colours of Dolby Vision (IPT), which no other player shows right.

    True of profile 5 and of all that are compatible with nothing else ("compatibility id 0").
    """
    return statement.kind == "dolby-vision" and (
        statement.value == "ipt" or statement.value.endswith(".0")
    )


def _case_of(statement: Statement, result: StatedResult) -> str:
    if statement.kind in PARTS:
        return "parts"
    if statement.kind == "beyond":
        return "beyond"
    if result.container not in CONTAINERS and statement.kind not in _IMAGES_WITH:
        return "pictures"
    if statement.kind in ("primaries", "gamma", "transfer-function", "densities"):
        return "colours"
    if statement.kind == "hdr10-plus" and statement.value != UNWRITABLE:
        return "hdr10-plus"
    if statement.kind in _DYNAMIC_HDR:
        return "dynamic-hdr"
    if statement.kind == "time-code" and not result.is_from_start:
        return "time-code-of-part"
    return statement.kind if statement.kind in ("stereo3d", "captions") else ""
