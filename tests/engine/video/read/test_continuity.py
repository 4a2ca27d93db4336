"""Lost packets of transport streams, found by their counters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.control import Control
from engine.video.read.continuity import Losses, losses
from engine.video.read.probe import probe
from tests.helpers.clips import FILM, FIRST_SOUND, lose_packets, make_clip, with_unseen_sound


def lost(path: Path) -> Losses:
    return losses(probe(path), Control())


@pytest.fixture
def film(tmp_path: Path) -> Path:
    return make_clip(tmp_path / "a.ts", frames=50, size=(64, 48), audio_tracks=2)


def test_each_place_is_counted_once_and_a_whole_recording_has_none(film: Path) -> None:
    assert lost(film) == Losses()
    worse = lose_packets(film, film.with_name("b.ts"), 20, 30, 31, 40, pid=FILM)
    assert lost(worse) == Losses(film=3)
    worst = lose_packets(worse, film.with_name("c.ts"), 12, pid=FIRST_SOUND)
    assert lost(worst) == Losses(film=3, others=1)
    media = probe(worst)
    others = tuple(replace(track, is_of_other_programme=True) for track in media.streams)
    assert losses(replace(media, streams=others), Control()) == Losses(film=3)


def test_packets_with_times_and_with_noise_between_them_are_found(film: Path) -> None:
    data = film.read_bytes()
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    film.with_name("b.m2ts").write_bytes(b"".join(bytes(4) + one for one in packets))
    assert lost(film.with_name("b.m2ts")) == Losses()
    film.with_name("c.ts").write_bytes(data[: 188 * 40] + bytes(9000) + data[188 * 40 :])
    assert lost(film.with_name("c.ts")) == Losses()


def test_packets_sent_twice_and_announced_gaps_are_no_losses(film: Path) -> None:
    data = film.read_bytes()
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    of_film = [n for n, one in enumerate(packets) if (one[1] & 31) << 8 | one[2] == FILM]
    twice = [one for n, one in enumerate(packets) for _ in range(1 + (n == of_film[9]))]
    film.with_name("b.ts").write_bytes(b"".join(twice))
    assert lost(film.with_name("b.ts")) == Losses()
    gap = next(n for n in of_film[9:] if packets[n][3] & 0x20 and packets[n][4])
    changed = bytearray(packets[gap])
    changed[5] |= 0x80
    before = of_film[of_film.index(gap) - 1]
    kept = [*packets[:before], *packets[before + 1 : gap], bytes(changed), *packets[gap + 1 :]]
    film.with_name("c.ts").write_bytes(b"".join(kept))
    assert lost(film.with_name("c.ts")) == Losses()


def test_a_stream_that_only_the_middle_of_a_recording_has_is_seen(film: Path) -> None:
    assert lost(with_unseen_sound(film, film.with_name("b.ts"))) == Losses(unseen=1)
