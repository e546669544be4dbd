"""The files of a run: one flushed line a finished sample, and beside them a manifest that says what the run is.

`predictions.jsonl` has `predictions.run.json` beside it, which holds the settings and the plan: the samples that were
to be asked, so that one that never came out is missed. A line is finished for a run when its sample and its settings
are the same; how many ran at once is no part of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from worldlm.bench.results import InferSettings, JudgingSettings, write_whole
from worldlm.bench.samples import OURS, Sample, parse_record, read_lines
from worldlm.core.errors import InputError
from worldlm.core.jsonl import JsonlWriter, describe
from worldlm.core.outcomes import Outcome
from worldlm.core.text import canonical_json, digest, number_of
from worldlm.core.types import DomainName, Text, Value
from worldlm.data.formats import RecordError

Stage = Literal["prediction", "judgement", "choice"]
"""Of which a line tells: the key under `worldlm`."""


class Planned(Value):
    """A sample that is part of a run."""

    id: Text
    """`TASK/ID`."""
    domain: DomainName
    trajectory: Text
    turn: int
    turns: int
    length: int
    content: Text | None = None
    digest: Text

    @classmethod
    def of(cls, sample: Sample) -> "Planned":
        """A sample without its texts."""
        return cls(
            id=sample.key,
            domain=sample.domain,
            trajectory=sample.trajectory,
            turn=sample.turn,
            turns=sample.turns,
            length=sample.length,
            content=sample.content,
            digest=sample.digest,
        )


class Manifest(Value):
    """What a run is."""

    schema_: Literal["worldlm.bench-run/1"] = Field(default="worldlm.bench-run/1", alias="schema")
    version: Text = ""
    """Of worldlm."""
    benchmark: Text
    benchmark_digest: Text
    infer: InferSettings | None = None
    """None where the predictions are somebody else's."""
    judging: JudgingSettings | None = None
    planned: tuple[Planned, ...]
    lacking: tuple[Text, ...] = ()
    """Of a pairwise comparison: samples of which the other run has no prediction. Nobody is asked about them."""
    wall_seconds: dict[str, float] = Field(default_factory=dict)
    """By verb; all its runs together."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)


class Done(Value):
    """What every line says of how its sample came out, whatever else it says."""

    digest: Text
    """Of what was asked."""
    settings: Text = ""
    """Hash of the settings under which it was; the file of a run puts it there."""
    outcome: Outcome
    detail: Text | None = None
    """On a failure: what went wrong, in the server's words where it has some."""

    model_config = ConfigDict(extra="ignore")

    @property
    def is_final(self) -> bool:
        """Whether asking again would be another throw of the dice: it was answered, or the model itself failed."""
        return self.outcome is Outcome.OK or self.outcome.is_models_fault


D = TypeVar("D", bound=Done)
NOT_THERE = "the file has no line of it: the run was stopped before"
"""The detail of a sample that was planned and has no line."""


def settings_hash(settings: InferSettings | JudgingSettings) -> str:
    """Identifies settings."""
    return digest(canonical_json(settings.model_dump(mode="json")))[:16]


def manifest_path(path: Path) -> Path:
    """The manifest of a file of lines."""
    return path.with_name(path.name.removesuffix(".jsonl") + ".run.json")


def read_manifest(path: Path) -> Manifest | None:
    """The manifest of a file of lines; None where it has none. Raises InputError for one that is broken."""
    beside = manifest_path(path)
    try:
        return Manifest.model_validate_json(beside.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read {beside}: {error.strerror or error}") from error
    except ValidationError as error:
        raise InputError(f"{beside} is no manifest of a run: {describe(error)}; mend or remove it") from error


def check_plan(path: Path, earlier: Manifest | None, benchmark: str, planned: Sequence[Planned]) -> None:
    """Raises InputError where a file of lines is of another benchmark, by the manifest that it has."""
    if earlier is not None:
        before = {each.id: each.digest for each in earlier.planned}
        check_benchmark(path, earlier.benchmark, before, benchmark, {each.id: each.digest for each in planned})


def check_benchmark(path: Path, held: str, before: Mapping[str, str], benchmark: str, now: Mapping[str, str]) -> None:
    """Raises InputError where what a file holds (`before`: by sample, what identifies it) is of another benchmark.

    A part of the same benchmark, more of it, and one that was mended in part go on in the file. So does another choice
    of its samples: of one source, none of whose samples is a changed one.
    """
    if not before or before.items() & now.items() or (held == benchmark and before.keys().isdisjoint(now)):
        return
    raise InputError(
        f"{path} is of another benchmark: it holds {number_of(len(before), 'sample')} of {held}, and none of them is "
        f"among the {len(now)} of {benchmark}; name another folder or file, so that its results stay"
    )


class RunFile:
    """A file of lines, being written: what it holds already, and one flushed line for each further sample.

    A line that was written again counts in its last form. Half a line that a killed run left is moved aside.
    """

    def __init__(self, path: Path, stage: Stage, manifest: Manifest, *, retry_failed: bool = True):
        """Raises InputError when the file is of other settings, is no such file, or is being written already."""
        self.path = path
        self.stage = stage
        settings = manifest.infer if stage == "prediction" else manifest.judging
        assert settings is not None
        self.settings = settings_hash(settings)
        self._writer = JsonlWriter(path)  # first: it mends the end of the file
        try:
            earlier = read_manifest(path)
            check_plan(path, earlier, manifest.benchmark, manifest.planned)
            self._check(settings, earlier)
            self._finished = self._read(retry_failed=retry_failed)
            self._spent = dict(earlier.wall_seconds) if earlier else {}
            self.manifest = manifest.model_copy(update={"wall_seconds": {**manifest.wall_seconds, **self._spent}})
            write_whole(self.manifest, manifest_path(path))
        except BaseException:
            self._writer.close()
            raise

    @property
    def finished(self) -> int:
        """How many samples it holds that, unless they changed, need not be asked again."""
        return len(self._finished)

    def is_finished(self, key: str, digest: str) -> bool:
        """Whether this sample, as it is now, needs not be asked again."""
        return self._finished.get(key) == digest

    def add(self, record: dict[str, Any]) -> None:
        """Write the line of a sample, as one that was made under the settings of this run."""
        record[OURS][self.stage]["settings"] = self.settings
        self._writer.write(record)

    def add_seconds(self, verb: str, seconds: float) -> None:
        """Say in the manifest how long this run took."""
        self._tell(wall_seconds={**self.manifest.wall_seconds, verb: self._spent.get(verb, 0.0) + seconds})

    def leave_out(self, lacking: Sequence[str]) -> None:
        """Say in the manifest which samples the other run lacks."""
        self._tell(lacking=tuple(lacking))

    def _tell(self, **told: Any) -> None:
        self.manifest = self.manifest.model_copy(update=told)
        write_whole(self.manifest, manifest_path(self.path))

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def __enter__(self) -> "RunFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, settings: InferSettings | JudgingSettings, earlier: Manifest | None) -> None:
        before = None if earlier is None else (earlier.infer if self.stage == "prediction" else earlier.judging)
        if before is None or before == settings:
            return
        old, new = before.model_dump(mode="json"), settings.model_dump(mode="json")
        key = next(key for key in new if old.get(key) != new[key])
        raise InputError(
            f"{self.path} was made with other settings ({key}: {old.get(key)!r} there, {new[key]!r} now); "
            "choose another file, or the same settings"
        )

    def _read(self, *, retry_failed: bool) -> dict[str, str]:
        finished: dict[str, str] = {}
        for place, value in read_lines(self.path):
            key, done = line_key(place, value), line_done(place, value, self.stage, Done)
            if done is None or done.settings != self.settings:
                raise InputError(f"{place}: this line was not made with these settings; choose another file")
            finished.pop(key, None)
            if done.is_final or not retry_failed:
                finished[key] = done.digest
        return finished


def line_key(place: str, value: Any) -> str:
    """`TASK/ID` of a line. Raises InputError."""
    if not isinstance(value, dict) or not {"task", "id"} <= set(value):
        raise InputError(f"{place}: this is no line of a benchmark: it has no task and id")
    return f"{value['task']}/{value['id']}"


def line_done(place: str, value: dict[str, Any], stage: Stage, kind: type[D]) -> D | None:
    """What a line says of a stage; None where it says nothing (it is somebody else's). Raises InputError."""
    ours = value.get(OURS)
    told = ours.get(stage) if isinstance(ours, dict) else None
    if told is None:
        return None
    try:
        return kind.model_validate(told)
    except ValidationError as error:
        raise InputError(
            f"{place}: sample {line_key(place, value)}: {OURS}.{stage}.{describe(error)}; mend or remove that line"
        ) from error


def last_samples(path: Path) -> Iterator[Sample]:
    """Each sample of a file with its last line, in the order of the file. One line is held at a time.

    Raises InputError naming file and line.
    """
    last: dict[str, str] = {}
    for place, value in read_lines(path):
        last[line_key(place, value)] = place
    keep = set(last.values())
    for place, value in read_lines(path):
        if place in keep:
            try:
                yield parse_record(value, place)
            except RecordError as error:
                raise InputError(f"{place}: {error}; mend or remove that line") from error


def with_ours(record: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A record with something more under our key."""
    return {**record, OURS: {**(record.get(OURS) or {}), **more}}


def plan(samples: Iterable[Sample]) -> tuple[Planned, ...]:
    """Samples without their texts."""
    return tuple(Planned.of(sample) for sample in samples)
