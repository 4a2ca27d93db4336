import pytest

from tests.helpers.command_line import CommandLine


@pytest.fixture
def deaths(expected_log_errors: list[str]) -> None:
    """Dask logs workers that die and computers that go."""
    expected_log_errors += ["distributed.", "tornado."]


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)
