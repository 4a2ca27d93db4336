import pytest


@pytest.fixture
def deaths(expected_log_errors: list[str]) -> None:
    """Dask logs workers that die and machines that go."""
    expected_log_errors += ["distributed.", "tornado."]
