import re
from pathlib import PureWindowsPath

import pytest

from engine.jobs.redaction import Redaction


def test_paths_of_every_kind_are_replaced() -> None:
    redaction = Redaction(["DESKTOP-7", "Anna"])
    for path in (
        *("/home/anna/My film.mp4", "~/Anna's films/x.mkv", r"D:\a b\c.mov", r"\\nas\films\d.ts"),
        *("C:/Users/anna/e.avi", r"\\?\C:\very\long\f.mp4"),
    ):
        suffix = re.escape(PureWindowsPath(path).suffix)
        text = redaction.redacted(f"INFO engine.a: '{path}' is short")
        assert re.fullmatch(rf"INFO engine\.a: '<(path|name)>{suffix}' is short", text), path
    assert redaction.redacted("desktop-7 of anna; annatto") == "<name> of <name>; <word>"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("annas-laptop.lan:47110 answers", "annas"),
        ("a pairing with 192.168.1.77 ended", "192"),
        ("192.168.1.77:47110 answers", "192"),
        ("[fe80::1c2:3dff:fe4e:5f60%eth0]:47110 and ::1 answer", "fe80"),
        ("2001:0db8:0000:0000:0000:ff00:0042:8329 answers", "8329"),
        ("01:23:45:67:89:ab is unknown", ":ab"),
        ("worker Anna Studio-PC left: it does not answer", "Anna"),
        ("the lecture of Dr Smith.2024 final (copy).mkvx cannot be read", "Smith"),
        ("https://hooks.example.com/services/T0KEN failed", "hooks.example"),
        ("https://user:pass1@huggingface.co/a?key=T0KEN failed", "pass1"),
        ("https://huggingface.co/anna/private?key=T0KEN failed", "T0KEN"),
        ("HTTPS_PROXY=http://anna:pass1@proxy.corp:3128 is used", "proxy.corp"),
        ("proxy.corp:3128 does not answer", "corp"),
        ("Authorization: Bearer hf_AbCdEf0123456789", "AbCd"),
        ("HF_TOKEN=hf_0123456789abcdef", "0123"),
        ("anna@example.org has signed", "anna"),
        ("fingerprint 3f" + "0a" * 31, "0a0a"),
        ("the track 'Grandma dances' is left out", "Grandma"),
        ("the track 'the first frame' is left out", "first frame"),
        ("the file 奶奶的婚礼 cannot be read", "婚礼"),
    ],
)
def test_what_only_a_user_or_a_stranger_can_have_said_is_replaced(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in Redaction(()).redacted(f"2026-11-28 05:46:40,289 INFO engine.x: {text}")


@pytest.mark.parametrize(
    "text",
    [
        "26/11 of 3/4 frames, 12.5 frames/s",
        "vae.in_place",
        "2026-11-28 05:46:40,289 WARNING engine.jobs.engine_thread: the job cannot be read",
        "torch.cuda.OutOfMemoryError: CUDA out of memory",
        "https://huggingface.co",
        "h264_nvenc, 1920x1080, 0x7f00, 1.1e-06",
        '  File "<program>/engine/x.py", line 7, in carry_out\n    grandma = wedding("Anna")',
    ],
)
def test_what_the_program_says_stays(text: str) -> None:
    assert Redaction(()).redacted(text) == text


def test_a_record_keeps_numbers_and_texts_of_the_program() -> None:
    record = {"codec": "h264", "fps": "24000/1001", "crf": 16, "title": "The best of us"}
    record |= {"tags": {"Anna's": "x"}, "parts": [{"path": "/a/b.mp4"}, None, True]}
    assert Redaction(()).plain(record) == {
        "codec": "h264",
        "fps": "24000/1001",
        "crf": 16,
        "title": "<text>",
        "tags": {"<key 0>": "x"},
        "parts": [{"path": "<text>.mp4"}, None, True],
    }
