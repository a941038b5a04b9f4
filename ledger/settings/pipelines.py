"""The groups of the settings that define how the pipelines of a table count records."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from ledger.core.sums import SLOTS_MAX
from ledger.settings.groups import (
    Count,
    Group,
    PositiveSeconds,
    Seconds,
    constant,
    is_url,
    rule,
    table_name,
)
from ledger.settings.templates import path_of, template_of

TEMPLATES_MAX = 20
"""The most categories of one record: twice as many changes fit in one map item."""
KEEP_FIELDS_MAX = 50
"""The most further fields that the states of one pipeline keep."""
BATCH_RECORDS_MAX = 10_000
"""The most records of one batch: as many as Kinesis passes to a Lambda function at once."""
PIPELINES_MAX = 100
"""The most pipelines of one file of settings."""
PIPELINE_NAME = "[a-z0-9][a-z0-9-]{0,31}"
_NAME = re.compile(PIPELINE_NAME)
_ADAPT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(@[\w.-]{1,32})?")
_NAME_RULE = "a pipeline's name is up to 32 of the characters a-z 0-9 -, not beginning with -"


def _as_path(text: str) -> str:
    return _accepted(path_of, text)


def _as_template(text: str) -> str:
    return _accepted(template_of, text)


def _accepted(read: Callable[[str], object], text: str) -> str:
    try:
        read(text)
    except ValueError as error:
        raise rule(str(error)) from None
    return text


def _as_adapt(text: str) -> str:
    if not _ADAPT.fullmatch(text):
        raise rule(
            "adapt is MODULE:FUNCTION, or MODULE:FUNCTION@VERSION with a version of up to 32"
            " characters, such as trades.records:adapt@2"
        )
    return text


FieldPath = Annotated[str, AfterValidator(_as_path)]


class PipelineFields(Group):
    """Where a record has its id, version, value and time: names joined by dots."""

    id: FieldPath
    """Names the record in all its versions."""
    version: FieldPath
    """Orders the versions of a record: the highest counts."""
    value: FieldPath
    """The amount that the record adds to its counters."""
    time: FieldPath | None = None
    """The record's own time, which `keep_states` needs."""


class PipelineHome(Group):
    """Which region keeps a record's state: the first pattern that its `field` matches.

    The field must be the same in every version of a record, or the record would count once in each
    region.
    """

    field: FieldPath | None = None
    """The field that patterns are for; the record's id unless another is named."""
    regions: dict[Annotated[str, Field(min_length=1)], str] = Field(default_factory=dict)
    """The region of each pattern, the first that fits counts; the home region without patterns."""


Templates = Annotated[
    tuple[Annotated[str, AfterValidator(_as_template)], ...], Field(max_length=TEMPLATES_MAX)
]


class PipelineMeasures(Group):
    """Counters to which a record adds something else than its value."""

    count: Templates = ()
    """The counters to which each record adds 1, in its newest version's categories."""


KeepFields = Literal["all"] | Annotated[tuple[FieldPath, ...], Field(max_length=KEEP_FIELDS_MAX)]
"""Fields of a record that its state keeps besides those that templates name; or all fields."""


class PipelineSettings(Group):
    """How records become changes of counters; see `ledger/docs/internals/pipeline.md`.

    Pipelines of one table are independent. Lanes of one region add to the same sum item of a
    category, unless `slots` spread them. `adapt` names a function that converts each record before
    it is read (`ledger.pipeline.core.record_adapter`).
    """

    name: str = ""
    """Is part of every key of the pipeline; up to 32 of the characters a-z 0-9 -."""
    fields: PipelineFields | None = None
    categories: Templates = ()
    measures: PipelineMeasures = PipelineMeasures()
    keep_fields: KeepFields = ()
    home: PipelineHome = PipelineHome()
    batch_max: Annotated[Count, Field(le=BATCH_RECORDS_MAX)] = 500
    in_flight: Count = constant(32)
    cache_max: Count = constant(50_000)
    reduce_every: Seconds = 0.25
    totals: Literal["sums", "entries"] = "sums"
    slots: Annotated[Count, Field(le=SLOTS_MAX)] = 1
    record_bytes_max: Count = constant(65_536)
    dead_letter_queue: str | None = None
    deletes: Literal["refuse", "ignore"] = "refuse"
    state_table: str | None = None
    keep_states: PositiveSeconds | None = None
    adapt: Annotated[str, AfterValidator(_as_adapt)] | None = None

    @property
    def is_configured(self) -> bool:
        """Whether it says which records count where."""
        return self.fields is not None or bool(self.categories)

    @field_validator("name")
    @classmethod
    def _is_name(cls, name: str) -> str:
        if name and not _NAME.fullmatch(name):
            raise rule(_NAME_RULE)
        return name

    @field_validator("state_table")
    @classmethod
    def _is_table(cls, table: str | None) -> str | None:
        return table if table is None else table_name(table)

    @field_validator("dead_letter_queue")
    @classmethod
    def _is_queue(cls, url: str | None) -> str | None:
        if url is not None and not is_url(url):
            raise rule("dead_letter_queue must be the URL of an SQS queue")
        return url


def _named(value: object) -> object:
    """Name each of several pipelines by its key."""
    if not isinstance(value, Mapping):
        return value
    return {name: _with_name(name, one) for name, one in value.items()}


def _with_name(name: str, one: object) -> object:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise rule(_NAME_RULE)
    given = one.get("name") if isinstance(one, Mapping) else getattr(one, "name", name)
    if given not in {None, name}:
        raise rule(f"the pipeline under {name!r} has name {given!r}: remove one of them")
    return {**one, "name": name} if isinstance(one, Mapping) else one


Pipelines = Annotated[
    dict[str, PipelineSettings], BeforeValidator(_named), Field(max_length=PIPELINES_MAX)
]
"""Pipelines by their names, besides or in place of the one under `pipeline`."""
