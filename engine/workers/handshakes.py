"""Who may connect to a listener of Dask: limits for those without a certificate yet, and trust.

Dask takes as many as come and waits for each without an end, even for one that has closed: a
stranger could use up the files and the memory of this process. Here its listeners of TLS have a
time and a number, in all and of each host, and whom they trust can change while they listen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from distributed import Scheduler
from distributed.comm.addressing import parse_host_port
from distributed.comm.registry import backends
from distributed.comm.tcp import TLS, TLSBackend, TLSListener
from distributed.security import Security

from engine.farm.addresses import plain
from engine.farm.guests import FIRST_BYTE_S, Guests

logger = logging.getLogger(__name__)

_LONGEST_S = 10.0  # of a handshake: some round trips
# At once: far fewer than Windows waits for in one call, and more than the devices of a computer
# begin in one round trip; an honest computer whose connection is closed tries again.
_MOST, _MOST_OF_ONE = 128, 64


class _BoundedListener(TLSListener):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        listener: Any = super()
        listener.__init__(*args, **kwargs)
        self._begun = Guests[Any](_MOST, _MOST_OF_ONE, _is_silent)  # streams

    async def _prepare_stream(self, stream: Any, address: str) -> Any:
        """The stream once the handshake is done; None, closed, where it is not."""
        listener: Any = super()
        handshake = asyncio.ensure_future(listener._prepare_stream(stream, address))
        stream.set_close_callback(handshake.cancel)  # nothing else tells Dask of that
        gone = self._begun.admit(stream, plain(parse_host_port(address)[0]))
        if gone is not None:
            gone.close()
        late = asyncio.get_running_loop().call_later(FIRST_BYTE_S, _close_silent, stream)
        try:
            await asyncio.wait((handshake,), timeout=_LONGEST_S)
            if handshake.done() and not handshake.cancelled() and not stream.closed():
                return handshake.result()
            logger.info("%s has not shown a certificate, or has gone", address)
            stream.close()
            return None
        finally:
            late.cancel()
            handshake.cancel()
            stream.set_close_callback(None)  # the next one to have it sets its own
            self._begun.leave(stream)


def _is_silent(stream: Any) -> bool:
    """Whether the first message of the handshake has not come, nor the end."""
    return stream.socket is not None and stream.socket.shared_ciphers() is None


def _close_silent(stream: Any) -> None:
    if _is_silent(stream):
        stream.close()


class _BoundedTls(TLSBackend):
    _listener_class = _BoundedListener


def limit() -> None:
    """Let this process listen within the limits from now on."""
    backends["tls"] = _BoundedTls()


def renew(scheduler: Scheduler, security: Security) -> None:
    """Trust the certificates that the files of `security` have now, in handshakes from now on."""
    about: Any = security
    context = about.get_listen_args("scheduler")["ssl_context"]
    listeners: list[Any] = scheduler.listeners
    for listener in listeners:
        if isinstance(listener, TLSListener):  # and not that of this process
            server: Any = listener.tcp_server
            server.ssl_options = context


def end(scheduler: Scheduler, ends: Callable[[TLS], bool]) -> None:
    """Close connections that others have made."""
    for comm in tuple(scheduler._comms):
        if isinstance(comm, TLS) and not comm.closed() and ends(comm):
            comm.abort()
