import pytest

from engine.farm.endpoint import joined, own_addresses, split
from engine.workers.pending_connections import network_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("studio", ("studio", 5)),
        (" studio.local:47112 ", ("studio.local", 47112)),
        ("192.168.1.20:1", ("192.168.1.20", 1)),
        ("::1", ("::1", 5)),
        ("[fe80::1]:65535", ("fe80::1", 65535)),
        ("[::1]", ("::1", 5)),
    ],
)
def test_an_address_has_a_host_and_perhaps_a_port(text: str, found: tuple[str, int]) -> None:
    assert split(text, 5) == found
    assert split(joined(*found), 6) == found


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.168.1.20", "192.168.1.20"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("studio", "studio"),
    ],
)
def test_addresses_that_one_computer_can_have_are_of_one_network(host: str, network: str) -> None:
    assert network_of(host) == network


def test_own_addresses_are_those_that_others_can_reach() -> None:
    assert not [text for text in own_addresses() if text.startswith(("127.", "169.254."))]
