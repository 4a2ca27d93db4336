"""One GET over HTTP: redirects, proxies, ranges and credentials; what it means is for others.

The standard library is enough: what a file of 16 GB needs beyond one request (going on after a
cut, a hash, a lock) no client brings in the way that we want it.
"""

from __future__ import annotations

import base64
import http.client
import io
import re
import socket
import ssl
import time
import urllib.request
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Self
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

PIECE_BYTES = 2**20  # most of one read
_LOOK_S = 0.1  # how often a read that waits looks whether it still has to
_MOST_REDIRECTS = 8
_REDIRECTS = (301, 302, 303, 307, 308)


class Refused(Exception):
    """An answer that we do not follow: a strange or unsafe redirect, or too many of them."""


class _Wire(io.RawIOBase):
    """What a socket receives, for readers that may be told to stop waiting.

    A socket that is shut down wakes the thread that reads it under Linux, but not everywhere.
    """

    def __init__(self, inner: io.RawIOBase, wire: socket.socket) -> None:
        """`inner` keeps the socket open until it is closed."""
        self.is_over = False
        self.silence_s = 0.0  # 0: as long as the socket itself waits
        self._inner, self._socket = inner, wire

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Receive what there is.

        Raises:
            TimeoutError: It fell silent.
            ConnectionAbortedError: It is over.
        """
        end = time.monotonic() + self.silence_s
        if self.silence_s:
            self._socket.settimeout(_LOOK_S)
        while not self.is_over:
            try:
                return self._socket.recv_into(buffer)
            except TimeoutError:
                if time.monotonic() >= end:
                    raise
        raise ConnectionAbortedError("nobody waits for more")

    def close(self) -> None:
        """Let the socket go."""
        super().close()
        self._inner.close()


class _Response(http.client.HTTPResponse):
    """An answer whose content comes through a `_Wire`."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        buffered: Any = self.fp
        self.wire = _Wire(buffered.detach(), sock)
        self.fp = io.BufferedReader(self.wire)


@dataclass(slots=True, kw_only=True)
class Reply:
    """The answer to a request, and the connection that its content comes through.

    `announced_sha256` and `announced_bytes` are what a hub says of a large file on its way to
    another server ("" and 0 where it says nothing).
    """

    url: str
    status: int
    headers: Message
    announced_sha256: str = ""
    announced_bytes: int = 0
    _response: _Response = field(repr=False)
    _connection: http.client.HTTPConnection = field(repr=False)

    @property
    def content_bytes(self) -> int:
        """Bytes of this answer's content; 0 while unknown."""
        text = self.headers.get("Content-Length") or ""
        return int(text) if text.isdecimal() else 0

    @property
    def content_range(self) -> tuple[int | None, int]:
        """First byte and size of the whole as "Content-Range" says; None and 0 while unknown."""
        text = self.headers.get("Content-Range") or ""
        found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", text.strip())
        if found is None:
            return None, 0
        begin, whole = found.groups()
        return (int(begin) if begin else None), (int(whole) if whole != "*" else 0)

    def read(self) -> bytes:
        """The next piece, what came with one look at the socket; empty at the end or at a cut."""
        return self._response.read1(PIECE_BYTES)

    def abort(self) -> None:
        """End a `read` that waits in another thread; nothing can be read afterwards."""
        self._response.wire.is_over = True

    def close(self) -> None:
        """Let the connection go."""
        self._response.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def get(url: str, *, begin: int = 0, timeout_s: float = 30.0) -> Reply:
    """Ask for a file from byte `begin` on, wherever its address leads.

    A name and password in the address are sent to that server only, never on to another one.

    Raises:
        OSError, http.client.HTTPException: No way to the server, or it fell silent.
        Refused: It sends us on in a circle, or to something that is no web server.
    """
    authorization = _authorization(urlsplit(url))
    announced: dict[str, str] = {}
    for _ in range(_MOST_REDIRECTS):
        parts = urlsplit(url)
        reply = _ask(parts, _headers(begin, authorization), timeout_s)
        for name in ("x-linked-etag", "x-linked-size"):
            said = (reply.headers.get(name) or "").strip('"')
            announced[name] = announced.get(name) or said
        location = reply.headers.get("Location")
        if reply.status not in _REDIRECTS or not location:
            return _with(reply, announced)
        reply.close()
        url = urljoin(url, location)
        if _origin(urlsplit(url)) != _origin(parts):
            authorization = ""
        if parts.scheme == "https" and urlsplit(url).scheme != "https":
            raise Refused(f"{parts.hostname} leads to a place that is not encrypted")
    raise Refused(f"{urlsplit(url).hostname} leads in a circle")


def _with(reply: Reply, announced: dict[str, str]) -> Reply:
    digest, size = announced["x-linked-etag"].lower(), announced["x-linked-size"]
    reply.announced_sha256 = digest if re.fullmatch(r"[0-9a-f]{64}", digest) else ""
    reply.announced_bytes = int(size) if size.isdecimal() else 0
    return reply


def _ask(parts: SplitResult, headers: dict[str, str], timeout_s: float) -> Reply:
    try:
        connection, target, more = _connection(parts, timeout_s)
    except ValueError as err:  # a port that is no number
        raise Refused(f"{_place(parts)} is no address on the web") from err
    connection.response_class = _Response
    try:
        connection.connect()
        connection.request("GET", target, headers=headers | more)
        response: Any = connection.getresponse()
    except BaseException:
        connection.close()
        raise
    response.wire.silence_s = timeout_s
    return Reply(
        url=parts.geturl(),
        status=response.status,
        headers=response.headers,
        _response=response,
        _connection=connection,
    )


def _connection(
    parts: SplitResult, timeout_s: float
) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
    """A connection that is not open yet, what to ask it for, and what its proxy wants to hear."""
    host, port = parts.hostname, parts.port
    if parts.scheme not in ("http", "https") or not host:
        raise Refused(f"{parts.scheme or 'nothing'}:// is no address on the web")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    proxy = _proxy(parts.scheme, host)
    near = (proxy.hostname or "", proxy.port) if proxy else (host, port)
    words = _proxy_headers(proxy) if proxy else {}
    if parts.scheme == "https":
        context = ssl.create_default_context()
        secure = http.client.HTTPSConnection(*near, timeout=timeout_s, context=context)
        if proxy:
            secure.set_tunnel(host, port or 443, headers=words)
        return secure, target, {}
    whole = f"http://{_place(parts)}{target}" if proxy else target
    return http.client.HTTPConnection(*near, timeout=timeout_s), whole, words


def _proxy(scheme: str, host: str) -> SplitResult | None:
    named = urllib.request.getproxies().get(scheme)
    if not named or urllib.request.proxy_bypass(host):
        return None
    return urlsplit(named if "//" in named else f"//{named}")


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    authorization = _authorization(proxy)
    return {"Proxy-Authorization": authorization} if authorization else {}


def _headers(begin: int, authorization: str) -> dict[str, str]:
    headers = {"User-Agent": "Upreel", "Accept-Encoding": "identity"}
    if begin:
        headers["Range"] = f"bytes={begin}-"
    if authorization:
        headers["Authorization"] = authorization
    return headers


def _authorization(parts: SplitResult) -> str:
    if not parts.username:
        return ""
    words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(words.encode()).decode()


def _origin(parts: SplitResult) -> tuple[str, str]:
    return parts.scheme, _place(parts).lower()


def _place(parts: SplitResult) -> str:
    """Server and port as written, without a name and password."""
    return parts.netloc.rpartition("@")[2]
