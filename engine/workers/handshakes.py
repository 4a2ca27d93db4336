"""Who may connect to a scheduler: limits for those that have shown no certificate yet, and trust.

Dask takes as many as come and waits for each without an end, even for one that has closed: a
stranger could use up the files and the memory of this process. Here its listener of TLS has a time
and a number, and whom it trusts can change while it listens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from distributed import Scheduler
from distributed.comm.registry import backends
from distributed.comm.tcp import TLS, TLSBackend, TLSListener
from distributed.security import Security

logger = logging.getLogger(__name__)

_LONGEST_S = 10.0  # of a handshake: some round trips
_MOST = 64  # at once; an honest computer whose connection is closed tries again


class _BoundedListener(TLSListener):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        listener: Any = super()
        listener.__init__(*args, **kwargs)
        self._begun: set[Any] = set()  # streams

    async def _prepare_stream(self, stream: Any, address: str) -> Any:
        """The stream once the handshake is done; None, closed, where it is not."""
        self._begun = {one for one in self._begun if not one.closed()}
        if len(self._begun) >= _MOST:
            stream.close()
            return None
        self._begun.add(stream)
        try:
            listener: Any = super()
            return await asyncio.wait_for(listener._prepare_stream(stream, address), _LONGEST_S)
        except TimeoutError:  # also where it has closed meanwhile: nothing tells Dask of that
            logger.info("%s has not shown a certificate in time", address)
            stream.close()
            return None
        finally:
            self._begun.discard(stream)


class _BoundedTls(TLSBackend):
    _listener_class = _BoundedListener


def limit() -> None:
    """Let schedulers of this process that start from now on listen within the limits."""
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
