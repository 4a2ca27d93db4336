"""Transparency of every codec is read; what no decoder gives is named."""

import av
import pytest

from engine.settings.schema import JobSettings
from engine.video.read.examination import examined
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from engine.video.write.codecs import choose_container, picture_notices, plan_picture
from tests.helpers.clips import half_clear

WIDTH, HEIGHT = 160, 90


VPX = {"auto-alt-ref": "0", "deadline": "realtime", "cpu-used": "8"}
CODECS = [
    ("a.webm", "libvpx", "yuva420p", VPX),
    ("a.webm", "libvpx-vp9", "yuva420p", VPX),
    ("a.mkv", "libvpx-vp9", "yuva420p", VPX),
    ("a.mov", "prores_ks", "yuva444p10le", {}),
    ("a.mov", "qtrle", "argb", {}),
    ("a.mov", "png", "rgba64be", {}),
    ("a.mov", "cfhd", "gbrap12le", {}),
    ("a.mov", "magicyuv", "yuva444p", {}),
    ("a.avi", "utvideo", "gbrap", {}),
    ("a.avi", "ffvhuff", "yuva420p", {}),
    ("a.mkv", "ffv1", "yuva420p", {}),
    ("a.apng", "apng", "rgba", {}),
]


@pytest.mark.parametrize(("name", "codec", "pixel_format", "options"), CODECS)
def test_transparency_is_read_from_the_start_and_from_the_middle(
    tmp_path, name, codec, pixel_format, options
):
    media = probe(half_clear(tmp_path / name, codec, pixel_format, **options))
    assert (media.video.has_alpha, media.video.has_unread_alpha) == (True, False)
    with FrameReader(media) as reader:
        frames = list(reader)
        rest = list(reader.seen_from(frames[-4].pts))
    assert len(frames) == media.video.frame_count
    assert [frame.pts for frame in rest] == [frame.pts for frame in frames[-4:]]
    for frame in (*frames, *rest):
        alpha = frame.planes[-1] / (2**media.video.bit_depth - 1)
        middle = WIDTH // 2
        assert alpha.shape == (HEIGHT, WIDTH)
        assert alpha[:, : middle - 8].max() < 0.01
        assert alpha[:, middle + 8 :].min() > 0.99


def test_a_result_keeps_the_transparency_of_webm_or_says_that_it_cannot(tmp_path):
    media = examined(probe(half_clear(tmp_path / "a.webm", "libvpx-vp9", "yuva420p", **VPX)))
    for name, settings, kept in (
        ("b.mkv", JobSettings(), "ffv1"),
        ("b.mov", JobSettings(), "prores"),
        ("b.mkv", JobSettings(codec="h264"), ""),
        ("b.mp4", JobSettings(), ""),
    ):
        container = choose_container(media, settings, tmp_path / name)
        picture = plan_picture(media, settings, media.video.size, container)
        codes = [notice.code for notice in picture_notices(media, picture)]
        assert picture.has_alpha == bool(kept)
        assert ("alpha-left-out" in codes) == (not kept)
        assert not kept or picture.codec == kept


def test_transparency_that_no_decoder_gives_is_named(tmp_path):
    clear = half_clear(tmp_path / "a.webm", "libvpx-vp9", "yuva420p", **VPX)
    full = half_clear(tmp_path / "b.webm", "libvpx-vp9", "yuv444p", **VPX)
    for name, source in (("c.webm", full), ("d.webm", clear)):
        path = tmp_path / name
        with av.open(str(clear)) as alpha, av.open(str(source)) as film, av.open(path, "w") as new:
            stream = new.add_stream_from_template(film.streams.video[0])
            stream.metadata["alpha_mode"] = "1"
            for beside, packet in zip(alpha.demux(), film.demux(), strict=True):
                if packet.dts is not None:
                    packet.set_sidedata(beside.get_sidedata("matroska_block_additional"))
                    packet.stream = stream
                    new.mux(packet)
        media = probe(path)
        is_unread = source == full
        assert (media.video.has_alpha, media.video.has_unread_alpha) == (not is_unread, is_unread)
        picture = plan_picture(media, JobSettings(codec="h264"), media.video.size, "mkv")
        cases = [(notice.code, notice.case) for notice in picture_notices(media, picture)]
        assert ("alpha-left-out", "unread" if is_unread else "") in cases
