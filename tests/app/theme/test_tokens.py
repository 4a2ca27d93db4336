from itertools import product

import pytest

from app.theme import tokens
from app.theme.qss import style_sheet
from app.theme.tokens import DARK, LIGHT


def test_texts_can_be_read_on_every_surface():
    texts = ("text_1", "text_2", "accent", "warning", "error", "information")
    surfaces = ("surface_1", "surface_2", "background")
    pairs = [*product(texts, surfaces), ("on_accent", "accent"), ("on_accent", "accent_hover")]
    for theme in (DARK, LIGHT):
        for text, surface in pairs:
            contrast = tokens.contrast(getattr(theme, text), getattr(theme, surface))
            assert contrast >= 4.5, (theme.name, text, surface)


def test_contrast_is_that_of_the_standard_and_an_unknown_theme_is_dark():
    assert tokens.contrast("#FFFFFF", "#000000") == pytest.approx(21)
    assert tokens.contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)
    assert tokens.use("sepia") is DARK


def test_the_style_sheet_has_no_open_places():
    for theme in (DARK, LIGHT):
        sheet = style_sheet(theme)
        assert sheet.count("{") == sheet.count("}")
        assert "{t." not in sheet
