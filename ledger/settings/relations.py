"""The relations between settings on which merging depends, each with the reason why it matters."""

from collections.abc import Iterator

from ledger.settings.fields import (
    AWS_SIGNATURE_SECONDS,
    SETTLE_MARGIN_SECONDS,
    SettingsFields,
)
from ledger.settings.pipelines import PipelineSettings
from ledger.settings.sources import Broken, did_you_mean

VIEW_SHARE_LEFT = 0.8
"""Seconds of `contract_life` that are left at least when a piece of work begins."""
_FOLLOWS = ", which follows from settle, signature_lifetime and clock_skew"
_UNREAD = "a read still running could miss an entry that is merged and deleted meanwhile"


def relations(settings: SettingsFields, *, has_homes: bool = True) -> Iterator[Broken]:
    """Yield each broken relation between settings, with the reason why it matters.

    With `has_homes` each home of a pipeline's records must be one of the regions.
    """
    home, regions = settings.home, settings.regions
    if home not in regions:
        text = f"home {home!r} is not one of the regions {', '.join(regions)}"
        yield Broken(("home",), text + did_you_mean(home, regions))
    if settings.marker_table == settings.table:
        yield Broken(
            ("marker_table", "table"),
            f"marker_table must not be {settings.table!r}, the table itself: leave it out to"
            " keep markers there",
        )
    yield from _broken_durations(settings)
    yield from _broken_by_signatures(settings)
    if settings.cache.incremental and len(regions) > 1:
        yield Broken(
            ("cache.incremental", "regions"),
            f"cache.incremental is for a table of one region, not of {len(regions)}: an entry of "
            "another region may arrive at any age, and would not be read",
        )
    if settings.cache.incremental and not settings.consistent_reads:
        yield Broken(
            ("cache.incremental", "consistent_reads"),
            "cache.incremental needs consistent_reads: an entry that a read missed would be missed "
            "for as long as the net change stays as it is",
        )
    yield from _broken_pipelines(settings)
    if has_homes:
        yield from _broken_homes(settings)


def _broken_pipelines(settings: SettingsFields) -> Iterator[Broken]:
    """Yield each rule of a pipeline that is broken, and each name that two of them have."""
    own, several = settings.pipeline, settings.pipelines
    if own.is_configured and own.name in several:
        yield Broken(
            ("pipeline.name", "pipelines"),
            f"two pipelines are called {own.name!r}, under pipeline and pipelines: they would use"
            " each other's states",
        )
    for place, chosen in _pipelines(settings).items():
        if chosen.keep_states is not None and not (chosen.fields and chosen.fields.time):
            yield Broken(
                (f"{place}.keep_states", f"{place}.fields.time"),
                f"{place}.keep_states needs {place}.fields.time: the age of a record goes by"
                " its own time",
            )
        if chosen.state_table in {settings.table, settings.marker_table} - {None}:
            yield Broken(
                (f"{place}.state_table", "table", "marker_table"),
                f"{place}.state_table must be a separate table for states, not"
                f" {chosen.state_table!r}: leave it out to keep states in the table itself",
            )


def _pipelines(settings: SettingsFields) -> dict[str, PipelineSettings]:
    named = {f"pipelines.{name}": one for name, one in settings.pipelines.items()}
    return {"pipeline": settings.pipeline, **named}


def _broken_homes(settings: SettingsFields) -> Iterator[Broken]:
    """Yield each home of a pipeline's records that is not a region of the table."""
    for place, chosen in _pipelines(settings).items():
        for pattern, region in chosen.home.regions.items():
            if region not in settings.regions:
                yield Broken(
                    (f"{place}.home.regions", "regions"),
                    f"{place}.home.regions sends {pattern!r} to {region!r}, which is not one of the"
                    f" regions {', '.join(settings.regions)}",
                )


def _broken_durations(settings: SettingsFields) -> Iterator[Broken]:
    """Yield each broken relation between durations: of those given, not of derived ones.

    A duration that was not given is as short as it must be, so it is never to blame.
    """
    given = settings.model_fields_set
    settle, horizon, life = settings.settle, settings.retry_horizon, settings.signature_lifetime
    skew, delay = settings.clock_skew, settings.observation_delay
    read_deadline, write_deadline = settings.read_deadline, settings.write_deadline
    parts = {"signature_lifetime": life, "clock_skew": skew}
    if "retry_horizon" in given:
        parts = {"retry_horizon": horizon, **parts}
    has_room = settle > horizon + life + skew
    if not has_room:
        shown = " + ".join(f"{part:g}" for part in parts.values())
        least = sum(parts.values())
        yield Broken(
            ("settle", *parts),
            f"settle ({settle:g} s) must exceed {' + '.join(parts)} "
            f"({shown} = {least:g} s): a retry that arrives after its entry was merged would be "
            f"counted twice; {least + SETTLE_MARGIN_SECONDS:g}s is long enough",
        )
    if "read_deadline" not in given and delay == 0:
        yield Broken(("observation_delay",), f"observation_delay must be over 0 s: {_UNREAD}")
    elif delay <= read_deadline:
        yield Broken(
            ("observation_delay", "read_deadline"),
            f"observation_delay ({delay:g} s) must exceed read_deadline ({read_deadline:g} s):"
            f" {_UNREAD}",
        )
    if VIEW_SHARE_LEFT * settings.contract_life <= delay:
        yield Broken(
            ("contract_life", "observation_delay"),
            f"contract_life ({settings.contract_life:g} s) must exceed observation_delay"
            f" ({delay:g} s) by a quarter: the compactor acts on the view of the contract that it"
            " had when it observed",
        )
    if "request_timeout" not in given and life == 0:
        yield Broken(
            ("signature_lifetime",), "signature_lifetime must be over 0 s: every request takes time"
        )
    elif settings.request_timeout > life:
        yield Broken(
            ("request_timeout", "signature_lifetime"),
            f"request_timeout ({settings.request_timeout:g} s) must not exceed signature_lifetime "
            f"({life:g} s): a request could then still arrive after settle assumes that it cannot",
        )
    if write_deadline > horizon and (has_room or "retry_horizon" in given):
        follows = "" if "retry_horizon" in given else _FOLLOWS
        yield Broken(
            ("write_deadline", "retry_horizon"),
            f"write_deadline ({write_deadline:g} s) must not exceed retry_horizon"
            f" ({horizon:g} s){follows}: a change is not repeated past the horizon",
        )


def _broken_by_signatures(settings: SettingsFields) -> Iterator[Broken]:
    """Yield the broken rule of how long a signature is valid."""
    life = settings.signature_lifetime
    on_aws = [name for name, region in settings.regions.items() if region.is_aws]
    if on_aws and 0 < life < AWS_SIGNATURE_SECONDS:
        yield Broken(
            ("signature_lifetime",),
            f"signature_lifetime ({life:g} s) must be {AWS_SIGNATURE_SECONDS:g} s or more for"
            f" {', '.join(on_aws)}, where requests go to AWS: it executes one that arrives 15"
            " minutes after its signature, which would be counted twice; only a region with an"
            " endpoint of its own may have less",
        )
