import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from engine.core.errors import UpdateTooNew, UpdateUntrusted
from engine.delivery import manifest
from engine.files.hashing import signers
from tests.helpers.servers import NEWER, SETUP, description, signed

KEY, OTHER = SigningKey(b"a" * 32), SigningKey(b"b" * 32)
PUBLIC, PUBLIC_OTHER = (key.verify_key.encode().hex() for key in (KEY, OTHER))
CONTENT = json.dumps(description()).encode()


def read(content: bytes, signatures: bytes, *keys: str) -> manifest.Manifest:
    return manifest.read(content, signatures.decode(), keys or (PUBLIC,))


def test_what_was_signed_is_read() -> None:
    found = read(CONTENT, signed(CONTENT, KEY))
    assert (found.version, found.date, found.setup.bytes) == (NEWER, "2026-12-01", len(SETUP))
    assert found.notes == {"en": "- Faster.", "zh_CN": "- 更快。"}


def test_the_signature_is_that_of_the_standard() -> None:
    """RFC 8032, section 7.1, test 2: so that another tool can sign, and this one can be judged."""
    public = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    signature = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert signers(b"\x72", base64.b64encode(signature).decode(), [public])
    assert not signers(b"\x73", base64.b64encode(signature).decode(), [public])


@given(st.integers(0, 8 * len(CONTENT) - 1))
def test_no_bit_of_it_or_of_the_signature_can_be_changed(bit: int) -> None:
    changed = bytearray(CONTENT)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(UpdateUntrusted, match="not signed by Upreel's key"):
        read(bytes(changed), signed(CONTENT, KEY))
    signature = bytearray(KEY.sign(CONTENT).signature)
    signature[bit // 8 % 64] ^= 1 << bit % 8
    assert not signers(CONTENT, base64.b64encode(signature).decode(), [PUBLIC])


def test_keys_can_be_changed_while_old_versions_are_in_use() -> None:
    both, other = signed(CONTENT, KEY, OTHER), signed(CONTENT, OTHER)
    assert read(CONTENT, both, PUBLIC).version == NEWER  # an old version
    assert read(CONTENT, both, PUBLIC_OTHER).version == NEWER  # a new one
    assert read(CONTENT, other, PUBLIC, PUBLIC_OTHER).version == NEWER
    for signatures in (other, b"", b"\n", b"no Base64!", b"QUJD", "ключ".encode()):
        with pytest.raises(UpdateUntrusted):
            read(CONTENT, signatures)
    assert not signers(CONTENT, signed(CONTENT, KEY).decode(), [])


def parsed(**changes: Any) -> manifest.Manifest:
    return manifest.parse(json.dumps(description() | changes).encode())


def test_a_description_of_another_or_for_a_later_program_is_refused() -> None:
    assert parsed(windows="10.0.22000").version == NEWER, "a later field is left alone"
    with pytest.raises(UpdateUntrusted) as refused:
        parsed(product="uproot")
    assert refused.value.params["why"] == "it describes another program"
    with pytest.raises(UpdateTooNew):
        parsed(format=2)
    with pytest.raises(UpdateTooNew):  # also when nothing else of it can be understood
        manifest.parse(b'{"product": "upreel", "format": 7}')


def test_impossible_values_are_refused() -> None:
    for changes in (
        {"version": "1"},
        {"version": "1.0-rc1"},
        {"version": "../1.0"},
        {"version": 2},
        {"date": "yesterday"},
        {"date": "20261201"},
        {"expires": "never"},
        {"expires": None},
        {"counter": 0},
        {"counter": 2**60},
        {"counter": "7"},
        {"notes": {}},
        {"notes": {"zh_CN": "."}},
        {"notes": "faster"},
        {"setup": {"name": "upreel-1.0.0-setup.exe"}},
    ):
        with pytest.raises(UpdateUntrusted):
            parsed(**changes)
    for setup in (
        {"name": "../upreel-1.exe"},
        {"name": "upreel-..\\..\\x.exe"},
        {"name": "upreel-1.msi"},
        {"name": "setup.exe"},
        {"bytes": 0},
        {"bytes": 2**31},
        {"bytes": "12"},
        {"sha256": "ab"},
        {"sha256": "Z" * 64},
    ):
        with pytest.raises(UpdateUntrusted):
            parsed(setup=description()["setup"] | setup)
    for missing in ("counter", "expires"):  # nothing says how old it is
        about = description()
        del about[missing]
        with pytest.raises(UpdateUntrusted):
            manifest.parse(json.dumps(about).encode())
    for content in (b"", b"null", b"[]", b"{}", b"\xff\xfe", b"<html>"):
        with pytest.raises(UpdateUntrusted, match="description of the newest version is not valid"):
            manifest.parse(content)


def test_versions_are_compared_as_numbers() -> None:
    for version, than, is_newer in (
        ("0.10.0", "0.9.9", True),
        ("0.2.0", "0.2", False),
        ("0.2", "0.2.0", False),
        ("0.2.0.1", "0.2.0", True),
        ("0.1.0", "0.1.0", False),
        ("0.0.9", "0.1.0", False),
        ("1.0.0", "0.99.99", True),
    ):
        assert manifest.is_newer(version, than) is is_newer, (version, than)
    with pytest.raises(ValueError, match="not a version"):
        manifest.is_newer("next", "0.1.0")
