import time

import pytest

from engine.pipeline.stream import StreamAborted, Threads


def test_items_come_out_in_order_and_the_stream_ends():
    with Threads() as threads:
        stream = threads.stream(2, int)

        def produce() -> None:
            for number in range(20):
                stream.put(number)
            stream.close()

        threads.start("produce", produce)
        assert list(stream) == list(range(20))


def test_the_first_error_ends_all_threads_and_is_raised():
    with pytest.raises(KeyError, match="disk"), Threads() as threads:
        stream = threads.stream(1, int)

        def consume() -> None:
            next(iter(stream))
            raise KeyError("disk")

        threads.start("consume", consume)
        for number in range(10_000):
            stream.put(number)


def test_an_error_of_the_calling_thread_ends_waiting_threads():
    begin = time.monotonic()
    with pytest.raises(ValueError, match="mine"), Threads() as threads:
        stream = threads.stream(1, int)
        threads.start("wait", lambda: list(stream))
        raise ValueError("mine")
    assert time.monotonic() - begin < 5


def test_a_full_stream_of_an_aborted_group_does_not_wait():
    threads = Threads()
    stream = threads.stream(1, int)
    stream.put(1)
    threads.aborted.set()
    with pytest.raises(StreamAborted):
        stream.put(2)


def test_work_of_a_thread_is_counted_without_its_waits_for_streams():
    counted: dict[str, float] = {}

    def worked(name: str, seconds: float) -> None:
        counted[name] = counted.get(name, 0.0) + seconds

    begin = time.monotonic()
    with Threads(worked) as threads:
        stream = threads.stream(1, int)

        def produce() -> None:
            time.sleep(0.05)
            for number in range(3):
                stream.put(number)
            stream.close()

        def consume() -> None:
            for _ in stream:
                time.sleep(0.1)

        threads.start("produce", produce)
        threads.start("consume", consume)
    assert set(counted) == {"produce", "consume"}
    whole = time.monotonic() - begin
    assert 0.05 <= counted["produce"] <= whole - 0.2  # for two places in the stream
    assert 0.3 <= counted["consume"] <= whole - 0.05
