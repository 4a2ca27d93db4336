import sys

from PySide6.QtCore import QObject


def test_calls_that_return_none_do_not_use_none_up():
    """PySide6 6.12.0 on Python 3.11 does: after some minutes the program aborts."""
    before = sys.getrefcount(None)
    thing = QObject()
    for _ in range(1000):
        thing.setObjectName("a")
    assert sys.getrefcount(None) > before - 500
