"""Scenes of a film that tell models apart."""

from dataclasses import replace

import numpy as np
import pytest

from engine.protocol.excerpt import Scene
from engine.video.read.probe import probe
from engine.video.read.scenes import telling_scenes
from tests.helpers.clips import make_picture
from tests.helpers.fields import write

SIZE = (64, 96)
RNG = np.random.default_rng(1)


def dark(_number):
    return np.full(SIZE, 40, np.uint8)


def motion(number):
    return np.full(SIZE, 130 + 40 * (number % 2), np.uint8) + np.arange(96, dtype=np.uint8) // 4 * 2


def text(_number):
    return np.where(np.arange(96) // 3 % 2, 220, 40).astype(np.uint8) + np.zeros(SIZE, np.uint8)


def texture(_number):
    return FINE


def flat(_number):
    return np.full(SIZE, 190, np.uint8)


FINE = RNG.integers(110, 145, SIZE).astype(np.uint8)
SCENES = (flat, texture, dark, text, motion)  # three seconds of each


@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "ffv1"), ("a.mp4", "libx264")])
def test_each_kind_is_found_where_it_is(tmp_path, name, codec):
    pictures = [scene(n) for scene in SCENES for n in range(75)]
    media = probe(write(tmp_path / name, pictures, codec=codec))
    length = float(media.video.duration) / len(SCENES)
    found = telling_scenes(media)
    kinds = [SCENES[int(place.seconds / length)].__name__ for place in found]
    assert [place.kind for place in found] == kinds
    assert sorted(kinds) == ["dark", "flat", "motion", "text", "texture"]


def test_a_film_that_cannot_be_decoded_and_a_picture_have_none(tmp_path):
    broken = probe(write(tmp_path / "a.mkv", [flat(0)] * 30))
    assert telling_scenes(replace(broken, path=tmp_path / "gone.mkv")) == ()
    assert telling_scenes(probe(make_picture(tmp_path / "a.png"))) == ()


def test_a_short_film_has_few_scenes_that_lie_apart(tmp_path):
    media = probe(write(tmp_path / "a.mkv", [texture(0)] * 60))
    found = telling_scenes(media)
    assert 1 <= len(found) <= 2
    assert isinstance(found[0], Scene)
