"""Free photographs to learn from, out of packages of Debian that carry them.

Pictures under CC0 or CC BY, or in the public domain, are listed; others with a free licence that
extends to what is made from them (CC BY-SA, GPL) are not. A picture is taken when the copyright
file of its package still names the licence in this list. None comes with the program, and quality
is measured on other photographs (tools/reports/photographs.py).
"""

from __future__ import annotations

import logging
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from PIL import Image

log = logging.getLogger(__name__)

REDUCTIONS = (2, 3, 4)
"""Sides of what is written: a camera and JPEG leave no detail of single pixels."""
_LEAST = 256  # px on a side
_LOSSLESS = ".png"


@dataclass(frozen=True, slots=True, kw_only=True)
class Photograph:
    """A picture of a package.

    Attributes:
        package: Name in Debian.
        path: Its file in the package, below /usr/share.
        named: Its name in the package's copyright file.
        author: The author, as that file has it.
        licence: The licence, as that file has it.
    """

    package: str
    path: str
    named: str
    author: str
    licence: str


def _lomiri(name: str, author: str, licence: str = "CC-BY-4.0") -> Photograph:
    return Photograph(
        package="lomiri-wallpapers-16.04",
        path=f"backgrounds/{name}.jpg",
        named=f"16.04/{name}.jpg",
        author=author,
        licence=licence,
    )


def _wesaturate(name: str, author: str) -> Photograph:
    path = f"external/wesaturate/500px/{name}_srgb8.png"
    return Photograph(
        package="libjxl-testdata",
        path=f"libjxl-testdata/{path}",
        named=path,
        author=author,
        licence="CC0",
    )


def _endless_sky(author: str, names: str, kind: str = "land") -> tuple[Photograph, ...]:
    """Backgrounds of a game; not all of its folders have these terms."""
    folder = "games/endless-sky/plugins/endless-sky-high-dpi"
    return tuple(
        Photograph(
            package="endless-sky-high-dpi",
            path=f"{folder}/images/{kind}/{name}@2x.jpg",
            named=f"images/{kind}/{name}",
            author=author,
            licence="public-domain",
        )
        for name in names.split()
    )


def _jigsaw(name: str) -> Photograph:
    return Photograph(
        package="puzzle-jigsaw",
        path=f"puzzle-jigsaw/samples/{name}",
        named=f"samples/{name}",
        author="Pexels",
        licence="CC0-1.0",
    )


PHOTOGRAPHS = (
    _lomiri("Picture_0B_by_freespace", "Trevor Freespace"),
    _lomiri("Picture_1A_by_freespace", "Trevor Freespace"),
    _lomiri("Wine_by_Jakkub_Mede", "Jakub Mede"),
    _lomiri("aitzgorri_by_Aitzol_Berasategi", "Aitzol Berasategi"),
    _lomiri("friends_by_Aitzol_Berasategi", "Aitzol Berasategi"),
    _lomiri("life_by_Aitzol_Berasategi", "Aitzol Berasategi"),
    _lomiri("picosdeeuropa_by_Aitzol_Berasategi", "Aitzol Berasategi"),
    _lomiri("seeding_by_Clements_Engelhardt", "Clemens Engelhardt", "CC0-1.0"),
    _lomiri("sunset_by_Aitzol_Berasategi", "Aitzol Berasategi"),
    _wesaturate("cvo9xd_keong_macan", "keong_macan"),
    _wesaturate("tmshre_riaphotographs", "riaphotographs"),
    _wesaturate("u76c0g_bliznaca", "bliznaca"),
    Photograph(
        package="budgie-core",
        path="backgrounds/budgie/default.jpg",
        named="data/backgrounds/default.jpg",
        author="Budgie Desktop Developers",
        licence="CC0-1.0",
    ),
    _jigsaw("cat-animal-cat-portrait-mackerel.jpg"),
    _jigsaw("pexels-photo-302304.jpeg"),
    *_endless_sky("Library of Congress", "loc5 loc7", "scene"),
    *_endless_sky("USGS", "lava0"),
    *_endless_sky(
        "NASA",
        "desert0 nasa2 nasa3 nasa4 nasa6 nasa8 space0 space1 space2 space3 space4 space5 space6 "
        "space7 station1 station3 station4",
    ),
    *_endless_sky(
        "photographers of unsplash.com, not named there",
        "badlands0 badlands7 badlands8 beach0 beach2 beach3 beach4 beach6 canyon0 canyon01 "
        "canyon02 canyon03 canyon04 canyon05 canyon7 city4 city6 city8 city9 city10 city11 "
        "fields1 fields5 fields6 fields7 fields9 fog4 forest1 forest2 forest3 forest4 forest5 "
        "hills2 lava1 lava2 lava6 mountain1 mountain3 mountain4 mountain5 mountain6 mountain7 "
        "mountain8 sea3 sea8 sky0 sky3 sky7 sky8 sky9 snow0 snow1 snow2 snow3 snow4 snow6 snow7 "
        "snow10 water0 water8",
    ),
)


class WrongLicence(ValueError):
    """The copyright file of a package does not name the licence that a picture is listed with."""


def write_photographs(folder: Path) -> int:
    """Write all pictures, reduced, as PNG files; returns their number.

    Packages are downloaded with `apt-get` and unpacked with `dpkg-deb` beside, so it runs on Debian
    and what is derived from it.

    Raises:
        WrongLicence: A version of a package has other terms.
        FileNotFoundError, subprocess.CalledProcessError: A package has no such picture, or is not
            to be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for package in sorted({picture.package for picture in PHOTOGRAPHS}):
        with tempfile.TemporaryDirectory() as place:
            share = _unpacked(package, Path(place)) / "usr/share"
            terms = (share / "doc" / package / "copyright").read_text("utf-8", "replace")
            for picture in PHOTOGRAPHS:
                if picture.package == package:
                    check_licence(picture, terms)
                    written += _write_reduced(share / picture.path, folder)
        log.info("%s is done", package)
    return written


def check_licence(picture: Photograph, terms: str) -> None:
    """Compare the licence of a picture with the copyright file of its package.

    Raises:
        WrongLicence: The last paragraph there that the picture falls under has another one.
    """
    found = [licence for files, licence in _paragraphs(terms) if _covers(files, picture.named)]
    if not found or found[-1] != picture.licence:
        terms_found = found[-1] if found else "no licence"
        raise WrongLicence(f"{picture.named} of {picture.package}: {terms_found}")


def _paragraphs(terms: str) -> Iterator[tuple[list[str], str]]:
    """File patterns and the short name of the licence, of each paragraph that has both."""
    for paragraph in re.split(r"\n[ \t]*\n", terms):
        fields = dict(
            re.findall(r"^(Files|License):((?:.*(?:\n[ \t].*)*))", paragraph, re.MULTILINE)
        )
        if "Files" in fields and "License" in fields:
            yield fields["Files"].split(), fields["License"].strip().splitlines()[0].strip()


def _covers(patterns: list[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _unpacked(package: str, folder: Path) -> Path:
    subprocess.run(["apt-get", "download", package], cwd=folder, check=True, capture_output=True)
    (archive,) = folder.glob("*.deb")
    inside = folder / "inside"
    subprocess.run(["dpkg-deb", "-x", archive, inside], check=True, capture_output=True)
    return inside


def _write_reduced(path: Path, folder: Path) -> int:
    """Write one picture in every size that it is large enough for, a lossless one as it is too."""
    with Image.open(path) as image:
        picture = image.convert("RGB")
    factors = (1, *REDUCTIONS) if path.suffix == _LOSSLESS else REDUCTIONS
    factors = tuple(factor for factor in factors if min(picture.size) // factor >= _LEAST)
    for factor in factors:
        small = picture.reduce(factor) if factor > 1 else picture
        small.save(folder / f"{path.stem}_{factor}.png")
    return len(factors)
