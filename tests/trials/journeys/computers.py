"""Two computers make a film, as the manual's chapter "Several computers" says it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.helpers.program import frame_hashes, make_film, upscale
from tests.trials.journeys.program import DROP_ZONE, Upreel
from tests.trials.journeys.screen import JOB_S, Screen, until

_PAIR = r"Pair with (?!this address).+"
_SIX_WORDS = r"([a-z]+ ){5}[a-z]+"


def two_computers(folder: Path) -> None:
    """Lend the second one, pair it, make a film with it, forget it."""
    film, alone = make_film(folder / "film.mp4", "480x270", 40), folder / "alone.mp4"
    upscale(film, alone, "--model", "lite")
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(
                Upreel(stack.enter_context(Screen(folder / name / "screen")), folder / name / "p")
            )
            for name in ("first", "second")
        )
        _pair(first, second)
        first.press("Close")
        first.wait_for(DROP_ZONE)
        first.drop([film])
        first.wait_for_cards("it is planned", lambda cards: [c.state for c in cards] == ["Queued"])
        first.press("More settings")
        first.choose_in("Other computers", "All paired computers")
        first.press("Start")
        first.screen.key("ctrl+k")
        first.wait_for("Working")
        second.wait_for("Now working for .+.")
        first.press("Close")
        first.wait_for_cards("it is done", lambda cards: cards[0].is_done, JOB_S)
        assert frame_hashes(folder / "film_x2.mp4") == frame_hashes(alone)
        until("nothing of it stays there", lambda: not second.lent, shown=lambda: second.lent)
        first.screen.key("ctrl+k")
        first.press("Forget .+")
        first.press("Forget")
        first.wait_for("No other computer is paired yet")
        for each in (first, second):
            each.press("Close")
            each.close()


def _pair(first: Upreel, second: Upreel) -> None:
    second.start()  # 1. On the second computer: start Upreel, open Computers
    second.screen.key("ctrl+k")
    second.press("Lend this computer")
    first.start()  # 2. On the first one: open Computers, and press Pair
    first.screen.key("ctrl+k")
    first.press(_PAIR)
    words = [each.wait_for(_SIX_WORDS).name for each in (first, second)]  # 3. Six words appear
    assert words[0] == words[1]
    for each in (first, second):
        each.press("Words match")
    for each in (first, second):
        each.wait_for("Paired with .+")
