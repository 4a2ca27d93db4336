import threading
import time
from types import SimpleNamespace

import pytest

from engine.core import control as control_module
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
    assert control.resumed == 1


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


def test_the_clock_of_the_work_stands_still_while_a_thread_waits(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(control_module, "awake_seconds", lambda: now[0])
    control = Control()
    begin = control.work_seconds()
    control.pause()
    now[0] += 20  # a clip that was under way
    assert control.work_seconds() - begin == 20
    assert not control.resumes_within(0)
    now[0] += 3600
    assert not control.resumes_within(0)
    assert control.work_seconds() - begin == 20
    control.resume()
    now[0] += 5
    assert control.work_seconds() - begin == 25
    control.pause()
    control.resume()  # before anything waited
    assert control.work_seconds() - begin == 25
    assert control.resumed == 2


def test_the_clock_of_the_work_is_that_of_windows_without_sleep():
    def query(ticks):
        ticks._obj.value = 12_345_678

    kernel = SimpleNamespace(QueryUnbiasedInterruptTime=query)
    assert control_module._unbiased_seconds(kernel) == 1.2345678


def test_a_pause_is_waited_for_as_long_as_asked():
    control = Control()
    assert control.resumes_within(0)
    control.pause()
    assert not control.resumes_within(0.01)
    threading.Timer(0.02, control.resume).start()
    assert control.resumes_within(2)
