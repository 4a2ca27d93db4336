"""Hostile replies of a server on this machine: to downloads of models, and of an update's text."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

from engine.core.control import Control
from engine.delivery.updates import description
from engine.files.model_files import download
from engine.files.transfer import Listener, RetryPolicy
from tests.helpers.servers import CONTENT, published, store_of
from tests.trials.faults.group import Group
from tests.trials.faults.outcomes import INCOMPLETE, Outcome, outcome_of

_BODY = CONTENT[:20_000]
_ADDRESSES = (
    *("http://[", "http://[::1", "//", "///", "http://", "https://", "?", "#", "\\\\x\\y"),
    *("http://[::1]:1/", "http://[fe80::1%25eth0]/", "http://[v1.x]/", "http://0x7f.1/"),
    *("https://xn--/", "https://xn--a-ecp.invalid/", "https://\u2603.invalid/"),
    *("http:x", "http://a\u0301.invalid/"),
    *("http://127.0.0.1:99999/", "http://127.0.0.1:-1/", "http://127.0.0.1:x/", "http://127.0.0.1:/"),
    *("file:///etc/passwd", "ftp://127.0.0.1/", "javascript:1", "data:,x"),
    "http://user:pw@127.0.0.1:1/",
    *("https://" + "a" * 70 + ".invalid/", "https://" + "a." * 200 + "invalid/"),
    "/" + "a" * 60_000,
    *("/%zz", "/%00", "/a b", "/\t", "/\x7f", "../..", "https://127.0.0.1:1/\u0000"),
)  # fmt: skip
_SIZES = (
    "-1",
    "0",
    "1",
    "20001",
    "9" * 5000,
    "1e9",
    "0x10",
    " 20000 ",
    "20000, 20000",
    "",
    "\u0661",
)
_SIZES += ("18446744073709551616", "+20000", "2_0", "NaN")
_STATUS = ("0", "99", "100", "101", "103", "199", "204", "205", "206", "226", "300", "304", "305")
_STATUS += (
    "399",
    "400",
    "401",
    "403",
    "404",
    "407",
    "410",
    "416",
    "418",
    "429",
    "451",
    "500",
    "503",
)
_STATUS += ("599", "600", "999", "9" * 100, "-1", "2OO", "")


def _text(head: str, body: bytes = _BODY) -> bytes:
    return head.replace("\n", "\r\n").encode("utf-8", "surrogatepass") + b"\r\n" + body


def _status_line(rng: Random) -> bytes:
    version = rng.choice(("HTTP/1.1", "HTTP/1.0", "HTTP/2", "HTTP/9.9", "http/1.1", "ICY", ""))
    length = f"Content-Length: {len(_BODY)}\n"
    return _text(f"{version} {rng.choice(_STATUS)} {'x' * rng.choice((0, 2, 70_000))}\n{length}")


def _redirect(rng: Random) -> bytes:
    address = rng.choice(_ADDRESSES)
    if rng.randrange(3) == 0:
        address = address[: rng.randrange(len(address) + 1)] + chr(rng.randrange(1, 0x2FF))
    address = address.replace("\n", "").replace("\r", "")
    status = rng.choice((301, 302, 303, 307, 308))
    again = f"Location: {rng.choice(_ADDRESSES)}\n" if rng.randrange(8) == 0 else ""
    return _text(f"HTTP/1.1 {status} x\nContent-Length: 0\nLocation: {address}\n{again}", b"")


def _length(rng: Random) -> bytes:
    again = f"Content-Length: {rng.choice(_SIZES)}\n" if rng.randrange(4) == 0 else ""
    return _text(f"HTTP/1.1 200 OK\nContent-Length: {rng.choice(_SIZES)}\n{again}")


def _range(rng: Random) -> bytes:
    at = [rng.choice((*_SIZES, "*", "5")) for _ in range(3)]
    unit = rng.choice(("bytes", "bytes", "byte", ""))
    head = f"HTTP/1.1 {rng.choice((200, 206, 416))} x\nContent-Length: {len(_BODY)}\n"
    return _text(f"{head}Content-Range: {unit} {at[0]}-{at[1]}/{at[2]}\n")


def _chunks(rng: Random) -> bytes:
    sizes = ("0", "1", "-1", "4e20", "zz", "", "f" * 40, "1;a=b", "4e20\x00", "1" * 70_000)
    parts = b"".join(
        rng.choice(sizes).encode() + b"\r\n" + _BODY + b"\r\n" for _ in range(rng.randrange(1, 4))
    )
    end = rng.choice((b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b""))
    return _text("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n", parts + end)


def _headers(rng: Random) -> bytes:
    lines = (
        *("X: " + "y" * 70_000, "X" * 70_000 + ": y", ": y", "no colon", "X\x00: y", " y"),
        *("Content-Encoding: gzip", "Content-Encoding: br, zstd", "Content-Type: text/html"),
        *("Transfer-Encoding: gzip, chunked", "Retry-After: " + "9" * 5000, "Retry-After: \u0661"),
        *("X-Linked-Size: " + rng.choice(_SIZES), "X-Linked-Etag: " + '"' * 500, "X: \x00\ud800"),
        *("Set-Cookie: " + "a=b; " * 2000, "Connection: upgrade", "Upgrade: h2c", "X: y\n" * 5000),
    )  # fmt: skip
    chosen = "".join(f"{rng.choice(lines)}\n" for _ in range(rng.randrange(1, 4)))
    return _text(f"HTTP/1.1 200 OK\nContent-Length: {len(_BODY)}\n{chosen}")


def _bytes(rng: Random) -> bytes:
    data = bytearray(_text(f"HTTP/1.1 200 OK\nContent-Length: {len(_BODY)}\nX: y\n"))
    for _ in range(rng.choice((1, 3, 20))):
        data[rng.randrange(60)] = rng.randrange(256)
    return bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])


REPLIES: dict[str, Callable[[Random], bytes]] = {
    "status": _status_line,
    "redirect": _redirect,
    "length": _length,
    "range": _range,
    "chunks": _chunks,
    "headers": _headers,
    "bytes": _bytes,
}
_LISTENER = Listener(
    retry=RetryPolicy(first_tries=1, tries=2, timeout_s=0.5, first_wait_s=0.01, slow_s=2.0)
)


class Replies(Group):
    """A reply of each kind in turn, to a download or to a request for a small text."""

    name = "http"
    rows = tuple(REPLIES)
    usual = 3_000

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        _stay_here()
        self._reply = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._file = published(_BODY)
        threading.Thread(target=self._answer, daemon=True).start()

    def run(self, number: int) -> Outcome:
        """Ask once; what has the final name afterwards must be the right file."""
        rng = self.chances(number)
        self._reply = REPLIES[self.row(number)](rng)
        if rng.randrange(4) == 0:
            return outcome_of(lambda: description(f"{self._url}/update.json", Control()))
        models = self.folder / "models"
        shutil.rmtree(models, ignore_errors=True)
        store = store_of(models, None, self._file)
        store.catalogue.hosts["loopback"] = f"{self._url}/{{filename}}"
        if rng.randrange(2):
            store.part(self._file.filename).parent.mkdir(parents=True, exist_ok=True)
            store.part(self._file.filename).write_bytes(_BODY[:100])
        outcome = outcome_of(lambda: download(self._file, store, _LISTENER))
        target = store.target(self._file.filename)
        if target.exists() and target.read_bytes() != _BODY:
            return Outcome(INCOMPLETE)
        return outcome

    def _answer(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(2)
                connection.recv(65536)
                connection.sendall(self._reply)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass


def _stay_here() -> None:
    """Let this process reach loopback addresses only: redirects lead anywhere."""
    real = socket.getaddrinfo

    def getaddrinfo(host: object, *rest: object, **named: object) -> object:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if not name.startswith("127.") and name not in ("::1", "localhost"):
            raise socket.gaierror(socket.EAI_NONAME, "not on this machine")
        return real(host, *rest, **named)

    socket.getaddrinfo = getaddrinfo
