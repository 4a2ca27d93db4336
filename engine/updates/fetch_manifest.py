"""The description of the newest version from where it is published: two small files."""

from __future__ import annotations

import http.client
from urllib.parse import urljoin

from engine.core.control import Control
from engine.core.errors import UpdateUnreachable
from engine.downloads import http_client
from engine.downloads.transfer import host, reason
from engine.updates import manifest

_TIMEOUT_S = 10.0
_LOGIN = "Perhaps this network wants a login: open a web page, then try again."
_CHECK = "Check the connection, then try again."


def description(address: str, control: Control) -> tuple[bytes, bytes]:
    """The description and its signatures, as they came: nothing of them is trusted yet.

    Raises:
        UpdateUnreachable: Nobody answers there, or with something else.
        Cancelled: `control` said so.
    """
    content = _small(address, control)
    return content, _small(urljoin(address, manifest.SIGNATURE), control)


def _small(address: str, control: Control) -> bytes:
    """One small file, whole.

    Raises:
        UpdateUnreachable, Cancelled: As above.
    """
    control.check()
    try:
        with http_client.get(address, timeout_s=_TIMEOUT_S) as reply:
            if reply.status != http.HTTPStatus.OK:
                raise unreachable(address, f"it says {reply.status}")
            if reply.headers.get_content_type() == "text/html":
                raise unreachable(address, "it gave a web page instead", _LOGIN)
            found = bytearray()
            while piece := reply.read():
                control.check()
                found += piece
                if len(found) > manifest.MOST_BYTES:
                    raise unreachable(address, "it gave far more than a description has")
            if len(found) < reply.content_bytes:
                raise unreachable(address, "the connection was cut")
            return bytes(found)
    except (OSError, http.client.HTTPException, http_client.Refused) as err:
        raise unreachable(address, reason(err)) from err


def unreachable(address: str, why: str, hint: str = _CHECK) -> UpdateUnreachable:
    """Nothing was got there."""
    return UpdateUnreachable(
        f"{host(address)} does not tell which version is the newest: {why}.",
        hint=hint,
        host=host(address),
        why=why,
    )
