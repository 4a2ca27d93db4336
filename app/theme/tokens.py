"""Named colours and sizes of the window; contrasts are checked by a test."""

from __future__ import annotations

from dataclasses import dataclass

RADIUS = 8  # px, controls
CARD_RADIUS = 12  # px, cards
BODY_PX = 13
SMALL_PX = 12
TITLE_PX = 15
FIGURE_PX = 16

TOP_HEIGHT = 52
QUEUE_WIDTH = 292  # unless it is dragged
QUEUE_LEAST, QUEUE_MOST = 268, 520
STRIP_WIDTH = 56
CHOICES_WIDTH = 336
FOOT_HEIGHT = 36
CONTROL_HEIGHT = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours as "#RRGGBB"; every text has a contrast of at least 4.5 on every surface."""

    name: str
    is_dark: bool
    background: str
    surface_1: str
    surface_2: str
    surface_3: str
    line: str
    text_1: str
    text_2: str
    text_3: str  # text of what is switched off
    accent: str
    accent_hover: str
    on_accent: str
    warning: str
    error: str
    information: str

    @property
    def hovered(self) -> str:
        """`surface_2` below the pointer."""
        return mixed(self.text_1, self.surface_2, 0.05)

    @property
    def others(self) -> str:
        """The part of other programs in meters and curves."""
        return mixed(self.text_2, self.surface_3, 0.55)

    @property
    def dropped_on(self) -> str:
        """`surface_1` below files that are being dragged."""
        return mixed(self.accent, self.surface_1, 0.1)


DARK = Theme(
    name="dark",
    is_dark=True,
    background="#14161A",
    surface_1="#1B1E24",
    surface_2="#23272F",
    surface_3="#2D323C",
    line="#343A45",
    text_1="#ECEEF2",
    text_2="#A9B0BC",
    text_3="#969DA9",
    accent="#4FC3A1",
    accent_hover="#63D2B2",
    on_accent="#08130F",
    warning="#F2B84B",
    error="#FF6B6B",
    information="#6FA8FF",
)
LIGHT = Theme(
    name="light",
    is_dark=False,
    background="#F6F7F9",
    surface_1="#FFFFFF",
    surface_2="#EBEEF2",
    surface_3="#DDE2E8",
    line="#CBD1DA",
    text_1="#15181D",
    text_2="#4A5160",
    text_3="#5C6370",
    accent="#0A6B50",
    accent_hover="#085F47",
    on_accent="#FFFFFF",
    warning="#8A5A00",
    error="#B3261E",
    information="#1D5FBF",
)
BLACK = Theme(
    name="dark",
    is_dark=True,
    background="#000000",
    surface_1="#000000",
    surface_2="#000000",
    surface_3="#262626",
    line="#FFFFFF",
    text_1="#FFFFFF",
    text_2="#FFFFFF",
    text_3="#BFBFBF",
    accent="#1AEBFF",
    accent_hover="#8CF5FF",
    on_accent="#000000",
    warning="#FFD84D",
    error="#FFA3A3",
    information="#A8CEFF",
)
WHITE = Theme(
    name="light",
    is_dark=False,
    background="#FFFFFF",
    surface_1="#FFFFFF",
    surface_2="#FFFFFF",
    surface_3="#E6E6E6",
    line="#000000",
    text_1="#000000",
    text_2="#000000",
    text_3="#404040",
    accent="#00436B",
    accent_hover="#002F4C",
    on_accent="#FFFFFF",
    warning="#5C3B00",
    error="#8A0000",
    information="#003A8C",
)
THEMES = (DARK, LIGHT)
HIGH_CONTRAST = (BLACK, WHITE)  # every text at least 7
SURROUND = "#191919"  # around pictures in every theme: bright or coloured, it shifts how they look

_current = DARK


def current() -> Theme:
    """The theme in use; painted widgets ask again at every paint."""
    return _current


def use(name: str, *, is_high_contrast: bool = False) -> Theme:
    """Make a theme the current one; unknown names (an old settings file) mean the dark one."""
    global _current
    themes = HIGH_CONTRAST if is_high_contrast else THEMES
    _current = next((theme for theme in themes if theme.name == name), themes[0])
    return _current


def mixed(over: str, under: str, share: float) -> str:
    """The colour of `over` laid on `under` with an opacity of `share` (0 to 1)."""
    pairs = zip(_channels(over), _channels(under), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02X}" for a, b in pairs)


def contrast(first: str, second: str) -> float:
    """Contrast of two colours as WCAG 2 defines it: 1 to 21."""
    brighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (channel / 255 for channel in _channels(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
