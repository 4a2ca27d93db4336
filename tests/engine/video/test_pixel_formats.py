import av
import numpy as np
import pytest
from av.video.format import VideoFormat

from engine.core.geometry import Size
from engine.video.planes import frame_of, layout_of, order_of, planar_format, planes_of

PACKED = """
    rgb24 bgr24 rgba bgra argb abgr rgb0 bgr0 0rgb 0bgr rgb48le rgb48be bgr48le rgba64le rgba64be
    bgra64le ya8 ya16le ya16be vuya vuyx ayuv ayuv64le nv12 nv21 nv16 nv24 nv42 nv20le p010le p010be
    p012le p016le p210le p212le p216le p410le p412le p416le yuyv422 yvyu422 uyvy422 y210le y212le
    y216le x2rgb10le x2bgr10le yuv420p10be gbrp12be gray16be yuva444p16be yuv410p yuv411p yuv440p
    gbrap gray gray10le
""".split()  # noqa: SIM905


def random_frame(name: str, width: int, height: int) -> av.VideoFrame:
    """A planar frame of the same layout, every sample drawn by chance."""
    target = planar_format(layout_of(name))
    frame = av.VideoFrame(width, height, target)
    depth, draw = layout_of(target).bit_depth, np.random.default_rng(3)
    kind = np.dtype("u1" if depth == 8 else "<u2")
    for plane in frame.planes:
        shape = (plane.height, plane.line_size // kind.itemsize)
        plane.update(draw.integers(0, 1 << depth, shape).astype(kind).tobytes())
    return frame


def test_every_packing_is_read_and_made_without_loss() -> None:
    for name in PACKED:
        alpha = layout_of(name).has_alpha
        planar = random_frame(name, 18, 12)
        packed = planar.reformat(format=name, threads=1)
        assert packed.format.name == VideoFormat(name).name
        planes = planes_of(packed, alpha=alpha)
        for true, mine in zip(planes_of(planar, alpha=alpha), planes, strict=True):
            np.testing.assert_array_equal(mine, true, name)
        if order_of(name) is not None:  # else only read
            made = planes_of(frame_of(planes, Size(18, 12), name), alpha=alpha)
            for true, mine in zip(planes, made, strict=True):
                np.testing.assert_array_equal(mine, true, name)


def test_odd_sizes_keep_their_last_row_and_column() -> None:
    for name in ("nv12", "p010le", "yuyv422", "yuv420p", "rgb24", "gbrp10le"):
        planar = random_frame(name, 17, 9)
        packed = planar.reformat(format=name, threads=1)
        again = packed.reformat(format=planar.format.name, threads=1)
        planes = planes_of(packed, alpha=False)
        for true, mine in zip(planes_of(again, alpha=False), planes, strict=True):
            np.testing.assert_array_equal(mine, true, name)
        assert planes[0].shape == (9, 17)


def test_bits_become_black_and_white() -> None:
    for name, dark, light in (("monob", 0, 255), ("monow", 255, 0)):
        frame = av.VideoFrame(11, 2, name)
        frame.planes[0].update(
            b"".join(row.ljust(frame.planes[0].line_size, b"\0") for row in (b"\xa0\x20", b"\0\0"))
        )
        (plane,) = planes_of(frame, alpha=False)
        assert plane[0].tolist() == [light, dark, light, *[dark] * 7, light]
        assert plane[1].tolist() == [dark] * 11


def test_a_palette_becomes_colours_and_alpha() -> None:
    frame = av.VideoFrame(4, 1, "pal8")
    frame.planes[0].update(bytes([0, 1, 2, 1]).ljust(frame.planes[0].buffer_size, b"\0"))
    entries = np.zeros(256, np.uint32)
    entries[:3] = (0xFF102030, 0x80A0B0C0, 0x00000000)
    frame.planes[1].update(entries.tobytes())
    rgba = np.stack(planes_of(frame, alpha=True), axis=-1)[0].tolist()
    second = [0xA0, 0xB0, 0xC0, 0x80]
    assert rgba == [[0x10, 0x20, 0x30, 0xFF], second, [0, 0, 0, 0], second]
    assert len(planes_of(frame, alpha=False)) == 3


def test_floats_become_sixteen_bits_cut_to_the_range() -> None:
    frame = av.VideoFrame(4, 1, "gbrpf32le")
    for plane, values in zip(
        frame.planes, ([0.5, -1, 2, 1], [0, 0, 0, float("nan")], [1, 0.25, 0, 1]), strict=True
    ):
        row = np.array(values, np.float32).tobytes()
        plane.update(row.ljust(plane.buffer_size, b"\0"))
    red, green, blue = planes_of(frame, alpha=False)
    assert red[0].tolist() == [65535, 16384, 0, 65535]
    assert green[0].tolist() == [32768, 0, 65535, 65535]
    assert blue[0].tolist() == [0, 0, 0, 0]


def test_layouts_of_some_formats() -> None:
    facts = {
        "yuv420p": ("420", 8, False),
        "yuvj422p": ("422", 8, False),
        "gbrap12le": ("rgb", 12, True),
        "pal8": ("rgb", 8, True),
        "rgb565le": ("rgb", 8, False),
        "monow": ("gray", 8, False),
        "gbrpf32le": ("rgb", 16, False),
        "yuv411p": ("411", 8, False),
    }
    for name, (chroma, bits, alpha) in facts.items():
        layout = layout_of(name)
        assert (layout.chroma, layout.bit_depth, layout.has_alpha) == (chroma, bits, alpha), name
    with pytest.raises(ValueError, match="hardware"):
        layout_of("cuda")


def test_rare_formats_go_through_swscale_and_requested_alpha_is_opaque() -> None:
    source = random_frame("rgb24", 8, 8)
    for name in ("rgb565le", "xv36le", "gbrp10msble"):
        planes = planes_of(source.reformat(format=name, threads=1), alpha=False)
        assert [plane.shape for plane in planes] == [(8, 8)] * 3
    planes = planes_of(random_frame("yuv420p10le", 8, 8), alpha=True)
    assert len(planes) == 4
    assert (planes[3] == 1023).all()
