"""A newer version as a release publishes it: a small setup, its description, a throw-away key."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from tests.helpers.faulty_server import FaultyServer

NEWER = "99.1.0"
SETUP = bytes(range(256)) * 400  # 102,400 bytes


@dataclass
class Release:
    """What lies on a server, and whose key signed it."""

    server: FaultyServer
    key: SigningKey = field(default_factory=lambda: SigningKey(b"k" * 32))
    setup: bytes = SETUP

    @property
    def public(self) -> str:
        """The key that a program would know."""
        return self.key.verify_key.encode().hex()

    @property
    def address(self) -> str:
        """Of the description."""
        return f"{self.server.url}/upreel/update.json"

    def publish(self, version: str = NEWER, **changes: Any) -> bytes:
        """Put a version on the server; what was signed."""
        name = f"upreel-{version}-setup.exe"
        self.server.files[f"/upreel/{name}"] = self.setup
        return self.publish_text(json.dumps(description(self.setup, version) | changes).encode())

    def publish_text(self, content: bytes, *keys: SigningKey) -> bytes:
        """Put any bytes there, signed by our key or by these."""
        self.server.files["/upreel/update.json"] = content
        self.server.files["/upreel/update.json.sig"] = signed(content, *(keys or [self.key]))
        return content

    def build(self, folder: Path, *keys: str) -> Path:
        """The resources of a build that knows all this."""
        folder.mkdir(parents=True, exist_ok=True)
        known = ", ".join(f'"{key}"' for key in keys or [self.public])
        text = f'address = "{self.address}"\nkeys = [{known}]\n'
        (folder / "update.toml").write_text(text, encoding="utf-8")
        return folder


def description(setup: bytes = SETUP, version: str = NEWER) -> dict[str, Any]:
    """What is signed, as plain data."""
    return {
        "product": "upreel",
        "format": 1,
        "version": version,
        "date": "2026-12-01",
        "notes": {"en": "- Faster.", "zh_CN": "- 更快。"},
        "setup": {
            "name": f"upreel-{version}-setup.exe",
            "bytes": len(setup),
            "sha256": hashlib.sha256(setup).hexdigest(),
        },
    }


def signed(content: bytes, *keys: SigningKey) -> bytes:
    """A line for each key."""
    lines = [base64.b64encode(key.sign(content).signature) for key in keys]
    return b"\n".join(lines) + b"\n"
