"""Sound of a film as playback hears it."""

from fractions import Fraction

import numpy as np
import pytest

from engine.video.read.probe import probe
from engine.video.read.sound import sound_from
from tests.helpers.clips import make_clip


@pytest.mark.parametrize("name", ["film.mkv", "film.mp4"])
def test_sound_is_whole_and_at_the_rate_of_the_device(tmp_path, name):
    media = probe(make_clip(tmp_path / name, frames=25, audio_tracks=2))
    parts = list(sound_from(media, Fraction(0), 44100))
    samples = np.concatenate([part.samples for part in parts])
    assert samples.dtype == np.float32
    assert samples.shape[1] == 2
    assert len(samples) / 44100 == pytest.approx(1.0, abs=0.06)
    assert np.abs(samples).max() > 0.01
    ends = [part.seconds + len(part.samples) / 44100 for part in parts]
    assert np.allclose([part.seconds for part in parts[1:]], ends[:-1], atol=1e-6)


def test_sound_from_a_time_is_that_of_the_whole(tmp_path):
    media = probe(make_clip(tmp_path / "film.mkv", frames=50, audio_tracks=1))
    whole = list(sound_from(media, Fraction(0), 48000))
    later = list(sound_from(media, Fraction(6, 5), 48000))
    assert later[0].seconds == pytest.approx(1.2, abs=0.03)
    samples = np.concatenate([part.samples for part in whole])
    first = round((later[0].seconds - whole[0].seconds) * 48000)
    count = len(later[0].samples)
    near = [
        np.abs(samples[first + shift : first + shift + count] - later[0].samples).max()
        for shift in range(-48, 49)
    ]
    assert min(near) < 0.02


def test_a_film_without_sound_gives_none(tmp_path):
    assert list(sound_from(probe(make_clip(tmp_path / "film.mkv")), Fraction(0), 48000)) == []
