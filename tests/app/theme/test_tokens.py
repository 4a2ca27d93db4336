from __future__ import annotations

import pytest

from app.theme import tokens
from app.theme.qss import style_sheet
from app.theme.tokens import DARK, LIGHT, Theme


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("name", ["text_1", "text_2", "accent", "warning", "error", "information"])
@pytest.mark.parametrize("surface", ["surface_1", "surface_2", "background"])
def test_texts_can_be_read_on_every_surface(theme: Theme, name: str, surface: str) -> None:
    assert tokens.contrast(getattr(theme, name), getattr(theme, surface)) >= 4.5


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_the_primary_button_can_be_read(theme: Theme) -> None:
    assert tokens.contrast(theme.on_accent, theme.accent) >= 4.5
    assert tokens.contrast(theme.on_accent, theme.accent_hover) >= 4.5


def test_contrast_is_that_of_the_standard() -> None:
    assert tokens.contrast("#FFFFFF", "#000000") == pytest.approx(21)
    assert tokens.contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


def test_a_theme_of_an_older_version_means_the_dark_one() -> None:
    assert tokens.use("sepia") is DARK


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_the_style_sheet_has_no_open_places(theme: Theme) -> None:
    sheet = style_sheet(theme)
    assert sheet.count("{") == sheet.count("}")
    assert "{t." not in sheet
