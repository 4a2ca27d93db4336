"""Properties of a source file: plain data that events carry and the planner reads."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

from engine.core.geometry import Box, Margins, Size

Chroma = Literal["420", "422", "444", "440", "411", "410", "gray", "rgb"]
Hdr = Literal["", "pq", "hlg"]
# "video" is another video track, "thumbnails" one of images at times, as MP4 has for its chapters.
StreamKind = Literal["audio", "subtitle", "attachment", "cover", "data", "video", "thumbnails"]
MediaKind = Literal["video", "image", "sequence"]
LATENT = "latent"  # container and codec of a source that holds latents
Reading = Literal["raw", "normalised"]  # latents of the VAE, or by mean and std
Scan = Literal["", "progressive", "interlaced", "telecined"]  # "" while unknown
FieldOrder = Literal["tt", "bb"]  # top or bottom field first, as shown
Side = Literal["source", "result", "pieces"]  # pieces: the finished part of a result
Rendering = Literal["frames", "fields", "film"]
# Layouts of one channel, two and so on, where a file states no more than their number.
PLAYED_AS = ("mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1", "7.1")

_SUBSAMPLING: dict[Chroma, tuple[int, int]] = {
    "420": (2, 2),
    "422": (2, 1),
    "440": (1, 2),
    "411": (4, 1),
    "410": (4, 4),
}


def subsampling(chroma: Chroma) -> tuple[int, int]:
    """Luma samples to a chroma sample, across and down."""
    return _SUBSAMPLING.get(chroma, (1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColourTags:
    """Colour space of the samples, in FFmpeg's names; "" where the file has no tag.

    `matrix` e.g. "bt709", "smpte170m", "bt470bg", "bt2020nc", "rgb"; `range` "tv" or "pc";
    `primaries` e.g. "bt709"; `transfer` e.g. "bt709", "smpte2084", "arib-std-b67".
    `chroma_location` "left", "center", "topleft", ...
    """

    matrix: str = ""
    range: str = ""
    primaries: str = ""
    transfer: str = ""
    chroma_location: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HdrMetadata:
    """Display on which an HDR video was graded (SMPTE ST 2086), and its light (CTA-861.3).

    Each is () where it is not stated.
    """

    primaries: tuple[Fraction, ...] = ()  # x and y of red, green, blue and white
    luminance: tuple[Fraction, ...] = ()  # least and most of the display, cd/m2
    light_level: tuple[int, ...] = ()  # light of the brightest pixel and the brightest frame, cd/m2


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Something that a video states beside the code values of its frames."""

    # "stereo3d", "spherical", "captions", "afd", "time-code", "dolby-vision", ...; where it has no
    # name here FFmpeg's name or number.
    kind: str
    # Content where that is compared or shown: of Dolby Vision its profile and compatibility ("8.1";
    # "ipt" where frames alone tell), of a time code the code; else "".
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deinterlacing:
    """Rendering of the fields of a video as whole frames: the mapping of frames in to frames out.

    `rendering` is "frames" (a frame for each frame: 50i to 25p), "fields" (a frame for each field:
    50i to 50p) or "film" (four frames for five, of which one repeats another: 60i to 24p).
    """

    rendering: Rendering
    field_order: FieldOrder

    @property
    def frames_out(self) -> Fraction:
        """Frames made of one of the source; the fewest for telecined film."""
        return {"frames": Fraction(1), "fields": Fraction(2), "film": Fraction(4, 5)}[
            self.rendering
        ]

    @property
    def time_parts(self) -> int:
        """Parts of the source's time base in which the new times are exact."""
        return 4 if self.rendering == "film" else 2


ChangeKind = Literal[
    "size", "format", "aspect", "coded-aspect", "colours", "rotation", "scan", "field-order"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A statement of frames that changes within a video; all of it is read with one value.

    "coded-aspect" is another shape that the coded stream states than its container.
    """

    what: ChangeKind
    taken: str = ""  # value of most frames
    other: str = ""
    share: float = 0.0  # share of frames that have the other one, 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Findings in a sample of decoded frames, whatever the file states."""

    frames: int = 0  # number of examined frames; 0 where none could be
    scan: Scan = ""  # whether frames are combed; "" where nothing moves
    field_order: FieldOrder = "tt"  # order of combed frames
    repeats: float = 0.0  # share of frames that repeat the one before, 0 to 1
    picture: Box | None = None  # the part within black bars, as stored; None where there are none
    detail_height: int = 0  # px, height at which the video would hold the same detail; 0: its own
    blocking: float = 1.0  # steps at the edges of 8x8 blocks, compared with those inside; 1 is none
    grain: float = 0.0  # standard deviation of noise in flat parts, of full scale
    changes: tuple[Change, ...] = ()  # in parts of the video; `VideoInfo` has the most frequent


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoInfo:
    """The video: the one video stream that is upscaled.

    `size` is the picture as stored, without what the container crops (`cropped`); `rotation` (0,
    90, 180, 270, clockwise degrees) and after it mirroring turn it into the picture as seen.
    `sample_aspect` is the width of a pixel over its height. `profile` is the colour space of the
    ICC profile in a picture's file: "RGB", "GRAY", "CMYK", ...; "" without one.
    """

    index: int
    codec: str
    size: Size
    pixel_format: str
    chroma: Chroma
    bit_depth: int
    has_alpha: bool = False
    has_unread_alpha: bool = False  # the file holds transparency that no decoder here gives
    frame_rate: Fraction | None = None  # average, frames/s
    time_base: Fraction = Fraction(1, 1000)
    start_pts: int = 0
    frame_count: int = 0  # 0 while unknown: as in the container, or duration times rate
    frame_count_is_exact: bool = False
    duration: Fraction | None = None  # s
    sample_aspect: Fraction = Fraction(1)
    rotation: int = 0
    is_mirrored: bool = False
    tags: ColourTags = field(default_factory=ColourTags)
    is_interlaced: bool = False
    field_order: str = "progressive"  # "tt", "bb", "tb", "bt" when interlaced
    deinterlacing: Deinterlacing | None = None  # frames are read through it; None: as stored
    hdr: Hdr = ""
    hdr_metadata: HdrMetadata | None = None
    bit_rate: int = 0  # bits/s, 0 while unknown
    quantiser: float = 0.0  # mean of H.264's first frames, 0 to 51; 0 while unknown
    language: str = ""
    title: str = ""
    marks: tuple[str, ...] = ()  # see `StreamInfo`
    profile: str = ""
    has_exif: bool = False
    # Part of each decoded frame that the container leaves out.
    cropped: Margins = field(default_factory=Margins)

    def shape_with(self, sample_aspect: Fraction) -> Fraction:
        """Width of the picture as stored over its height, with pixels of that shape."""
        return sample_aspect * self.size.width / self.size.height

    @property
    def decoded_size(self) -> Size:
        """Frames as decoders give them."""
        return self.cropped.around(self.size)

    @property
    def seen_size(self) -> Size:
        """The picture as seen: after rotation; pixels may still be non-square."""
        return self.size.transposed() if self.rotation in (90, 270) else self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """Any other stream: something to copy unchanged, or another video track."""

    index: int
    kind: StreamKind
    codec: str
    language: str = ""
    title: str = ""
    is_default: bool = False
    is_forced: bool = False
    marks: tuple[str, ...] = ()  # FFmpeg's dispositions, as "forced", "hearing_impaired"
    channels: int = 0  # audio
    sample_rate: int = 0  # audio, Hz
    layout: str = ""  # audio: FFmpeg's name of its channels, as "5.1(side)"
    # Audio: FFmpeg's name of what its decoder gives, as "fltp"; "" where it cannot be decoded.
    sample_format: str = ""
    sample_bits: int = 0  # audio: of each sample, as FLAC, ALAC and TTA state them; 0 for others
    size: Size | None = None  # video, as stored
    is_of_other_programme: bool = False  # a broadcast may have several
    file_name: str = ""  # attachment
    mime_type: str = ""  # attachment
    bit_rate: int = 0  # bits/s, 0 while unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterInfo:
    """A chapter, in seconds from the start."""

    start: Fraction
    end: Fraction
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterOrder:
    """Statements of a Matroska file about its chapters and their order that it alone can make."""

    editions: int = 0  # number of lists of chapters
    unread: int = 0  # chapters of the first list that are within others, or out of order
    titles: int = 0  # titles of its chapters beside one of each
    is_ordered: bool = False  # players are to show the chapters in the order of the list
    elsewhere: int = 0  # chapters whose frames are in other files
    is_linked: bool = False  # another file comes before or after it

    @property
    def says_anything(self) -> bool:
        """Whether it is more than frames in the order of the file, and one plain list."""
        counts = self.unread + self.titles + self.elsewhere
        return self.editions > 1 or counts > 0 or self.is_ordered or self.is_linked


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaInfo:
    """A file, or a numbered sequence of pictures, that can be upscaled."""

    path: Path  # the first image of a sequence
    kind: MediaKind
    container: str  # FFmpeg's short name, e.g. "mov,mp4,m4a,3gp,3g2,mj2"
    bytes: int
    video: VideoInfo
    streams: tuple[StreamInfo, ...] = ()
    chapters: tuple[ChapterInfo, ...] = ()
    chapter_order: ChapterOrder | None = None  # None unless a Matroska file states one
    metadata: dict[str, str] = field(default_factory=dict)
    video_stream: int = -1  # requested index; -1 for the stream that players show
    pattern: str = ""  # "shot_%04d.png" with its folder, for a sequence
    first_number: int = 0  # number of a sequence's first image
    is_folder: bool = False  # a sequence that was given by its folder
    start: Fraction = Fraction(0)  # s: the time stamp at which the clock of the file shows 0
    is_cut_short: bool = False  # the container states that the end of the file is missing
    findings: Findings | None = None  # None until frames were looked at
    statements: tuple[Statement, ...] = ()  # facts that no other field holds; see `read/statements`

    @property
    def name(self) -> str:
        """Name of the file, or of the folder that was given in place of its images."""
        return (self.is_folder and self.path.parent.name) or self.path.name

    @property
    def given(self) -> Path:
        """The path that the user gave: a file, a folder of images or a pattern of their names."""
        if self.is_folder:
            return self.path.parent
        return Path(self.pattern) if self.kind == "sequence" else self.path

    @property
    def holds_latents(self) -> bool:
        """Whether its pictures have to be decoded by a model before anything else."""
        return self.container == LATENT

    def time_stamp(self, seconds: Fraction) -> int:
        """The video's first time stamp at or after a time on the file's clock, in s.

        A part of a video has the frames from that of its start to before that of its end.
        """
        return math.ceil((seconds + self.start) / self.video.time_base)

    def stated(self, kind: str) -> str:
        """The value of a statement; "" where the file makes none of that kind."""
        return next((one.value for one in self.statements if one.kind == kind), "")

    @property
    def audio_streams(self) -> tuple[StreamInfo, ...]:
        """All sound tracks that belong to the video, in file order."""
        sounds = (s for s in self.streams if s.kind == "audio")
        return tuple(s for s in sounds if not s.is_of_other_programme)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameMark:
    """The last finished frame of a job: enough to go on right after it."""

    count: int  # frames finished since the first of the job
    pts: int  # time stamp of the last one
    crc: int  # CRC-32 of the last one
