import pytest

from engine.workers.pending_connections import PendingConnections


@pytest.mark.parametrize(
    ("waiting", "comes", "gone"),
    [
        ("", "a1", None),
        ("a1 a2 b1", "b2", None),
        ("a1 a2 a3", "a4", "a1"),  # of its own host, the oldest
        ("A1 a2 a3", "a4", "a2"),  # one that has said nothing
        ("A1 A2 A3", "A4", "A1"),
        ("b1 a1 a2 b2 c1", "c2", "b1"),  # of all that have most, where there are too many in all
        ("c1 A1 a2 b1 b2", "d1", "a2"),
        ("c1 A1 A2 a3 b1", "b2", "a3"),
    ],
)
def test_a_new_guest_is_let_in_and_another_one_goes(
    waiting: str, comes: str, gone: str | None
) -> None:
    """The letter is the host, a capital one has spoken; 3 of a host and 5 in all may wait."""
    connections = PendingConnections[str](5, 3, str.islower)
    for guest in waiting.split():
        assert connections.admit(guest, guest[0].lower()) is None
    assert connections.admit(comes, comes[0].lower()) == gone
    assert connections.leave(comes)
    assert not connections.leave(comes)
    assert gone is None or not connections.leave(gone)
