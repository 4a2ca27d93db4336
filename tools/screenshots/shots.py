"""Looks and screens in which each state of the window is shown, for judging it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from engine.core.geometry import Size

USUAL = Size(1440, 900)  # of the window, logical px
LARGE = Size(1920, 1080)  # of a screen, px
SCREENS = (Size(1024, 600), Size(1366, 768), LARGE)
SCALES = (1.0, 1.5, 2.0)
_LOOKS = (("en", "dark"), ("zh_CN", "light"), ("zh_CN", "dark"), ("en", "light"))
_TIMES = 3  # how often each state is shown
_TASK_BAR, _TITLE = 40, 40  # logical px
_SMALLEST = Size(910, 472)  # that a screen leaves to windows, logical px: 1366x768 at 150 %


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: a state, how the window looks meanwhile, and on which screen it is."""

    state: str
    language: str = "en"
    theme: str = "dark"
    scale: float = 1.0
    screen: Size = LARGE
    size: Size = USUAL
    part: str = ""  # object name of a widget that is shown alone

    @property
    def name(self) -> str:
        """Name of its file, without usual values."""
        parts = [self.state, self.language]
        parts += [self.theme] if self.theme != "dark" else []
        parts += [f"{100 * self.scale:.0f}"] if self.scale != 1 else []
        parts += [f"{self.size.width}x{self.size.height}"] if self.size != USUAL else []
        parts += [self.part] if self.part else []
        return "_".join(parts) + ".png"

    @property
    def room(self) -> Size:
        """Room for windows on the screen, logical px; at least that of the smallest one."""
        width, height = (
            round(self.screen.width / self.scale),
            round(self.screen.height / self.scale),
        )
        return Size(max(width, _SMALLEST.width), max(height - _TASK_BAR, _SMALLEST.height))


def rotated(states: Iterable[str]) -> Iterator[Shot]:
    """Each state a few times, so that any two of language, theme, scale and screen meet."""
    for number, state in enumerate(states):
        for turn in range(_TIMES):
            language, theme = _LOOKS[(number + turn) % len(_LOOKS)]
            screen = SCREENS[(number + turn) % len(SCREENS)]
            shot = Shot(state, language, theme, SCALES[turn], screen)
            yield replace(shot, size=Size(shot.room.width, shot.room.height - _TITLE))
