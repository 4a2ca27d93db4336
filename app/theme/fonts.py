"""The system's interface font, with figures of equal width."""

from __future__ import annotations

from PySide6.QtGui import QFont

from app.theme import tokens

# The first that is installed wins; Chinese glyphs come from the later ones.
FAMILIES = [
    "Segoe UI Variable Text",
    "Segoe UI",
    "Inter",
    "Noto Sans",
    "Microsoft YaHei UI",
    "Noto Sans CJK SC",
    "PingFang SC",
    "sans-serif",
]


def interface_font(
    pixels: int = tokens.BODY_PX, weight: QFont.Weight = QFont.Weight.Normal
) -> QFont:
    """The interface font at a size in logical px; its figures are tabular, so nothing jitters."""
    font = QFont()
    font.setFamilies(FAMILIES)
    font.setPixelSize(pixels)
    font.setWeight(weight)
    font.setFeature(QFont.Tag("tnum"), 1)
    font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    return font
