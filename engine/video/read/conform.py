"""Brings every frame of a film to the size and format of its first one."""

from __future__ import annotations

from av import VideoFrame

from engine.protocol.media import VideoInfo
from engine.video.colour.pixel_formats import layout_of, planar_format, planes_of
from engine.video.read.frames import Plane


class Conformer:
    """Planes of frames, all alike; a change on the way is converted and told once.

    Memory: one frame.
    """

    def __init__(self, video: VideoInfo) -> None:
        self._video = video
        self._layout = layout_of(video.pixel_format)
        self.problems: list[str] = []

    def __call__(self, frame: VideoFrame) -> tuple[Plane, ...]:
        """Planes of `frame`, in the size, chroma and depth of the first one."""
        video = self._video
        if self._layout.is_float:
            self._tell("Floating point values became 16 bit; those outside 0 to 1 were cut.")
        if (frame.width, frame.height) != (video.size.width, video.size.height):
            self._tell(
                f"The picture changes to {frame.width}x{frame.height} on the way; it was brought "
                f"back to {video.size}."
            )
            frame = frame.reformat(
                width=video.size.width, height=video.size.height, format=self._target, threads=1
            )
        elif frame.format.name != video.pixel_format and not self._is_alike(frame):
            self._tell(
                f"The pixel format changes to {frame.format.name} on the way; it was converted "
                f"to {video.pixel_format}."
            )
            frame = frame.reformat(format=self._target, threads=1)
        return planes_of(frame, alpha=video.has_alpha)

    @property
    def _target(self) -> str:
        return planar_format(self._layout)

    def _is_alike(self, frame: VideoFrame) -> bool:
        layout = layout_of(frame.format.name)
        mine = self._layout
        return (layout.chroma, layout.bit_depth) == (mine.chroma, mine.bit_depth)

    def _tell(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
