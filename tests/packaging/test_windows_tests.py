from __future__ import annotations

from tests.packaging import windows_tests
from tests.packaging.trial import ROOT


def test_the_listed_tests_exist() -> None:
    listed = [*windows_tests.FILES, *windows_tests.DESELECTED]
    assert [name for name in listed if not (ROOT / name.partition("::")[0]).exists()] == []
