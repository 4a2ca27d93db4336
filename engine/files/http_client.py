"""GET requests over HTTP with httpx and the system's certificates; a cancel ends any wait.

httpx opens the connection, speaks TLS and to the proxy, and makes the request that a redirect asks
for. It runs on an event loop of its own: only there can a wait for a name, a handshake or a byte be
cancelled on every system. httpx and asyncio are imported with the first request.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
import ssl
import urllib.request
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

from engine.core.control import Control
from engine.core.errors import Cancelled
from engine.core.messages import message

if TYPE_CHECKING:
    import asyncio

    import httpx

T = TypeVar("T")

_CANCEL_CHECK_S = 0.1
_MAX_REDIRECTS = 8
_MOST_DIGITS = 20  # of a size in bytes


class HttpError(Exception):
    """A request that failed. Another try may succeed.

    Attributes:
        why: A clause of a sentence, from `reason.transfer` of the catalogue.
    """

    def __init__(self, case: str, /, **params: object) -> None:
        self.why = message(f"reason.transfer.{case}", **params)
        super().__init__(str(self.why))


class PermanentHttpError(HttpError):
    """A request that fails each time: untrusted certificate, unsafe or endless redirect."""


def is_safe(address: str) -> bool:
    """True for https, and for http on this very machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    return (parts.scheme == "https" and bool(host)) or (parts.scheme == "http" and _is_local(host))


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def get(
    url: str, *, begin: int = 0, timeout_s: float = 30.0, control: Control | None = None
) -> Reply:
    """Request a file from byte `begin` on and follow redirects.

    A name and password in the address are sent to that server only, never to another one.

    Args:
        url: http or https.
        begin: First byte; the server may ignore it.
        timeout_s: Longest silence while connecting, before the answer, between two pieces.
        control: Ends any wait when cancelled, within 0.1 s.

    Raises:
        HttpError: The server cannot be reached, or fell silent.
        PermanentHttpError: Its certificate is not trusted, or a redirect cannot be followed.
        Cancelled: The control was cancelled.
    """
    reply = Reply(timeout_s, control or Control())
    try:
        reply.open(url, begin)
    except BaseException:
        reply.close()
        raise
    return reply


class Reply:
    """Answer to a request; the connection that its content comes through stays open.

    Attributes:
        url: Address after all redirects, without name and password.
        status: HTTP status.
        announced_sha256, announced_bytes: SHA-256 and size that a model hub announces while it
            redirects to another server; "" and 0 where it announces none.
    """

    url: str
    status: int

    def __init__(self, timeout_s: float, control: Control) -> None:
        import asyncio

        import truststore

        for name in ("httpx", "httpcore"):  # they log addresses, and so passwords and signatures
            logging.getLogger(name).setLevel(logging.WARNING)
        self.announced_sha256, self.announced_bytes = "", 0
        self._timeout_s = timeout_s
        self._control = control
        self._certificates = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client: httpx.AsyncClient | None = None
        self._content: AsyncIterator[bytes]
        # Only sockets are waited for: the selector loop does that on every system.
        self._loop: asyncio.AbstractEventLoop = asyncio.SelectorEventLoop()
        self._task: asyncio.Task[Any] | None = None
        self._check: asyncio.Handle = self._loop.call_soon(self._check_control)

    # --- the answer

    def header(self, name: str) -> str:
        """Value of a header; "" where it is missing."""
        return str(self._headers.get(name, "")).strip()

    @property
    def is_web_page(self) -> bool:
        """True for HTML: the page of a login or an error in place of a file."""
        return self.header("Content-Type").partition(";")[0].strip().lower() == "text/html"

    @property
    def content_bytes(self) -> int:
        """Size of this answer's content; 0 while unknown."""
        return _number(self.header("Content-Length"))

    @property
    def content_range(self) -> tuple[int | None, int]:
        """First byte and size of the whole file by "Content-Range"; None and 0 while unknown."""
        found = re.fullmatch(r"bytes (?:(\d{1,20})-\d+|\*)/(\d+|\*)", self.header("Content-Range"))
        if found is None:
            return None, 0
        begin, whole = found.groups()
        return (int(begin) if begin else None), _number(whole)

    def read(self) -> bytes:
        """The next piece of the content, at most 64 kB; b"" at its end.

        Raises:
            HttpError: The connection was cut, or no byte came within the timeout.
            Cancelled: The control was cancelled, also while waiting.
        """
        return self._run(self._next())

    def read_whole(self, most_bytes: int) -> bytes:
        """The whole content of a small file.

        Raises:
            HttpError: As `read`; the status is not 200, or there are more bytes than that.
            Cancelled: As `read`.
        """
        if self.status != 200:
            raise HttpError("status", status=self.status)
        found = bytearray()
        while piece := self.read():
            found += piece
            if len(found) > most_bytes:
                raise HttpError("too-long")
        return bytes(found)

    def close(self) -> None:
        """Close the connection; a second call has no effect."""
        if self._loop.is_closed():
            return
        self._check.cancel()
        if self._client is not None:
            self._loop.run_until_complete(self._client.aclose())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the request

    def open(self, url: str, begin: int) -> None:
        """Send the request; see `get`."""
        import httpx

        try:
            address = _checked(httpx.URL(url))
        except (httpx.InvalidURL, ValueError) as err:
            raise PermanentHttpError("no-address", address=url.rpartition("@")[2]) from err
        auth = None
        if address.userinfo:
            auth = httpx.BasicAuth(unquote(address.username), unquote(address.password))
        headers = {"User-Agent": "Upreel", "Accept-Encoding": "identity"}
        if begin:
            headers["Range"] = f"bytes={begin}-"
        request = httpx.Request("GET", address.copy_with(userinfo=b""), headers=headers)
        self._run(self._follow(request, auth))

    async def _follow(self, request: httpx.Request, auth: httpx.Auth | None) -> None:
        """Send the request and those of redirects; httpx drops credentials for other servers."""
        for _ in range(_MAX_REDIRECTS):
            response = await self._send(request, auth)
            self.url, self.status = str(response.url), response.status_code
            self._headers = response.headers
            digest = self.header("X-Linked-Etag").strip('"').lower()
            if re.fullmatch(r"[0-9a-f]{64}", digest):
                self.announced_sha256 = self.announced_sha256 or digest
            size = _number(self.header("X-Linked-Size").strip('"'))
            self.announced_bytes = self.announced_bytes or size
            following = response.next_request
            if following is None:
                self._content = response.aiter_raw()
                return
            await response.aclose()
            _checked(following.url)
            if request.url.scheme == "https" and following.url.scheme != "https":
                raise PermanentHttpError("not-encrypted", host=request.url.host)
            request, auth = following, None
        raise PermanentHttpError("endless", host=request.url.host)

    async def _send(self, request: httpx.Request, auth: httpx.Auth | None) -> httpx.Response:
        """Answer to one request; each server of a redirect may need another proxy."""
        import httpx

        if request.url.scheme not in ("http", "https"):
            raise PermanentHttpError("no-address", address=f"{request.url.scheme or 'nothing'}://")
        if self._client is not None:
            await self._client.aclose()
        self._client = httpx.AsyncClient(
            verify=self._certificates,
            proxy=self._proxy(request.url),
            timeout=self._timeout_s,
            trust_env=False,
        )
        return await self._client.send(request, stream=True, auth=auth)

    def _proxy(self, url: httpx.URL) -> httpx.Proxy | None:
        """Proxy by environment and system; None where they name none, or an exception."""
        import httpx

        named = urllib.request.getproxies().get(url.scheme)
        if not named or urllib.request.proxy_bypass(url.host):
            return None
        try:
            proxy = httpx.Proxy(named if "//" in named else f"http://{named}")
            if proxy.url.scheme not in ("http", "https"):
                raise ValueError("SOCKS needs another package")
        except (ValueError, httpx.InvalidURL) as err:
            kind = named.partition(":")[0]
            raise PermanentHttpError("failed", why=f"cannot use a proxy at {kind}://") from err
        if proxy.url.scheme == "https":
            proxy.ssl_context = self._certificates
        return proxy

    async def _next(self) -> bytes:
        return await anext(self._content, b"")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Result of `work`; errors of httpx become an HttpError."""
        import asyncio

        import httpx

        task = self._loop.create_task(work)
        self._task = task
        try:
            return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            raise Cancelled from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ExceptionGroup) as err:
            raise _translated(err) from err

    def _check_control(self) -> None:
        """Cancel what the loop waits for once the control is cancelled."""
        if self._control.is_cancelled and self._task is not None:
            self._task.cancel()
        self._check = self._loop.call_later(_CANCEL_CHECK_S, self._check_control)


def _number(text: str) -> int:
    """A header's number; 0 where it is none, or none that a file can have."""
    return int(text) if text.isdecimal() and len(text) < _MOST_DIGITS else 0


def _checked(address: httpx.URL) -> httpx.URL:
    """Returns the address; raises ValueError where its name (IDNA) or its port is impossible.

    httpx finds neither before it connects.
    """
    if address.host and not 0 < (address.port or 80) < 2**16:
        raise ValueError("no port")
    return address


def _translated(error: Exception) -> HttpError:
    """Why a request failed."""
    import httpx

    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError(verify_message=str(text)):
                return PermanentHttpError("untrusted", why=text)
            case TimeoutError() | httpx.TimeoutException():
                return HttpError("silent")
            case socket.gaierror():
                return HttpError("unknown-name")
            case ConnectionRefusedError():
                return HttpError("not-listening")
            case httpx.InvalidURL() | ValueError():
                return PermanentHttpError("redirect-no-address")
            case httpx.RemoteProtocolError() if str(cause).startswith("Invalid URL"):
                return PermanentHttpError("redirect-no-address")
            case httpx.RemoteProtocolError() if "peer closed connection" in str(cause):
                return HttpError("cut")
            case OSError(strerror=str(text), errno=int()) if text:
                return HttpError("failed", why=text)
    return HttpError("failed", why=type(error).__name__)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what caused it; of several addresses that were tried, the first one's."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        else:
            error = error.__cause__ or error.__context__
