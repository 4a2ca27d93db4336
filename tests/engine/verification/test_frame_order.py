from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.messages import Message, alternatives, clauses, message, sentences, text_of
from engine.verification.frame_order import (
    Edit,
    FrameAlignment,
    FrameDifferences,
    SourceWindow,
    are_certain,
    edits_of,
    with_frozen,
    with_replaced,
)
from engine.verification.thumbnails import Thumbnail, area_mean, likeness

CELLS = (9, 16)


def film(count: int, speed: float) -> list[Thumbnail]:
    """A smooth picture that moves by `speed` cells a frame."""
    y, x = np.mgrid[: CELLS[0], : CELLS[1]].astype(np.float64)
    frames = [
        0.5 + 0.2 * np.sin((x + speed * n) / 2.3) + 0.2 * np.cos((y - speed * n) / 1.7 + x / 5)
        for n in range(count)
    ]
    return [frame.astype(np.float32) for frame in frames]


def found(source: list[Thumbnail], shows: list[int], noise: float = 0.2 / 255) -> list[Edit]:
    random = np.random.default_rng(3)
    window, order = SourceWindow(iter(source), source[0].size), FrameAlignment()
    for shown in shows:
        picture = source[shown] + random.normal(0, noise, CELLS).astype(np.float32)
        order.add(picture, *window.advance())
    window.drain()
    frames = order.shown(window.count)
    edits = edits_of(frames, window.count, window.changes, order.noise)
    if not are_certain(edits):
        frames, edits = list(range(len(frames))), []
    return with_replaced(edits, order.replaced(frames))


def places(source: list[Thumbnail], shows: list[int]) -> list[tuple[str, int, int]]:
    return [(edit.kind, edit.frame, edit.count) for edit in found(source, shows)]


def test_each_edit_is_found_at_fast_and_at_slow_motion() -> None:
    for speed in (2.0, 0.3, 0.03):
        source, every = film(120, speed), list(range(120))
        assert places(source, every) == []
        assert places(source, every[:60] + every[61:]) == [("missing", 60, 1)]
        assert places(source, every[:60] + every[72:]) == [("missing", 60, 12)]
        assert places(source, every[:61] + every[60:]) == [("doubled", 60, 1)]
        assert places(source, [*every[:61], 60, 60, *every[61:]]) == [("doubled", 60, 2)]
        assert places(source, every[1:]) == [("missing", 0, 1)]
        assert places(source, every[:-2]) == [("missing", 118, 2)]
        both = [*every[:31], *every[30:80], *every[81:]]
        assert places(source, both) == [("doubled", 30, 1), ("missing", 80, 1)]


def test_single_frames_that_show_another_one_are_named() -> None:
    """Leaving the order for one frame would cost more than the frame."""
    for speed in (2.0, 0.3):
        source, every = film(120, speed), list(range(120))
        for other in (42, 58, 62, 70):
            shows = [*every[:60], other, *every[61:]]
            assert places(source, shows) == [("replaced", other, 1)], (speed, other)
        swapped = [*every[:60], 61, 60, *every[62:]]
        assert len(places(source, swapped)) >= 1, speed
        both = [*every[:30], 36, *every[31:80], 75, *every[81:]]
        assert places(source, both) == [("replaced", 36, 1), ("replaced", 75, 1)]


def test_a_fade_that_coding_has_moved_shows_no_single_frame_elsewhere() -> None:
    picture = film(1, 1.0)[0]
    source = [picture * np.float32(level) for level in np.linspace(1, 0.2, 90)]
    for late in (0, 1, 2, 3):
        shows = [*range(20), *(n - late for n in range(20, 60)), *range(60, 90)]
        assert "replaced" not in {kind for kind, *_ in places(source, shows)}, late


def test_edits_follow_from_the_length_where_the_film_is_still_or_ended() -> None:
    source, every = film(60, 0.0), list(range(60))
    assert places(source, every) == []
    assert places(source, [0] * 60) == []
    short = found(source, every[:-1])
    assert [(edit.kind, edit.count, edit.clear) for edit in short] == [("missing", 1, False)]
    extra = places(film(30, 1.0), [*range(30), *[29] * 40])
    assert sum(count for kind, _, count in extra if kind in ("extra", "doubled")) == 40


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 59), st.integers(1, 20))
def test_any_gap_is_named_where_it_is(start: int, count: int) -> None:
    source, every = film(60, 0.7), list(range(60))
    shows = every[:start] + every[start + count :]
    assert places(source, shows) == [("missing", start, min(count, 60 - start))]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 12), st.integers(1, 12))
def test_area_mean_keeps_the_mean_and_does_not_depend_on_the_enlargement(
    height: int, width: int, rows: int, columns: int
) -> None:
    plane = np.random.default_rng(height * 100 + width).integers(0, 256, (height, width), np.uint8)
    rows, columns = min(rows, height), min(columns, width)
    mean = area_mean(plane, rows, columns)
    assert mean.shape == (rows, columns)
    if height <= 3 * rows and width <= 3 * columns:  # no boxes: exact
        assert mean.mean() == pytest.approx(plane.mean(), abs=1e-6)
        large = np.repeat(np.repeat(plane, 2, axis=0), 2, axis=1)
        assert np.abs(area_mean(large, rows, columns) - mean).max() < 1e-6


def test_likeness_is_one_for_equal_and_low_for_other_pictures() -> None:
    pictures = film(40, 1.0)
    assert likeness(pictures[0], pictures[0]) == pytest.approx(1.0, abs=1e-5)
    assert likeness(pictures[0], pictures[0] + np.float32(0.004)) > 0.99
    assert likeness(pictures[0], 1 - pictures[0]) < 0.3


def test_area_mean_of_deep_planes_does_not_overflow() -> None:
    plane = np.full((2000, 900), 65535, np.uint16)
    assert np.abs(area_mean(plane, 3, 5) - 65535).max() < 1e-3


def frozen(source: list[Thumbnail], shows: list[int], noise: float) -> list[int]:
    """As the comparison feeds it, with an error that stays the same for the whole film."""
    random = np.random.default_rng(5)
    usual = random.normal(0, 3 / 255, CELLS).astype(np.float32)
    steps = FrameDifferences()
    for number, shown in enumerate(shows):
        picture = source[shown] + usual + random.normal(0, noise, CELLS).astype(np.float32)
        steps.add(source[number].ravel(), source[max(0, number - 1)].ravel(), picture)
    return steps.frozen()


def test_frozen_frame_is_found_where_the_result_differs_more_than_neighbours_do() -> None:
    source, every = film(60, 0.05), list(range(60))
    shows = [*every[:30], 29, *every[31:]]
    assert frozen(source, shows, 0.1 / 255) == [30]
    assert frozen(source, every, 0.1 / 255) == []
    assert frozen(source, shows, 20 / 255) == []  # noise hides it; nothing is invented
    assert frozen(film(60, 0.0), shows, 0.0) == []
    assert frozen(source[:4], every[:4], 0.1 / 255) == []
    doubled = Edit(kind="doubled", frame=4, shown_at=5)
    added = [doubled, Edit(kind="missing", frame=5, shown_at=6)]
    assert with_frozen([], [5], every[:20]) == added
    assert with_frozen([doubled], [5], every[:20]) == [doubled], "it was found before"


def test_small_step_in_a_still_passage_that_coding_delays_is_no_frozen_frame() -> None:
    still = film(1, 0.0)[0]
    shows = [*range(30), 29, *range(31, 60)]
    for step, expected in ((3 / 255, []), (40 / 255, [30])):
        after = still.copy()
        after[3:6, 4:9] += np.float32(step)
        assert frozen([still] * 30 + [after] * 30, shows, 0.0) == expected


def test_another_way_through_a_still_passage_is_no_error() -> None:
    doubled = Edit(kind="doubled", frame=0, shown_at=1, clear=False)
    missing = Edit(kind="missing", frame=59, shown_at=60, clear=False)
    assert not are_certain([doubled, missing])
    assert are_certain([doubled]), "the number of frames differs"
    assert are_certain([doubled, replace(missing, clear=True)])


PARTS = [message("reading.frames-damaged", count=number) for number in range(5)]


def test_the_first_parts_are_in_full_and_the_others_counted() -> None:
    assert str(sentences(PARTS[:2])) == " ".join(map(str, PARTS[:2]))
    assert str(clauses(PARTS[:1])) == str(PARTS[0])
    assert str(clauses(PARTS)) == "; ".join([*map(str, PARTS[:3]), "and 2 more"])
    assert str(alternatives(["tv", Message("check.tags.untagged"), "pc"])) == "tv or untagged or pc"
    assert text_of(clauses(PARTS[:2]), "zh_CN").count("；") == 1
