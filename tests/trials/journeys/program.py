"""Upreel as a process of its own, with an empty profile, seen and used from outside."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from app.ui_state import UiState
from engine.settings.schema import JobSettings
from tests.helpers.program import ROOT
from tests.trials.journeys.screen import PATIENCE_S, Control, Screen, until

DROP_ZONE = "Drop videos, images or folders"
_OPENED = "opened.txt"
_CONTROLS = (  # roles of what a user operates
    *("push button", "check box", "radio button", "toggle button", "button menu", "combo box"),
    *("slider", "spin button", "text", "list", "list item", "menu item", "page tab"),
)
_OTHERS = ("frame", "dialog", "scroll pane", "graphic", "label")  # take keys and are no controls


@dataclass(frozen=True, slots=True)
class Card:
    """A card of the queue, as a screen reader tells it."""

    film: str
    sizes: str
    state: str
    control: Control

    @property
    def is_done(self) -> bool:
        """Whether its result is there."""
        return self.state.startswith("Done")

    @property
    def is_running(self) -> bool:
        """Whether it is worked on."""
        return self.state.startswith(("Preparing", "Upscaling", "Joining", "Verifying"))


class Upreel:
    """One profile; the program on it can be started again and again.

    Args:
        screen: Where it is shown.
        folder: Gets its profile and what the desktop was asked to open.
        settings: Choices that an earlier run is said to have left; None for an empty profile.
    """

    def __init__(self, screen: Screen, folder: Path, settings: JobSettings | None = None) -> None:
        self.screen, self.folder = screen, folder
        self._process: subprocess.Popen[bytes] | None = None
        self._data = folder / "data"
        self._data.mkdir(parents=True)
        self._launcher()
        if settings is not None:
            state = UiState(self._data / "window.ini")
            state.choices = settings
            state.save()

    def __enter__(self) -> Upreel:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()

    # Its process

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and wait until it shows its window."""
        bin_folder = self.folder / "bin"
        with (self.folder / "upreel.log").open("ab") as log:
            self._process = subprocess.Popen(
                (sys.executable, "main.py"),
                cwd=ROOT,
                env=self.screen.environment
                | {
                    "UPREEL_DATA": str(self._data),
                    "UPREEL_CACHE": str(self.folder / "cache"),
                    "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
                },
                stdout=log,
                stderr=log,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
            )
        self.wait_for("Add files")

    def close(self) -> None:
        """Close its window from the keyboard, and say that a running film can wait."""
        self.screen.key("alt+F4")
        until("the program to end", self._has_closed, shown=self.shown)
        assert self._process is not None
        assert self._process.returncode == 0, self.log

    def _has_closed(self) -> bool:
        answer = self.find("Close and continue later") if self.is_running else None
        if answer is not None:
            self.screen.click(answer.middle)
        return not self.is_running

    def kill(self) -> None:
        """End it as a power failure does."""
        self._end_by(signal.SIGKILL)

    def crash(self) -> None:
        """End it as a wrong access to memory does."""
        self._end_by(signal.SIGSEGV)

    def _end_by(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(PATIENCE_S)

    @property
    def log(self) -> str:
        """What it has printed so far, and what its libraries did when they crashed."""
        files = self.folder / "upreel.log", self._data / "logs" / "crash.log"
        return "\n".join(file.read_text("utf-8", "replace") for file in files if file.exists())

    # What it shows

    def controls(self) -> list[Control]:
        """All that it shows now.

        Raises:
            AssertionError: It has ended.
        """
        assert self._process is not None
        assert self.is_running, f"ended with {self._process.returncode}:\n{self.log}"
        return self.screen.controls(self._process.pid)

    def check_accessible(self) -> None:
        """Check that every control has a name, a role and a state for a screen reader.

        A control that is not shown as usable has a state too: it lacks "enabled".
        """
        controls = [
            one
            for one in self.controls()
            if one.role in _CONTROLS or ("focusable" in one.states and one.role not in _OTHERS)
        ]
        assert controls, self.log
        bad = [one for one in controls if not one.name or one.role not in _CONTROLS]
        bad += [
            one
            for one in controls
            if "showing" not in one.states
            or (one.role == "check box" and "checkable" not in one.states)
            or ("focused" in one.states and "enabled" not in one.states)
        ]
        assert not bad, f"without name, role or state for a screen reader: {bad}"

    def find(self, name: str, *, role: str = "") -> Control | None:
        """The first control whose whole name matches a regular expression."""
        for control in self.controls():
            is_wanted = re.fullmatch(name, control.name) and role in ("", control.role)
            if is_wanted and "showing" in control.states:
                return control
        return None

    def wait_for(self, name: str, *, role: str = "") -> Control:
        """That control, as soon as it is shown and can be used."""

        def usable() -> Control | None:
            found = self.find(name, role=role)
            return found if found is not None and "enabled" in found.states else None

        return until(f"{name} can be used", usable, shown=self.shown)

    def press(self, name: str, *, role: str = "") -> None:
        """Click a control."""
        self.screen.click(self.wait_for(name, role=role).middle)

    @property
    def cards(self) -> list[Card]:
        """The queue from top to bottom."""
        found: list[Card] = []
        depth = 0
        for control in self.controls():
            if control.role == "list" and control.name == "Queue":
                depth = control.depth
            elif depth and control.depth == depth + 1 and control.role == "list item":
                film, sizes, state = control.name.split(", ", 2)
                found.append(Card(film, sizes, state, control))
        return found

    def wait_for_cards(
        self, what: str, is_wanted: Callable[[list[Card]], object], patience_s: float = PATIENCE_S
    ) -> list[Card]:
        """The queue, as soon as it is as wanted."""

        def look() -> list[Card] | None:
            cards = self.cards
            return cards if is_wanted(cards) else None

        return until(what, look, patience_s, shown=self.shown)

    def shown(self) -> str:
        """What it shows, for messages."""
        if not self.is_running:
            return self.log
        return "\n".join(f"{c.role}: {c.name} {c.text}".rstrip() for c in self.controls() if c.name)

    # What a user does

    def drop(
        self, files: Sequence[Path], *, onto: str = "frame", action: str = "CopyAction"
    ) -> str:
        """Drop files into the middle of the window of a role; the action that it chose."""
        frame = next(control for control in self.controls() if control.role == onto)
        return self.screen.drop(files, frame.middle, action=action)

    def choose(self, film: str) -> None:
        """Select a film by a click on its card."""
        card = next(card for card in self.cards if card.film == film)
        self.screen.click(card.control.middle)

        def is_selected() -> bool:
            card = next((card for card in self.cards if card.film == film), None)
            return card is not None and "selected" in card.control.states

        until(f"{film} is selected", is_selected, shown=self.shown)

    def choose_in(self, name: str, row: str) -> None:
        """Scroll down to a setting, open its list, and type the text of one of its rows.

        Args:
            name: Of the setting; the name of a closed list is the row that it shows.
            row: Its text.
        """
        column = self.wait_for("More settings").middle

        def shown() -> Control | None:
            rest = dropwhile(lambda control: control.name != name, self.controls())
            closed = next((control for control in rest if control.role == "combo box"), None)
            if closed is None:
                self.screen.scroll(column, steps=3)
            return closed

        self.screen.click(until(f"{name} is scrolled to", shown, shown=self.shown).middle)
        self.screen.type(row)
        self.screen.key("Return")

        def is_chosen() -> bool:
            closed = shown()
            return closed is not None and closed.name == row

        until(f"{name} is {row}", is_chosen, shown=self.shown)

    # What it leaves on the disk

    @property
    def pieces(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of each finished piece of film, by its path."""
        found = {}
        for record in (self._data / "jobs").glob("*/segment_*.json"):
            about = record.with_suffix(".mkv").stat()
            found[f"{record.parent.name}/{record.stem}"] = (about.st_size, about.st_mtime_ns)
        return found

    @property
    def lent(self) -> list[Path]:
        """What it has written for other computers."""
        return [path for path in (self.folder / "cache" / "lent").rglob("*") if path.is_file()]

    @property
    def opened(self) -> list[str]:
        """Addresses that it asked the desktop to open."""
        file = self.folder / _OPENED
        return file.read_text("utf-8").split() if file.exists() else []

    def _launcher(self) -> None:
        """An `xdg-open` that notes what it was asked for."""
        script = self.folder / "bin" / "xdg-open"
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >> "{self.folder / _OPENED}"\n', "utf-8")
        script.chmod(0o755)
