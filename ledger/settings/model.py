"""The settings: one frozen value, checked once, that every part receives as an argument.

`Settings.load` is for entry points: it reads a YAML file and the `LEDGER_*` environment variables.
`Settings(...)` in code reads neither. Both check every rule, including the relations between
durations on which merging depends, and raise `SettingsError` with a message of one line.

Durations are in seconds: a number, or text such as "250ms", "20s", "15m", "5h", "1d".
"""

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import (
    BaseModel,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ledger.core import contract
from ledger.core.contract import DURATIONS, Terms, matches_any
from ledger.core.contract_item import format_of
from ledger.core.errors import ContractConflict, SettingsError
from ledger.core.urls import ARCHIVE_PLACES_MAX, wrong_place
from ledger.settings.fields import SETTLE_MARGIN_SECONDS, SettingsFields
from ledger.settings.groups import (
    Region,
    ShardSteps,
    rule,
    table_name,
)
from ledger.settings.pattern_groups import PeriodSettings
from ledger.settings.pipelines import PipelineSettings
from ledger.settings.relations import relations
from ledger.settings.sources import (
    Sources,
    constants_in,
    did_you_mean,
    problems_of,
    raise_broken,
    read_sources,
    settings_error,
)

Patterns = TypeVar("Patterns", dict[str, ShardSteps], dict[str, PeriodSettings], tuple[str, ...])

_REGION_NAME = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]")


ELSEWHERE = "for the regions that the table has by now"
"""The context in which settings are made again for other regions than those they were given for."""
CONTRACTED = (
    "home", *DURATIONS, "shards", "unmerged", "combine", "periods", "archive", "index", "budgets",
    "books",
)  # fmt: skip
"""The settings that the table's contract holds, besides the names of the regions."""


_WITHOUT_OTHERS: Mapping[str, Any] = {
    "marker_table": None,
    "pipeline": PipelineSettings(),
    "pipelines": {},
    "time_to_live": False,
}


class Settings(SettingsFields):
    """Everything that can be set, checked as a whole; see the fields of `regions.yaml`.

    Raises:
        SettingsError: a rule is broken; `problems` has all that were found.
    """

    _terms: Terms | None = PrivateAttr(None)

    @classmethod
    def load(cls, path: str | Path | None = None, **overrides: Any) -> Self:
        """Read the settings: `overrides`, then `LEDGER_*` variables, then the file.

        The file is `path`, else the one that LEDGER_CONFIG names, else ./regions.yaml, which may be
        missing if the rest names the regions. Nested settings are merged, not replaced:
        LEDGER_CACHE__MAX_AGE=5 leaves the rest of `cache` alone.

        Raises:
            SettingsError: a rule is broken; the message names the file and line, or the variable.
        """
        if path is not None and not isinstance(path, str | Path):
            raise SettingsError(f"path must be a str or a Path, got {path!r}")
        sources = read_sources(cls, path, overrides)
        if constants := tuple(constants_in(sources, cls)):
            raise settings_error(constants, sources)
        try:
            return cls(**sources.merged())
        except SettingsError as error:
            if isinstance(error.__cause__, ValidationError):
                raise settings_error(problems_of(error.__cause__, cls), sources) from None
            raise

    def replace(self, **overrides: Any) -> Self:
        """Return the same settings with `overrides`, all rules checked again.

        A mapping for a group, such as `cache`, changes only the fields that it names. Values that
        were not set are derived again. `regions` and `shards` are replaced whole.

        Raises:
            SettingsError: a rule is broken.
        """
        return type(self)(**self._with(overrides))

    def elsewhere(self, **overrides: Any) -> Self:
        """Return the same settings with `overrides`, for the regions that the table has by now.

        As `replace`; but homes of a pipeline's records may be regions that are gone.
        """
        return self.model_validate(self._with(overrides), context=ELSEWHERE)

    def _with(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.model_fields_set}
        for name, value in overrides.items():
            group = getattr(self, name, None)
            if isinstance(group, BaseModel) and isinstance(value, Mapping):
                kept = {name: getattr(group, name) for name in group.model_fields_set}
                values[name] = {**kept, **value}
            else:
                values[name] = value
        return values

    def of_pipeline(self, name: str | None = None) -> Self:
        """Return these settings with the pipeline of a name as `pipeline`.

        Without a name: the one under `pipeline`, or the only one under `pipelines`.

        Raises:
            SettingsError: there is no pipeline of this name, or no name and several to choose from.
        """
        if name is not None and not isinstance(name, str):
            raise SettingsError(f"name of a pipeline must be a str, got {name!r:.80}")
        if name is None:
            named = self.pipeline.name
            if self.pipeline.is_configured or not (named or self.pipelines):
                return self
            name = named or (next(iter(self.pipelines)) if len(self.pipelines) == 1 else None)
        chosen = self.pipelines.get(name or "")
        if chosen is None:
            if name == self.pipeline.name and self.pipeline.is_configured:
                return self
            raise SettingsError(self._no_pipeline(name))
        others = {each: one for each, one in self.pipelines.items() if each != name}
        return self.model_copy(update={"pipeline": chosen, "pipelines": others})

    def _no_pipeline(self, name: str | None) -> str:
        own = [self.pipeline.name or "''"] if self.pipeline.is_configured else []
        known = ", ".join((*own, *self.pipelines)) or "none"
        missing = "several pipelines, and none named" if name is None else f"no pipeline {name!r}"
        return f"{missing}: those of the settings are {known} (--pipeline NAME)"

    def for_markers(self) -> Self:
        """Return the settings of the separate table for markers: same regions, with time to live.

        Raises:
            SettingsError: there is no such table.
        """
        if self.marker_table is None:
            raise SettingsError("`marker_table` does not name a table for markers")
        return self.replace(table=self.marker_table, marker_table=None, time_to_live=True)

    @property
    def state_tables(self) -> tuple[str, ...]:
        """The separate tables for states of pipelines."""
        named = (settings.state_table for settings in (self.pipeline, *self.pipelines.values()))
        return tuple(sorted({table for table in named if table}))

    def for_states(self, table: str | None = None) -> Self:
        """Return the settings of a table of states, by name or the only one.

        Raises:
            SettingsError: there is none of this name, or several and no name.
        """
        tables = self.state_tables
        if table is None and len(tables) == 1:
            table = tables[0]
        if table not in tables:
            known = ", ".join(tables) or "none"
            raise SettingsError(f"`state_table` of the pipelines names {known}: name one of them")
        return self.replace(table=table, **_WITHOUT_OTHERS)

    def region(self, name: str) -> Region:
        """Return how a region is reached.

        Raises:
            SettingsError: it is not one of the regions.
        """
        if not isinstance(name, str) or name not in self.regions:
            raise SettingsError(
                f"{name!r} is not one of the regions in the settings: {', '.join(self.regions)}"
                + did_you_mean(str(name), self.regions)
            )
        return self.regions[name]

    @property
    def current(self) -> Self:
        """These settings: constant ones are their own `LiveSettings`."""
        return self

    @property
    def validity(self) -> None:
        """No bound: settings without a contract do not expire."""
        return None

    async def renew(self) -> None:
        """Do nothing: these settings do not change."""

    @property
    def terms(self) -> Terms:
        """The terms of the table's contract that these settings obey, or would give to a table."""
        terms = self._terms
        if terms is None:  # computed once: its inputs cannot change
            terms = self._own_terms()
            object.__setattr__(self, "_terms", terms)
        return terms

    @property
    def home_first(self) -> list[str]:
        """The regions by name, the home before the others."""
        return sorted(self.regions, key=lambda name: name != self.home)

    def under(self, terms: Terms, *, home: str) -> Self:
        """Return these settings with the values of a contract.

        A region that only the contract names is reached as the AWS SDK finds it. `home` is the one
        in force. Local values that the contract bounds are cut to the bound, and local options that
        it rules out are off: `cache.incremental` once the table has, or had, another region.

        Raises:
            ContractConflict: a region must be reached at an endpoint, and the settings do not name
                one.
        """
        given = {
            **contracted(terms),
            "home": home,
            "regions": {name: self.reach(name) for name in terms.regions},
            "request_timeout": min(self.request_timeout, terms.signature_lifetime),
            "write_deadline": min(self.write_deadline, terms.retry_horizon),
        }
        if self.cache.incremental and (len(terms.regions) > 1 or terms.lost):
            given["cache"] = {"incremental": False}
        under = self.elsewhere(**given)
        object.__setattr__(under, "_terms", terms)
        return under

    def check_agrees(self, *accepted: Terms) -> None:
        """Check that what these settings state themselves is what the table's contract holds.

        `accepted` are the terms in force and, while a change is pending, those that it brings.

        Raises:
            ContractConflict: a value differs from all of them; the message has both.
        """
        own = self.terms
        for name in CONTRACTED:
            given = getattr(own, name)
            held = [getattr(terms, name) for terms in accepted]
            if name in self.model_fields_set and _in_order(given) not in map(_in_order, held):
                raise ContractConflict(
                    f"{name} is {_shown(given)} in the settings, {_shown(held[0])} in the contract"
                    f" of table {self.table}: remove it from the settings, or change the contract"
                    f" with {_command_for(name)}"
                )

    def check_written(self, region: str) -> None:
        """Check that a region may be written to under these terms.

        Raises:
            ContractConflict: a pending change adds or removes it, or it has left the table.
        """
        if region not in self.terms.written:
            raise ContractConflict(
                f"region {region} is not written to: a change of the table's contract adds it or"
                " takes it out (`ledger table show`); nothing was written"
            )

    def reach(self, name: str) -> Region:
        """Return how a region that the table's contract names is reached.

        Raises:
            ContractConflict: others are at endpoints other than AWS's, and this is not in the
                settings.
        """
        if name not in self.regions and not all(each.is_aws for each in self.regions.values()):
            raise ContractConflict(
                f"the contract of table {self.table} names region {name}, and the settings do not"
                " say at which endpoint it is: add it to `regions`"
            )
        return self.regions.get(name, Region())

    def _own_terms(self) -> Terms:
        return Terms(
            format=format_of(
                has_books=bool(self.books),
                has_credits=any(rule.credits for rule in self.budgets.values()),
            ),
            home=self.home,
            regions=tuple(self.regions),
            **{name: getattr(self, name) for name in DURATIONS},
            shards={
                pattern: tuple(contract.ShardRule(step.count, step.since) for step in steps)
                for pattern, steps in self.shards.items()
            },
            unmerged=self.unmerged,
            combine=self.combine,
            periods={pattern: rule.rule() for pattern, rule in self.periods.items()},
            archive=self.archive,
            index=self.index,
            budgets={pattern: rule.rule() for pattern, rule in self.budgets.items()},
            books=self.books,
        )

    def shards_at(self, counter: str, at: datetime) -> int | None:
        """Return how many shards a keyed change of `counter` with the id time `at` may use.

        The time is the entry's own, not now: a retry of the same change must reach the same shard
        whichever process sends it, or it would be counted twice. None while a pending change of
        the contract decides it.
        """
        return self.terms.shards_at(counter, at) if self.shards or self.terms.announced else 1

    def shards_now(self, counter: str, now: datetime) -> int:
        """Return how many shards a change of `counter` without a key may use."""
        return self.terms.shards_now(counter, now) if self.shards else 1

    def shards_max(self, counter: str) -> int:
        """Return how many shards a reader of `counter` must query: the most ever configured."""
        return self.terms.shards_read(counter)

    def combines(self, counter: str) -> bool:
        """Return whether plain changes of `counter` that wait together share an item."""
        return matches_any(counter, self.combine)

    def is_book(self, counter: str) -> bool:
        """Return whether `counter` is a book, whose entries are transfers."""
        return bool(self.books) and self.terms.is_book(counter)

    @field_validator("table", "marker_table")
    @classmethod
    def _is_table_name(cls, table: str | None) -> str | None:
        return table if table is None else table_name(table)

    @field_validator("regions")
    @classmethod
    def _are_regions(cls, regions: dict[str, Region]) -> dict[str, Region]:
        if not regions:
            raise rule("at least one region is needed")
        for name in regions:
            if not _REGION_NAME.fullmatch(name):
                raise rule(f"{name!r} is not the name of a region such as eu-west-1")
        return regions

    @field_validator("shards", "unmerged", "combine", "periods", "index", "budgets", "books")
    @classmethod
    def _are_patterns(cls, patterns: Patterns) -> Patterns:
        if "" in patterns:
            raise rule("an empty pattern matches no counter")
        for pattern in patterns:
            try:
                pattern.encode()
            except UnicodeEncodeError:
                raise rule(f"{pattern!r} has an unpaired surrogate, which no counter has") from None
        return patterns

    @field_validator("index")
    @classmethod
    def _are_of_prefixes(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            if not pattern.endswith("*"):
                raise rule(f"{pattern!r} must end in *: counters are listed by prefix")
        return patterns

    @field_validator("archive")
    @classmethod
    def _are_places(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            if wrong := wrong_place(url):
                raise rule(wrong)
        if len(urls) > ARCHIVE_PLACES_MAX or len({*urls}) < len(urls):
            raise rule(f"at most {ARCHIVE_PLACES_MAX} places, each once; got {', '.join(urls)}")
        return urls

    @model_validator(mode="after")
    def _settle_follows(self) -> Self:
        if "settle" not in self.model_fields_set:
            must_exceed = self.retry_horizon + self.signature_lifetime + self.clock_skew
            # A frozen model refuses assignment, and an assigned field would count as set.
            self.__dict__["settle"] = must_exceed + SETTLE_MARGIN_SECONDS
        return self

    @model_validator(mode="after")
    def _relations_hold(self, info: ValidationInfo) -> Self:
        raise_broken(tuple(relations(self, has_homes=info.context != ELSEWHERE)))
        return self

    # Defined last, so that it is outermost and catches what the validators above raise.
    @model_validator(mode="wrap")
    @classmethod
    def _raise_ours(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(values)
        except ValidationError as error:
            raise settings_error(problems_of(error, cls), Sources()) from error


def checked_settings(given: object) -> Settings:
    """Return the argument if it is a `Settings`.

    Raises:
        SettingsError: it is something else, such as the path of a file.
    """
    if isinstance(given, Settings):
        return given
    rule = "settings must be a Settings, from Settings.load(path) or made in code"
    raise SettingsError(f"{rule}, got {given!r}")


def contracted(terms: Terms) -> dict[str, Any]:
    """Return terms as values of settings by name: those of `CONTRACTED`."""
    shards = {
        pattern: [{"count": step.count, "since": step.since} for step in steps]
        for pattern, steps in terms.shards.items()
    }
    periods = {pattern: asdict(rule) for pattern, rule in terms.periods.items()}
    budgets = {pattern: asdict(rule) for pattern, rule in terms.budgets.items()}
    others = {name: getattr(terms, name) for name in CONTRACTED}
    return {**others, "shards": shards, "periods": periods, "budgets": budgets}


def _in_order(value: object) -> object:
    """Return a value to be compared: of patterns the first that matches counts."""
    return list(value.items()) if isinstance(value, Mapping) else value


def _command_for(name: str) -> str:
    return "`compactor move-home REGION`" if name == "home" else f"`ledger table set {name} VALUE`"


def _shown(value: object) -> str:
    return f"{value:g} s" if isinstance(value, float) else repr(value)
