from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.helpers.command_line import CommandLine


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> Iterator[CommandLine]:
    root = logging.getLogger()
    before = list(root.handlers), root.level
    yield CommandLine(capsys)
    for handler in set(root.handlers) - set(before[0]):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(before[1])
