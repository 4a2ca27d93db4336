import gc
import logging
import socket
import ssl
import sys
import threading
import time
from pathlib import Path

import pytest

from engine.core.control import Control
from engine.core.errors import Cancelled
from engine.files import http_client
from engine.files.http_client import HttpError, PermanentHttpError
from engine.files.transfer import host
from tests.helpers.certificates import signed_certificate
from tests.helpers.servers import CONTENT, PLACE, Fault, FaultyServer


def get(url: str, control: Control | None = None) -> bytes:
    with http_client.get(url, timeout_s=5.0, control=control) as reply:
        return b"".join(iter(reply.read, b""))


@pytest.fixture
def certificate(tmp_path: Path, server: FaultyServer) -> Path:
    """The server speaks TLS from now on; its certificate, which is not trusted yet."""
    path = signed_certificate(address="127.0.0.1").write(tmp_path)
    server.secure(path, path)
    return path


def test_an_untrusted_certificate_is_refused(server: FaultyServer, certificate: Path) -> None:
    with pytest.raises(PermanentHttpError, match="certificate is not trusted"):
        get(server.url + PLACE)
    assert server.asked == []


@pytest.mark.skipif(sys.platform == "win32", reason="only Windows' own store is trusted there")
def test_a_redirect_from_https_to_http_is_refused(
    server: FaultyServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert ssl.get_default_verify_paths().cafile == str(certificate)
    server.faults = [Fault(redirect="http://127.0.0.1:9/x")]
    with pytest.raises(PermanentHttpError, match="unencrypted"):
        get(server.url + PLACE)
    server.faults = [Fault(redirect="/elsewhere"), Fault(redirect=PLACE)]
    assert get(server.url + PLACE) == CONTENT


def test_the_system_proxy_is_used(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url.replace("//", "//me:word@"))
    monkeypatch.delenv("no_proxy", raising=False)
    server.files["http://models.invalid" + PLACE] = CONTENT
    assert get("http://models.invalid" + PLACE) == CONTENT
    ((_, headers),) = server.asked
    assert headers["Proxy-Authorization"] == "Basic bWU6d29yZA=="
    assert headers["Host"] == "models.invalid"
    assert "Authorization" not in headers
    for proxy in ("socks5://127.0.0.1:1080", "socks4://127.0.0.1:1080", "http://host:port"):
        monkeypatch.setenv("http_proxy", proxy)
        with pytest.raises(PermanentHttpError, match="cannot use a proxy"):
            get("http://models.invalid" + PLACE)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert get(server.url + PLACE) == CONTENT


def test_a_redirect_sends_no_password_to_another_server(server: FaultyServer) -> None:
    other = server.url.replace("127.0.0.1", "localhost")
    server.faults = [Fault(redirect="/elsewhere"), Fault(redirect=other + PLACE)]
    assert get(server.url.replace("//", "//me:secret%21@") + PLACE) == CONTENT
    sent = [headers.get("Authorization", "") for _, headers in server.asked]
    assert sent == ["Basic bWU6c2VjcmV0IQ==", "Basic bWU6c2VjcmV0IQ==", ""]


def test_addresses_are_not_logged(server: FaultyServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        get(server.url.replace("//", "//me:secret@") + PLACE + "?signature=secret")
    assert "secret" not in caplog.text


def test_what_a_hub_announces_on_the_way_is_kept(server: FaultyServer) -> None:
    announced = {"X-Linked-Etag": '"' + "Aa" * 32 + '"', "X-Linked-Size": "102400"}
    server.faults = [Fault(redirect="/moved"), Fault(redirect=PLACE, headers=announced)]
    with http_client.get(server.url + "/old") as reply:
        assert (reply.announced_sha256, reply.announced_bytes) == ("aa" * 32, 102400)
    server.faults = [Fault(headers={"X-Linked-Etag": "0" * 40, "X-Linked-Size": "many"})]
    with http_client.get(server.url + PLACE) as reply:
        assert (reply.announced_sha256, reply.announced_bytes) == ("", 0)


def test_content_ranges(server: FaultyServer) -> None:
    for header, means in {
        "bytes 5-9/10": (5, 10),
        "bytes 5-9/*": (5, 0),
        "bytes */10": (None, 10),
        "": (None, 0),
        "bytes five": (None, 0),
        "lines 1-2/3": (None, 0),
    }.items():
        server.always = Fault(headers={"Content-Range": header})
        with http_client.get(server.url + PLACE) as reply:
            assert reply.content_range == means, header
            assert reply.content_bytes == len(CONTENT)


ODD_ADDRESSES = (
    *("http://[::1", "http://[]/", "http://[::1]:99999/", "http://[v1.a]:1/", "http://[::1]]/"),
    *("http://xn--/", "http://xn--a-ecp.ru/", "http://xn--zckzah-.com/", "http://xn--0.pt/"),
    *("http://127.0.0.1:65536/", "http://127.0.0.1:-1/", "http://127.0.0.1:0/", "http://a:b/"),
    *("http:///x", "http://a b/", "//", "http://..:1/", "javascript:1", "file:///etc/passwd"),
    *(f"http://{'a' * 300}/", f"http://{'a.' * 200}/", "a" * 70_000),
)


@pytest.mark.parametrize("address", ODD_ADDRESSES, ids=lambda text: text[:25])
def test_odd_addresses_and_redirects_to_them_are_refused(
    server: FaultyServer, address: str
) -> None:
    server.always = Fault(redirect=address)
    with pytest.raises(HttpError):
        get(server.url + PLACE)
    with pytest.raises(HttpError):
        get(address)
    assert isinstance(host(address), str)


def test_sizes_of_thousands_of_digits_are_no_sizes(server: FaultyServer) -> None:
    digits = "9" * 5000
    for header in (f"bytes 0-1/{digits}", f"bytes {digits}-{digits}/5"):
        server.faults = [Fault(headers={"Content-Range": header, "X-Linked-Size": digits})]
        with http_client.get(server.url + PLACE) as reply:
            assert reply.content_range in ((0, 0), (None, 0))
            assert reply.announced_bytes == 0


def test_why_an_address_cannot_be_read() -> None:
    for url, why in {
        "ftp://127.0.0.1/x": "ftp:// is not a web address",
        "nothing": "nothing:// is not a web address",
        "http://127.0.0.1:port/x": "127.0.0.1:port/x is not a web address",
        "http://no-such-host.invalid/x": "address was not found",
        "http://127.0.0.1:9/x": "does not accept connections",
    }.items():
        with pytest.raises(HttpError, match=why):
            get(url)


def seconds_after_cancel(url: str) -> float:
    control = Control()
    times: list[float] = []

    def cancel() -> None:
        times.append(time.monotonic())
        control.cancel()

    threading.Timer(0.3, cancel).start()
    with pytest.raises(Cancelled), http_client.get(url, control=control) as reply:
        while reply.read():
            pass
    return time.monotonic() - times[0]


def test_a_cancel_ends_the_wait_for_an_answer_or_a_byte(server: FaultyServer) -> None:
    control = Control()
    control.cancel()
    with pytest.raises(Cancelled):
        get(server.url + PLACE, control)
    assert server.asked == [], "no request is sent"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for scheme in ("http", "https"):
            address = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/x"
            assert seconds_after_cancel(address) < 0.5
    # httpcore leaves the socket of a cancelled TLS handshake to the garbage collection; its warning
    # breaks what Python parses at that moment in a later test (python/cpython#106905).
    gc.collect()
    server.always = Fault(stall_after=1000)
    assert seconds_after_cancel(server.url + PLACE) < 0.5


def test_a_cancel_ends_the_wait_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: is_over.wait(20) and [])
    try:
        assert seconds_after_cancel("http://models.invalid/x") < 0.5
    finally:
        is_over.set()
