from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from engine.core.geometry import Size
from engine.planner.target import default_output, pictures_target, stored_target
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_media


@pytest.mark.parametrize(
    ("settings", "video", "size"),
    [
        ({}, {}, Size(1280, 720)),
        ({"scale": 4}, {}, Size(2560, 1440)),
        ({"height": 1080}, {}, Size(1920, 1080)),
        ({"height": 1080}, {"rotation": 90}, Size(1080, 608)),
        ({"width": 500, "height": 900}, {"rotation": 90}, Size(900, 500)),
        ({"model": "none"}, {}, Size(640, 360)),
        ({"model": "none", "height": 180}, {}, Size(320, 180)),
        ({"height": 720}, {"sample_aspect": Fraction(4, 3)}, Size(1280, 720)),
    ],
)
def test_size_as_stored(settings, video, size):
    assert stored_target(a_media(**video).video, JobSettings(**settings)) == size


@pytest.mark.parametrize(
    ("settings", "container", "name"),
    [
        ({}, "mkv", "film_x2.mkv"),
        ({"height": 1080}, "mp4", "film_1080p.mp4"),
        ({"width": 800, "height": 600}, "mov", "film_800x600.mov"),
        ({"model": "none"}, "mkv", "film_copy.mkv"),
    ],
)
def test_name_beside_the_source(settings, container, name):
    assert default_output(a_media(), JobSettings(**settings), container).name == name


def test_pictures_keep_their_kind_and_sequences_become_a_folder():
    media = a_media()
    picture = replace(media, path=Path("a/b.tif"), kind="image")
    assert default_output(picture, JobSettings(), "image") == Path("a/b_x2.tif")
    jpeg = replace(media, path=Path("a/b.jpg"), kind="image")
    assert default_output(jpeg, JobSettings(), "image") == Path("a/b_x2.png")
    sequence = replace(media, path=Path("a/shot_0001.png"), kind="sequence")
    assert default_output(sequence, JobSettings(), "sequence") == Path("a/shot_x2")


@pytest.mark.parametrize(
    ("name", "folder", "pattern"),
    [
        ("a/shot_%04d.png", "a/shot", "shot_%04d.png"),
        ("a/%06d.tif", "a/pictures", "%06d.tif"),
        ("a/folder", "a/folder", ""),
    ],
)
def test_a_pattern_names_pictures_in_a_folder(name, folder, pattern):
    assert pictures_target(Path(name)) == (Path(folder), pattern)
