"""The list of free photographs: licences, and what their packages say of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.training.photographs import PHOTOGRAPHS, WrongLicence, check_licence

TERMS = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: A Team
License: BSD-3-clause

Files: external/wesaturate/*
 16.04/Picture_1A_by_freespace.jpg
Copyright: none
License: CC0
 Creative Commons Zero
 .
 Files: are named above.

Files: 16.04/life_by_Aitzol_Berasategi.jpg
Copyright: Aitzol Berasategi, 2018
License: CC-BY-SA-4.0
"""


def test_every_listed_licence_leaves_what_is_made_free() -> None:
    assert len({picture.named for picture in PHOTOGRAPHS}) == len(PHOTOGRAPHS) > 10
    for picture in PHOTOGRAPHS:
        assert picture.licence in {"CC0", "CC0-1.0", "CC-BY-4.0", "public-domain"}
        assert picture.author


def test_each_is_listed_beside_the_weights() -> None:
    listed = Path("resources/weights/README.md").read_text("utf-8")
    for picture in PHOTOGRAPHS:
        name = Path(picture.path).name
        assert f"`{name}`" in listed or f"`{name.removesuffix('@2x.jpg')}`" in listed, picture.path
        assert picture.author in listed


def test_licence_is_that_of_the_last_paragraph_about_a_picture() -> None:
    named = {picture.named: picture for picture in PHOTOGRAPHS}
    check_licence(named["external/wesaturate/500px/u76c0g_bliznaca_srgb8.png"], TERMS)
    for other in (
        "16.04/life_by_Aitzol_Berasategi.jpg",  # shared alike
        "16.04/Picture_1A_by_freespace.jpg",  # free, but not as listed
        "16.04/sunset_by_Aitzol_Berasategi.jpg",  # covered by the paragraph of the program
    ):
        with pytest.raises(WrongLicence, match=named[other].package):
            check_licence(named[other], TERMS)
