from __future__ import annotations

import pytest

from app import labels


@pytest.mark.parametrize(
    ("seconds", "error", "text"),
    [
        (8, 0.2, "8 ± 1 s"),
        (45 * 60, 4 * 60, "45 ± 4 min"),
        (5400, 2900, "1.5 ± 0.8 h"),
        (911_880, 547_000, "253 ± 152 h"),
        (36_000, 3_000, "10 ± 1 h"),
        (8, 0, "8 s"),
    ],
)
def test_an_expected_time_has_as_many_digits_as_its_error_allows(
    seconds: float, error: float, text: str
) -> None:
    assert labels.about(seconds, error) == text
