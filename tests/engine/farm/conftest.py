import pytest
import zeroconf

from tests.helpers.command_line import CommandLine


@pytest.fixture
def deaths(expected_log_errors: list[str]) -> None:
    """Dask logs workers that die and computers that go."""
    expected_log_errors += ["distributed.", "tornado."]


@pytest.fixture
def quick_announcements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens Zeroconf's waits: it sends each message three times, 20 ms apart."""
    for name in ("_CHECK_TIME", "_REGISTER_TIME", "_UNREGISTER_TIME"):
        monkeypatch.setattr(zeroconf._core, name, 20)


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)
