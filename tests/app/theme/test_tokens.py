"""Contrast of every pair of colours that the window draws, from the tokens of each theme."""

import re
from itertools import product

import pytest

from app.theme import tokens
from app.theme.qss import palette_of, style_sheet
from app.theme.tokens import HIGH_CONTRAST, THEMES

TEXTS = ("text_1", "text_2", "text_3", "accent", "warning", "error", "information")
SURFACES = ("background", "surface_1", "surface_2", "surface_3", "hovered", "dropped_on")
ON_ACCENT = (("on_accent", "accent"), ("on_accent", "accent_hover"))


@pytest.mark.parametrize(("themes", "least"), [(THEMES, 4.5), (HIGH_CONTRAST, 7.0)])
def test_every_text_can_be_read_on_every_surface(themes, least):
    for theme in themes:
        for text, surface in [*product(TEXTS, SURFACES), *ON_ACCENT]:
            contrast = tokens.contrast(getattr(theme, text), getattr(theme, surface))
            assert contrast >= least, (theme.name, text, surface, round(contrast, 2))


def test_no_text_has_a_colour_of_its_own():
    """Every `color` of the style sheet is a text of the theme, so that the test above holds."""
    for theme in (*THEMES, *HIGH_CONTRAST):
        known = {getattr(theme, name) for name in (*TEXTS, "on_accent")}
        used = set(re.findall(r"(?<![-\w])(?:selection-)?color: (#\w+)", style_sheet(theme)))
        assert used <= known, (theme.name, used - known)
        grounds = {getattr(theme, name) for name in (*SURFACES, "accent", "accent_hover", "line")}
        painted = set(re.findall(r"background(?:-color)?: (#\w+)", style_sheet(theme)))
        assert painted <= grounds | known, (theme.name, painted - grounds - known)


def test_what_is_switched_off_can_be_read():
    for theme in THEMES:
        palette = palette_of(theme)
        text = palette.color(palette.ColorGroup.Disabled, palette.ColorRole.ButtonText).name()
        for surface in SURFACES[:4]:
            assert tokens.contrast(text, getattr(theme, surface)) >= 4.5, (theme.name, surface)


def test_pictures_lie_in_a_dark_grey_of_no_colour():
    red, green, blue = (tokens.SURROUND[at : at + 2] for at in (1, 3, 5))
    assert red == green == blue
    assert tokens.contrast(tokens.SURROUND, "#FFFFFF") > 15


def test_contrast_is_that_of_the_standard_and_an_unknown_theme_is_dark():
    assert tokens.contrast("#FFFFFF", "#000000") == pytest.approx(21)
    assert tokens.contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)
    assert tokens.use("sepia") is tokens.DARK
    assert tokens.use("light", is_high_contrast=True) is tokens.WHITE
    assert tokens.use("dark") is tokens.DARK


def test_the_style_sheet_has_no_open_places():
    for theme in (*THEMES, *HIGH_CONTRAST):
        sheet = style_sheet(theme)
        assert sheet.count("{") == sheet.count("}")
        assert "{t." not in sheet
