"""What users do, from the first start to the finished film; each in a profile of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.settings.schema import JobSettings
from tests.helpers.clips import make_clip
from tests.helpers.program import film_stream, frame_hashes, make_film, upscale
from tests.trials.journeys.computers import two_computers
from tests.trials.journeys.program import DROP_ZONE, Card, Upreel
from tests.trials.journeys.screen import JOB_S, Screen, until

Journey = Callable[[Path], None]
_START = r"Start( queue)?( \(\d+\))?"
_MANY = 50
_ENDS = ("close", "kill", "crash")
_PIECES_OF_HALF_A_SECOND = JobSettings(model="lite", treatment="faithful", segment_seconds=0.5)


def first_film(folder: Path, width: int = 1920, height: int = 1080) -> None:
    """From an empty profile to the opened result: drop, choose a size, Start, Open."""
    film = make_clip(folder / "holiday.mp4", frames=12, audio_tracks=1)
    with Screen(folder / "screen", width, height) as screen, Upreel(screen, folder / "p") as upreel:
        upreel.start()
        upreel.wait_for(DROP_ZONE)
        upreel.check_accessible()
        start = upreel.find(_START)
        assert start is not None
        assert "enabled" not in start.states, "there is nothing to start"
        upreel.drop([film])  # 1
        upreel.wait_for_cards("planned", lambda cards: [c.state for c in cards] == ["Queued"])
        upreel.check_accessible()
        upreel.press("×4")  # 2
        upreel.wait_for_cards("a result of 4 times", lambda cards: "→ 384×256" in cards[0].sizes)
        sizes = [upreel.find(name) for name in ("×2", "×4")]
        assert ["checked" in size.states for size in sizes if size] == [False, True]
        upreel.press(_START)  # 3
        upreel.wait_for_cards("runs", lambda cards: cards[0].is_running or cards[0].is_done)
        upreel.check_accessible()
        upreel.wait_for_cards("done", lambda cards: cards[0].is_done, JOB_S)
        upreel.check_accessible()
        upreel.press("Open( result)?", role="push button")  # 4
        opened = until("the result is opened", lambda: upreel.opened)
        result = folder / opened[0].rsplit("/", 1)[1]
        stream = film_stream(result)
        assert (stream["width"], stream["height"]) == (384, 256)
        assert int(stream["nb_read_frames"]) == 12
        upreel.close()


def dropped_files_stay(folder: Path) -> None:
    """A file manager that proposes to move is answered that the files were copied."""
    film, other = (make_clip(folder / name) for name in ("holiday.mp4", "other.mp4"))
    with Screen(folder / "screen") as screen, Upreel(screen, folder / "p") as upreel:
        upreel.start()
        upreel.wait_for(DROP_ZONE)
        assert upreel.drop([film], action="MoveAction") == "CopyAction"
        upreel.wait_for_cards("in the queue", len)
        screen.key("F1")
        upreel.wait_for("About Upreel")
        assert upreel.drop([other], onto="dialog", action="MoveAction") == "CopyAction"
        upreel.wait_for_cards("both in the queue", lambda cards: len(cards) == 2)
        assert film.exists()
        assert other.exists()


def fifty_films(folder: Path) -> None:
    """A folder of fifty films, one of them damaged: all others are done, in their order."""
    films = folder / "films"
    films.mkdir()
    names = [f"film {number:02d}.mp4" for number in range(_MANY)]
    for name in names:
        make_clip(films / name, frames=4, size=(64, 48))
    damaged = names[20]
    (films / damaged).write_bytes((films / damaged).read_bytes()[:200])
    with Screen(folder / "screen") as screen, Upreel(screen, folder / "p") as upreel:
        upreel.start()
        upreel.wait_for(DROP_ZONE)
        upreel.drop([films])
        upreel.wait_for_cards(
            "all are read",
            lambda cards: len(cards) == _MANY and all(c.state != "Reading the file" for c in cards),
        )
        assert [card.film for card in upreel.cards] == names
        upreel.press(_START)
        good = [name for name in names if name != damaged]
        upreel.wait_for_cards(
            "all but the damaged one are done",
            lambda cards: [card.film for card in cards if card.is_done] == good,
            patience_s=JOB_S,
        )
        results = {file.name for file in films.iterdir()} - set(names)
        assert len(results) == _MANY - 1
        upreel.close()


def interrupted_while_it_waits(folder: Path, end: str) -> None:
    """The queue is ended after every change, and each time it comes back as it was."""
    names = ["a.mp4", "b.mp4", "c.mp4"]
    films = [make_clip(folder / name, size=(96, 64), frames=12) for name in names]
    with Screen(folder / "screen") as screen, Upreel(screen, folder / "p") as upreel:
        upreel.start()

        def comes_back(expected: list[tuple[str, str]]) -> None:
            def is_expected(cards: list[Card]) -> bool:
                return [(card.film, card.sizes) for card in cards] == expected

            upreel.wait_for_cards(f"the queue {expected}", is_expected)
            getattr(upreel, end)()
            upreel.start()
            upreel.wait_for_cards(f"the queue {expected} again", is_expected)

        usual, larger = "96×64 → 192×128", "96×64 → 384×256"
        upreel.wait_for(DROP_ZONE)
        upreel.drop(films)
        comes_back([(name, usual) for name in names])
        upreel.choose("b.mp4")
        upreel.press("×4")
        comes_back([("a.mp4", usual), ("b.mp4", larger), ("c.mp4", usual)])
        upreel.choose("c.mp4")
        screen.key("ctrl+Up", "ctrl+Up")
        comes_back([("c.mp4", usual), ("a.mp4", usual), ("b.mp4", larger)])
        upreel.choose("a.mp4")
        screen.key("Delete")
        comes_back([("c.mp4", usual), ("b.mp4", larger)])
        upreel.press(_START)
        upreel.wait_for_cards("both are done", lambda cards: all(c.is_done for c in cards), JOB_S)
        assert sorted(file.name for file in folder.glob("*x[24]*.mp4")) == ["b_x4.mp4", "c_x2.mp4"]
        assert not upreel.pieces
        upreel.close()


def interrupted_while_it_runs(folder: Path, end: str) -> None:
    """A job is ended while it is made, paused and checked; no finished piece is made twice."""
    film = make_film(folder / "long.mp4", "480x270", 8, sound=True)
    whole = folder / "uninterrupted.mp4"
    words = ("--set", "segment_seconds=0.5", "--set", "treatment=faithful")
    upscale(film, whole, "--model", "lite", *words)
    other = make_clip(folder / "other.mp4", frames=6)
    settings = _PIECES_OF_HALF_A_SECOND
    with Screen(folder / "screen") as screen, Upreel(screen, folder / "p", settings) as upreel:
        upreel.start()
        upreel.wait_for(DROP_ZONE)
        upreel.drop([film, other])
        upreel.wait_for_cards("both are read", lambda cards: _states(cards) == ["Queued"] * 2)
        upreel.press(_START)
        for count in (1, 3, 5):
            kept = until("pieces", lambda n=count: _at_least(upreel, n), JOB_S, shown=upreel.shown)
            if count == 3:
                screen.key("ctrl+p")
                upreel.wait_for_cards("paused", lambda cards: "Paused" in _states(cards)[0])
                kept = upreel.pieces
            getattr(upreel, end)()
            upreel.start()
            upreel.press(rf"Continue|{_START}")
            upreel.wait_for_cards(
                "it runs again", lambda cards: any(c.is_running for c in cards), JOB_S
            )
            assert kept.items() <= upreel.pieces.items(), "finished pieces were made again"
        cards = upreel.wait_for_cards(
            "both are done", lambda cards: len(cards) == 2 and all(c.is_done for c in cards), JOB_S
        )
        assert [card.film for card in cards] == ["long.mp4", "other.mp4"]
        result = folder / "long_x2.mp4"
        assert frame_hashes(result) == frame_hashes(whole)
        made = {file: file.stat().st_mtime_ns for file in folder.glob("*_x2.mp4")}
        assert len(made) == 2
        getattr(upreel, end)()
        upreel.start()
        upreel.drop([make_clip(folder / "new.mp4")])  # read once the engine has looked for old jobs
        upreel.wait_for_cards("the new film alone", lambda cards: _states(cards) == ["Queued"])
        assert {file: file.stat().st_mtime_ns for file in folder.glob("*_x2.mp4")} == made
        assert upreel.find("Continue") is None
        upreel.close()


def killed_while_it_is_finished(folder: Path) -> None:
    """Killed while pieces are joined, and again while the result is checked: no piece is lost."""
    film = make_film(folder / "film.mp4", "480x270", 3, sound=True)
    whole = folder / "uninterrupted.mp4"
    words = ("--set", "segment_seconds=0.5", "--set", "treatment=faithful")
    upscale(film, whole, "--model", "lite", *words)
    settings, result = _PIECES_OF_HALF_A_SECOND, folder / "film_x2.mp4"

    def part() -> Path | None:
        """The unfinished result, from where joining begins until the checks have passed."""
        return next(folder.glob("upreel-*.part.mp4"), None)

    def is_joined() -> bool:
        """Whether it is whole: MP4 has its index at its end, and then the checks begin."""
        made = part()
        return made is not None and b"moov" in made.read_bytes()

    with Screen(folder / "screen") as screen, Upreel(screen, folder / "p", settings) as upreel:
        upreel.start()
        upreel.wait_for(DROP_ZONE)
        upreel.drop([film])
        upreel.wait_for_cards("it is read", lambda cards: _states(cards) == ["Queued"])
        upreel.press(_START)
        until("joining", part, JOB_S, shown=upreel.shown, poll_s=0.005)
        upreel.kill()
        kept = upreel.pieces
        assert kept
        assert not result.exists()
        upreel.start()
        upreel.press(rf"Continue|{_START}")
        until("checking", is_joined, JOB_S, shown=upreel.shown, poll_s=0.005)
        upreel.kill()
        assert upreel.pieces == kept, "finished pieces were made again"
        assert not result.exists()
        upreel.start()
        upreel.press(rf"Continue|{_START}")
        upreel.wait_for_cards(
            "it is done", lambda cards: len(cards) == 1 and cards[0].is_done, JOB_S
        )
        assert frame_hashes(result) == frame_hashes(whole)
        assert not upreel.pieces
        assert part() is None
        upreel.close()


def _states(cards: list[Card]) -> list[str]:
    return [card.state for card in cards]


def _at_least(upreel: Upreel, count: int) -> dict[str, tuple[int, int]] | None:
    """Finished pieces, once there are so many."""
    pieces = upreel.pieces
    return pieces if len(pieces) >= count else None


JOURNEYS: dict[str, Journey] = {
    "first film, 1920x1080": first_film,
    "first film, 1366x768": partial(first_film, width=1366, height=768),
    "dropped files stay": dropped_files_stay,
    "fifty films": fifty_films,
    **{f"{end} while films wait": partial(interrupted_while_it_waits, end=end) for end in _ENDS},
    **{f"{end} while a film is made": partial(interrupted_while_it_runs, end=end) for end in _ENDS},
    "kill while a film is joined and checked": killed_while_it_is_finished,
    "two computers": two_computers,
}
