import threading
import time

import pytest

from engine.core.control import Control
from engine.core.errors import Cancelled


def test_a_paused_thread_waits_and_the_pause_is_counted():
    control = Control()
    passed = threading.Event()
    control.pause()
    thread = threading.Thread(target=lambda: (control.check(), passed.set()))
    thread.start()
    assert not passed.wait(0.05)
    control.resume()
    assert passed.wait(2)
    thread.join()
    assert 0.04 < control.paused_seconds < 2


def test_cancel_wakes_a_paused_thread():
    control = Control()
    control.pause()
    threading.Timer(0.02, control.cancel).start()
    begin = time.monotonic()
    with pytest.raises(Cancelled):
        control.check()
    assert time.monotonic() - begin < 2
    control.pause()
    assert not control.is_paused
