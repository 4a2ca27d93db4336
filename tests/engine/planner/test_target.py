from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from engine.core.geometry import Size
from engine.planner.target import default_output, pictures_target, stored_target
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_media


def test_size_as_stored():
    for settings, video, size in (
        ({}, {}, Size(1280, 720)),
        ({"scale": 4}, {}, Size(2560, 1440)),
        ({"height": 1080}, {}, Size(1920, 1080)),
        ({"height": 1080}, {"rotation": 90}, Size(1080, 608)),
        ({"width": 500, "height": 900}, {"rotation": 90}, Size(900, 500)),
        ({"model": "none"}, {}, Size(640, 360)),
        ({"model": "none", "height": 180}, {}, Size(320, 180)),
        ({"height": 720}, {"sample_aspect": Fraction(4, 3)}, Size(1280, 720)),
    ):
        found = stored_target(a_media(**video).video, JobSettings(**settings))
        assert found == size, (settings, video)


def test_name_beside_the_source():
    for settings, source, kind, name in (
        ({}, "film.mkv", "mkv", "film_x2.mkv"),
        ({"height": 1080}, "film.mkv", "mp4", "film_1080p.mp4"),
        ({"width": 800, "height": 600}, "film.mkv", "mov", "film_800x600.mov"),
        ({"model": "none"}, "film.mkv", "mkv", "film_copy.mkv"),
        ({}, "b.tif", "image", "b_x2.tif"),
        ({}, "b.jpg", "image", "b_x2.png"),
        ({}, "shot_0001.png", "sequence", "shot_x2"),
    ):
        film = replace(a_media(), path=Path("a", source))
        media = replace(film, kind=kind) if kind in ("image", "sequence") else film
        assert default_output(media, JobSettings(**settings), kind) == Path("a", name)


def test_a_pattern_names_pictures_in_a_folder():
    for name, folder, pattern in (
        ("a/shot_%04d.png", "a/shot", "shot_%04d.png"),
        ("a/%06d.tif", "a/pictures", "%06d.tif"),
        ("a/folder", "a/folder", ""),
    ):
        assert pictures_target(Path(name)) == (Path(folder), pattern)
