import logging
from collections.abc import Iterator

import pytest

from tests.helpers.command_line import CommandLine


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Each command adds its log file to the root logger; the next test has none of it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)
