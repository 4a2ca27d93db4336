"""All states are shown for judging, and any two values of how a window can be meet."""

from itertools import combinations, product

from engine.core.geometry import Size
from tools.screenshots.render import STATES
from tools.screenshots.shots import SCALES, SCREENS, Shot, rotated

VALUES = {
    "language": ("en", "zh_CN"),
    "theme": ("dark", "light"),
    "scale": SCALES,
    "screen": SCREENS,
}


def test_any_two_of_language_theme_scale_and_screen_meet():
    shots = list(rotated(STATES))
    for one, other in combinations(VALUES, 2):
        seen = {(getattr(shot, one), getattr(shot, other)) for shot in shots}
        assert seen == set(product(VALUES[one], VALUES[other])), (one, other)


def test_every_state_is_shown_in_both_languages_and_themes_at_all_scales_under_its_own_name():
    shots = list(rotated(STATES))
    for state in STATES:
        mine = [shot for shot in shots if shot.state == state]
        for value in ("language", "theme", "scale"):
            assert {getattr(shot, value) for shot in mine} == set(VALUES[value])
    assert len({shot.name for shot in shots}) == len(shots)


def test_a_maximised_window_leaves_the_task_bar_and_is_never_smaller_than_the_program_allows():
    shots = list(rotated(STATES))
    assert Shot("empty", scale=1.5, screen=Size(1366, 768)).room == Size(911, 472)
    assert Shot("empty", scale=2.0, screen=Size(1024, 600)).room == Size(910, 472)
    assert all(shot.size.height < shot.room.height for shot in shots)
