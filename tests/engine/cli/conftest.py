import pytest

from tests.helpers.command_line import CommandLine


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)
