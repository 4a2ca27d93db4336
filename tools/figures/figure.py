"""Every figure: its name and unit, how far it may move, and what limits it on any machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One benchmark.

    Attributes:
        name: Group and figure, as "start.help".
        unit: Its unit.
        about: Description for people.
        limit: Worst value that is allowed; None for seconds of work, which depend on the machine:
            they are compared with another tree's.
        tolerance: Share by which it may be worse than in the other tree; more than the figure's
            own spread. None: the figure spreads too much to be compared, only its limit counts.
        more_is_better: For quality.
        is_on_clock: It passes on the clock, and holds what other programs did meanwhile.
    """

    name: str
    unit: str
    about: str
    limit: float | None = None
    tolerance: float | None = 0.10
    more_is_better: bool = False
    is_on_clock: bool = False

    @property
    def group(self) -> str:
        """Group of figures that are measured together, in one process or in turns."""
        return self.name.partition(".")[0]

    def is_past_limit(self, value: float) -> bool:
        """Whether the limit forbids a value."""
        if self.limit is None:
            return False
        return value < self.limit if self.more_is_better else value > self.limit

    def is_worse(self, value: float, before: float) -> bool:
        """Whether a value is worse than one of another tree by more than the tolerance."""
        if self.tolerance is None:
            return False
        if self.more_is_better:
            return value < before * (1 - self.tolerance)
        return value > before * (1 + self.tolerance)


def _spread(
    name: str, unit: str, limit: float | None, *, about: str, is_on_clock: bool = False
) -> Figure:
    """One that spreads too much between runs of one tree to be compared."""
    return Figure(
        name=name, unit=unit, limit=limit, about=about, tolerance=None, is_on_clock=is_on_clock
    )


def _quality(name: str, unit: str, limit: float) -> Figure:
    """One that hardly spreads: the same weights make the same pictures everywhere."""
    return Figure(
        name=f"quality.{name}",
        unit=unit,
        limit=limit,
        about="mean of four photographs",
        tolerance=0.002,
        more_is_better=True,
    )


FIGURES = (
    Figure(name="start.window_import", unit="s", about="CPU, import app.application"),
    Figure(name="start.engine_import", unit="s", about="CPU, import engine.api"),
    Figure(name="start.help", unit="s", about="CPU, command line's --help"),
    _spread("window.first_paint", "s", 0.5, about="process start to first paint", is_on_clock=True),
    Figure(name="window.first_paint_cpu", unit="s", about="CPU until first paint"),
    Figure(
        name="window.loading_gap", unit="ms", about="event loop while torch loads", is_on_clock=True
    ),
    _spread(
        "window.first_look",
        "s",
        3,
        about="drop of a 720p video to its first look",
        is_on_clock=True,
    ),
    Figure(name="window.first_look_cpu", unit="s", about="CPU until the first look", tolerance=0.2),
    _spread("window.largest_gap", "ms", 50, about="event loop during a Lite job", is_on_clock=True),
    _spread("idle.cpu", "%", 0.5, about="CPU of a core, empty queue, a minute after the start"),
    _spread("idle.cpu_after_job", "%", 0.5, about="CPU of a core, a finished film is selected"),
    Figure(name="idle.ram", unit="MiB", limit=330, about="main memory with torch, no job so far"),
    _spread("idle.theme", "ms", 100, about='CPU, change of theme, "More choices" unfolded'),
    _spread("idle.language", "ms", 100, about='CPU, change of language, "More choices" unfolded'),
    _spread(
        "idle.drop",
        "ms",
        100,
        about="event loop while fifty films come and are planned",
        is_on_clock=True,
    ),
    _spread(
        "load.add_gap",
        "ms",
        100,
        about="event loop while 200 videos come and are planned, one of three hours",
        is_on_clock=True,
    ),
    _spread(
        "load.select_gap",
        "ms",
        100,
        about="event loop while ten of them are selected in turn",
        is_on_clock=True,
    ),
    _spread("load.hour", "MiB", 10, about="main memory that an hour of events adds"),
    _spread("planning.lite", "ms", None, about="CPU, first plan of Lite"),
    Figure(name="planning.seedvr2_first", unit="ms", about="CPU, first plan"),
    Figure(name="planning.seedvr2_size", unit="ms", about="CPU, another frame size"),
    Figure(name="planning.seedvr2_again", unit="ms", about="CPU, the same again"),
    Figure(name="models.lite_2x", unit="s", about="CPU, 2 frames 240x136, float32"),
    Figure(name="models.lite_4x", unit="s", about="CPU, 2 frames 240x136, float32"),
    Figure(name="models.lite_2x_bfloat16", unit="s", about="CPU, as lite_2x"),
    Figure(name="models.seedvr2_vae_encode", unit="s", about="CPU, half width, 5x64x64"),
    Figure(name="models.seedvr2_vae_decode", unit="s", about="CPU, half width, 5x64x64"),
    Figure(name="models.wan_vae_encode", unit="s", about="CPU, Wan 2.1, 5x64x64"),
    *(
        Figure(name=f"models.{name}_bfloat16", unit="s", about=f"CPU, as {name}")
        for name in ("seedvr2_vae_encode", "seedvr2_vae_decode", "wan_vae_encode", "wan_2x_decode")
    ),
    Figure(name="models.wan_2x_decode", unit="s", about="CPU, Wan 2x, 5x64x64"),
    Figure(name="models.transformer", unit="s", about="CPU, 512 wide, 5x320x192"),
    Figure(name="models.transformer_bfloat16", unit="s", about="CPU, as transformer"),
    _spread("models.passes", "s", None, about="CPU, norms and passes over tokens"),
    _quality("lite_2x_psnr", "dB", 34.0),
    _quality("lite_2x_ssim", "", 0.945),
    _quality("lite_4x_psnr", "dB", 28.9),
    _quality("lite_4x_ssim", "", 0.830),
    Figure(name="jobs.lite_cpu", unit="s", about="CPU, sample clip, 2x"),
    Figure(name="jobs.lite_peak", unit="MB", limit=550, about="main memory of the process"),
    Figure(name="jobs.seedvr2_cpu", unit="s", about="CPU, 9 frames 96x64, half width"),
    Figure(name="jobs.seedvr2_peak", unit="MB", limit=1600, about="main memory of the process"),
    Figure(name="package.size", unit="MB", limit=900, about="dist/upreel"),
)
GROUPS = tuple(dict.fromkeys(figure.group for figure in FIGURES))


def named(names: list[str]) -> tuple[Figure, ...]:
    """The figures of some names or groups; all without a name.

    Raises:
        ValueError: There is no such figure.
    """
    unknown = [name for name in names if name not in GROUPS and name not in _NAMES]
    if unknown:
        raise ValueError(f"There is no figure {unknown[0]!r}; known: {', '.join(_NAMES)}.")
    chosen = [f for f in FIGURES if not names or f.name in names or f.group in names]
    return tuple(chosen)


_NAMES = tuple(figure.name for figure in FIGURES)
