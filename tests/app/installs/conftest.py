"""The bar over the window and the page of runtimes, on a machine with a card."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtWidgets import QPushButton, QWidget

from engine.core.errors import ErrorInfo
from engine.protocol import commands, events
from tests.app.conftest import Bench, part, texts
from tests.helpers.fake_states import make_listed, make_older, make_runtime
from tests.helpers.fake_tasks import RUNTIME


class Over:
    """The bar over a window."""

    def __init__(self, bench: Bench) -> None:
        self.program, self.patch = bench.program, bench.patch
        self.hear, self.asked = bench.hear, bench.asked
        self.engine = bench.engine.tasks
        self.link, self.card = bench.program.runtime, bench.program.runtime.card
        self.say()

    def say(self, listed: events.RuntimesListed | None = None) -> None:
        self.engine.runtimes = listed or make_listed()
        self.engine.list(RUNTIME)
        self.hear()

    def put(self, **changes: Any) -> None:
        self.say(make_listed(make_runtime(**changes), make_older()))

    def advance(self, megabytes: float, **about: float) -> None:
        self.engine.advance(RUNTIME, megabytes, **about)
        self.hear()

    def fail(self, error: ErrorInfo) -> None:
        self.engine.fail(RUNTIME, error)
        self.hear()

    def texts(self, parent: QWidget | None = None) -> str:
        return re.sub("\n+", "\n", texts(parent or self.card)).strip("\n")

    def offered(self) -> list[str]:
        buttons = self.card.findChildren(QPushButton)
        return [b.objectName().removeprefix("runtime-") for b in buttons if b.isVisible()]

    def press(self, name: str) -> None:
        button = part(self.card, f"runtime-{name}")
        assert button.isVisible(), (name, self.offered())
        button.click()
        self.hear()

    def runtimes(self, kind: type[commands.Command]) -> list[str]:
        """The runtimes that commands of this class are about."""
        return [command.runtime for command in self.asked(kind)]

    def answer(self, yes: bool, do: Callable[[], None]) -> list[str]:
        """Answer every question of an action; what was asked."""
        questions: list[str] = []

        def is_confirmed(_: object, text: str, details: str = "", **__: str) -> bool:
            questions.append(f"{text} {details}")
            return yes

        self.patch.setattr("app.controllers.runtimes.is_confirmed", is_confirmed)
        do()
        self.hear()
        return questions


@pytest.fixture
def over(bench: Bench, two_presses: None) -> Over:
    return Over(bench)
