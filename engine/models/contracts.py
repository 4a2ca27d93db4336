"""Interface of a family of models: all that the rest of the engine may know of one.

`ModelFamily` is what planner, pipeline, benchmark, command line and window see; the models that it
loads are in `upscalers`. Loads no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from engine.core.geometry import Size
from engine.core.messages import Message
from engine.files.model_files import Store, is_changed
from engine.files.transfer import Listener
from engine.hardware.budget import Budget
from engine.models.planning.memory import MemoryRequirement, Room
from engine.protocol.media import VideoInfo
from engine.protocol.model_file_state import Kind, NetworkFacts
from engine.protocol.plan import Notice, PicturePlan, WorkPlan
from engine.protocol.report import State
from engine.settings.optimisations import DitSwitches, VaeSwitches
from engine.settings.schema import JobSettings
from engine.settings.switches import Switches

if TYPE_CHECKING:
    from engine.models.latents import LatentFormat
    from engine.models.upscalers import FrameUpscaler, ShotModel
    from engine.models.video_vae.measured_memory import VaeModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ShotPlan(WorkPlan):
    """Plan of a model that restores whole shots."""

    shot_sensitivity: int | None = None  # %; None looks for no cuts

    @property
    def takes_shots(self) -> bool:
        """Its frames depend on those before."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRequest:
    """Request to a family: source, result, the user's settings and the computer."""

    model: str
    video: VideoInfo
    picture: PicturePlan
    settings: JobSettings
    budget: Budget
    device: str  # "cpu" or "cuda"

    @property
    def frames(self) -> int:
        """Number of frames at most; 0 where that is not known exactly."""
        return self.video.frame_count if self.video.frame_count_is_exact else 0

    @property
    def stored_size(self) -> Size:
        """Size of the result as the source's frames are stored, which players may turn."""
        turned = (self.video.rotation - self.picture.rotation) % 360 in (90, 270)
        return self.picture.size.transposed() if turned else self.picture.size

    @property
    def dtype(self) -> str:
        """The dtype in which most models are fastest here."""
        if self.device == "cuda":
            return "float16"
        return "bfloat16" if self.budget.has_fast_bf16 else "float32"

    @property
    def wide_dtype(self) -> str:
        """Types for models that need the range of float32, which float16 lacks."""
        if self.device == "cuda" and self.budget.gpu_has_bf16:
            return "bfloat16"
        return self.dtype


# of operations: how much of a GPU's peak they get, and the cost that the speed test measures
WorkKind = Literal["vae", "transformer", "lite", "lite-plus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork:
    """Work of one stage.

    Attributes:
        kind: Kind of its operations.
        dtype: Type of its matrix products.
        operations: Floating-point; a multiply-add is two.
        products: Operations of them in matrix products; all others are convolutions. Of a VAE
            they are attention with one head.
        narrow: Operations of products in a narrow format.
        narrow_format: Name of that format, as the setting `matmul` has it.
        attended: Operations of products in attention with many heads.
        attention: Backend of that attention, as the setting of its name has it.
        half_sums: Whether a kernel of ours with sums in float16 may be chosen.
        tf32: Whether float32 is multiplied as TF32.
        is_counted: Bytes and operations are counts of the program's code, not guesses.
        passed_bytes: To and from the GPU's memory, by passes between convolutions and products.
        packed_bytes: To and from it, by bringing weights into the order of that kernel.
        launches: Kernels, for which the GPU may wait for the host; 0 where it never does.
        processor: Name of the cost that counts on a CPU, as in `planner.rates.COSTS`, and
            its units; None for 10^12 operations of the kind.
        pinned_bytes: Weights copied to the GPU meanwhile, from pinned main memory.
        paged_bytes: Bytes copied from pageable RAM.
        parked_bytes: Carries copied to pageable main memory and back, for which the GPU waits.
        parked_pinned_bytes: Bytes parked in pinned RAM.
        hides_copies: Whether weights are copied while the GPU computes.
        moved_bytes: To and from the GPU's memory, by work that the speed test does not measure.
    """

    kind: WorkKind
    dtype: str
    operations: float
    products: float = 0.0
    narrow: float = 0.0
    narrow_format: str = "none"
    attended: float = 0.0
    attention: str = "auto"
    half_sums: bool = False
    tf32: bool = False
    is_counted: bool = False
    passed_bytes: float = 0.0
    packed_bytes: float = 0.0
    launches: float = 0.0
    processor: tuple[str, float] | None = None
    pinned_bytes: float = 0.0
    paged_bytes: float = 0.0
    parked_bytes: float = 0.0
    parked_pinned_bytes: float = 0.0
    hides_copies: bool = True
    moved_bytes: float = 0.0

    def cost(self, device: str) -> tuple[str, float]:
        """Name of the cost of a unit, and how many units."""
        if self.processor is not None and device != "cuda":
            return self.processor
        return f"{self.kind}-{self.dtype}", self.operations / 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Another plan of the same model, one step away.

    Attributes:
        code, message, params: Text of the choice, like that of `Alternative`.
        work: The plan.
        is_more: Whether it needs more memory than the present plan.
        setting: Setting that it takes, as "matmul=fp8": it is no step where the device cannot do
            that. "" for a plan of the same settings.
    """

    code: str
    message: Message
    work: WorkPlan
    is_more: bool
    setting: str = ""
    params: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """Options of a benchmark of a model; None: the family chooses what suits the device."""

    device: str
    dtype: str | None = None
    size: Size | None = None
    threads: int = 1
    quick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchWork:
    """One piece of work, ready: `operations` of them for `megapixels` of frames."""

    compute: Callable[[], object]
    dtype: str
    megapixels: float
    operations: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUse:
    """Use of a model file, and the facts that a network of single frames states."""

    kind: Kind
    models: tuple[str, ...]
    network: NetworkFacts | None = None
    licence: str = ""


W = TypeVar("W", bound=WorkPlan)


class ModelFamily(ABC, Generic[W]):
    """A family of models: everything that the rest of the engine may know of it.

    Each `engine/models/<name>/family.py` defines one as FAMILY; see docs/adding-a-model.md. All
    predictions (`needs`, `stage_work`, `choices`, `steps`) are made from the plan and the headers
    of its files alone, without torch.
    """

    name: ClassVar[str]  # name of its folder, and the tag of its plans
    title: ClassVar[str]
    models: ClassVar[dict[str, str]]  # id -> title
    plan: ClassVar[type[WorkPlan]]  # class of its plans
    enlarges_only: ClassVar[bool] = False  # no work for a result that is not larger than its source
    wants_gpu: ClassVar[bool] = False  # worth installing a runtime for: a CPU is too slow
    is_built_in: ClassVar[bool] = False  # comes with the program: what any machine can fall back to
    latents: ClassVar[LatentFormat | None] = None  # files that its VAEs decode and encode

    # what is planned

    def model_of(self, settings: JobSettings) -> str:
        """The model of this family that the settings name; "" for none."""
        return settings.model if settings.model in self.models else ""

    def automatic(self, settings: JobSettings, budget: Budget) -> tuple[str, ...]:
        """Models of this family that "auto" may stand for on a machine, the best first.

        The last one is for any job, those before it for jobs that do not take long.
        """
        return ()

    @abstractmethod
    def choose(self, request: WorkRequest) -> W:
        """The largest plan; what the user chose is the largest there.

        Raises:
            WeightsError: A file is not there, or is none of this family.
        """

    @abstractmethod
    def fitted(self, work: W, room: Room) -> W:
        """The fastest plan that the room holds; the smallest one where it holds none."""

    @abstractmethod
    def smaller(self, work: W, stage: str = "") -> W | None:
        """The next smaller plan, with less on the device; None at the minimum.

        Args:
            work: Work that needs too much.
            stage: Stage that ran out of memory, as in `StagePlan`; "" where that is not known.
        """

    def gentler(self, work: W, than: W) -> W:
        """A plan whose calls take about half as long as another one's: for a GPU that was lost.

        Args:
            work: The largest plan.
            than: A fitted one.
        """
        return than

    def less_on_host(self, work: W) -> W | None:
        """Plan with less RAM; None at the minimum."""
        return None

    def wider(self, work: W, budget: Budget, part: str = "") -> W | None:
        """Plan with the next wider dtype, or sums, of what overflowed; None where there is none.

        Tiles and the like stay: the planner fits them again. What overflowed may be remembered, see
        `engine.models.overflow`.

        Args:
            work: Work in which a value became infinite or NaN.
            budget: The GPU, which may lack a dtype.
            part: Part of the model that did, a case of `NumericOverflow`; "" where not known.
        """
        return None

    def with_switches(self, work: W, switches: Switches) -> W:
        """Plan with switches, but for those that its files are known not to bear."""
        return replace(work, switches=switches)

    # what it takes

    @abstractmethod
    def needs(self, work: W) -> MemoryRequirement:
        """Bytes that a job takes."""

    @abstractmethod
    def stage_work(self, work: W, frames: int) -> dict[str, StageWork]:
        """Work of each stage for n frames of the source."""

    def as_tested(self, work: W) -> W:
        """The plan with the switches and formats that the speed test measures."""
        usual = replace(work.switches, vae=VaeSwitches(), dit=DitSwitches())
        return replace(work, switches=usual)

    def frames_around(self, work: W) -> tuple[int, int]:
        """Frames of a shot before some (at most) and after them that their result takes."""
        return 0, 0

    def loading_seconds(self, work: W) -> float:
        """CPU seconds to prepare weights that were read."""
        return 0.0

    # what is shown

    @abstractmethod
    def choices(self, work: W) -> Iterator[Notice]:
        """Decisions of a plan, a sentence each; the first, "model", names the model."""

    def steps(self, work: W) -> Iterator[Step]:
        """Every plan that is one step larger or smaller."""
        return iter(())

    @abstractmethod
    def changes(self, old: W, new: W) -> Iterator[Message]:
        """Differences of two plans, the main one first: "clips of 9 instead of 21"."""

    def notices(self, work: W, budget: Budget) -> Iterator[Notice]:
        """Notices that the user should read before the start."""
        return iter(())

    def size_notices(self, work: W, factor: float) -> Iterator[Notice]:
        """Notices about the size of the result, `factor` times that of the source."""
        if 1 < work.scale != round(factor, 2):
            code = "beyond-model" if factor > work.scale else "model-makes-more"
            params = {"scale": str(work.scale), "factor": f"{factor:.3g}"}
            yield Notice(code=code, severity="info", params=params)

    def smaller_file(self, settings: JobSettings) -> str:
        """The precision of a smaller file of the same model; "" where there is none."""
        return ""

    def smaller_model(self, settings: JobSettings) -> str:
        """A model of this family that needs less; "" where there is none."""
        return ""

    # what runs

    def has_changed(self, work: W) -> bool:
        """Whether the weights are others than those that a job began with."""
        return any(map(is_changed, work.weights_files))

    def load_frames(
        self, work: W, between: Callable[[], None] | None = None
    ) -> FrameUpscaler | None:
        """The model of a plan that takes frames one by one; None passes frames on as they are.

        Args:
            work: Work of the plan.
            between: Called between parts of a call that takes long; it may wait, or raise to stop.

        Raises:
            WeightsError: The weights are not there or not right.
        """
        raise NotImplementedError

    def load_shots(self, work: W) -> ShotModel:
        """The model of a plan that takes shots.

        Raises:
            WeightsError: The weights are not there or not right.
            FeatureMissing: The device cannot do what the plan says.
        """
        raise NotImplementedError

    # what else it has

    def use_of(self, content: str) -> FileUse | None:
        """Use of a file whose content `models.identify` recognised."""
        return None

    def check_file(self, content: str, path: Path) -> None:
        """Refuses a file that is good for something, see `use_of`, but could not be loaded.

        Raises:
            WeightsError: Names, shapes or dtypes of its tensors are not those of such a model.
        """

    def convert(self, file: str, kind: str, store: Store, listener: Listener) -> Path:
        """Write a published file in another format into the store, or finish what was begun.

        Args:
            file: Id in the catalogue of a file with `converts_to`.
            kind: One of those formats.
            store: Store of model files.
            listener: Receiver of progress; it can cancel.

        Returns:
            The converted file, which `check_file` accepts.

        Raises:
            WeightsError: The file, or another one that it takes, is missing or wrong.
            DiskFull, OutputUnwritable: The store cannot take it.
            Cancelled: The listener was; what is written is kept.
        """
        raise NotImplementedError

    def use_of_file(self, path: Path) -> FileUse | None:
        """Use of a file that no family knows by its content; None for none.

        Raises:
            WeightsError: It is such a file, but could not be loaded.
        """
        return None

    def benchmarks(self, request: BenchRequest) -> Iterator[tuple[str, Callable[[], BenchWork]]]:
        """Titles of its models, and what builds each with random weights to be measured."""
        return iter(())

    def vaes(self) -> tuple[VaeModel, ...]:
        """VAEs that the benchmark can measure by themselves."""
        return ()

    def self_tests(self) -> Iterator[tuple[str, Callable[[], tuple[State, Message]]]]:
        """Names of built-in files, and a trial of each; a trial may raise an EngineError."""
        return iter(())


AnyFamily = ModelFamily[Any]
