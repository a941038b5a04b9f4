"""`ledger token`: the file of tokens that `ledger serve` reads."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from ledger.core.errors import InvalidInput
from ledger.http.service.access.proxies import ProxyHeader
from ledger.http.service.access.token_file import (
    create_token,
    read_tokens,
    revoke_tokens,
    rotate_token,
    set_proxy,
)
from ledger.http.service.access.tokens import SCOPES, TokenRecord, checked_grant
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.command_line import AsJson, new_app
from ledger.runtime.console_tables import Column, Grid, print_grid
from ledger.runtime.output import print_json, say, utc_text
from ledger.settings.fields import parse_duration
from ledger.settings.variables import TOKENS_VARIABLE

app = new_app(about="Make, list, rotate and revoke tokens of the service.")

Tokens = Annotated[Path, typer.Option("--tokens", envvar=TOKENS_VARIABLE, help="File of tokens.")]
Name = Annotated[str, typer.Argument(help="The holder's name, as logs show it.")]
_FILE = Path("tokens.json")


@app.command()
def create(
    name: Name,
    *,
    scope: Annotated[list[str], typer.Option(help=f"One of {', '.join(SCOPES)}; repeatable.")],
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            help="What ids of its counters begin with, `key/`; repeatable.",
            show_default="every counter",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Requests, and looks of streams, a second.", show_default="no limit"),
    ] = None,
    at_once: Annotated[
        int | None, typer.Option(help="Requests at a time.", show_default="no limit")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="Validity, such as 90d.", show_default="never")
    ] = None,
    tokens: Tokens = _FILE,
    as_json: AsJson = False,
) -> None:
    """Make a token, and print it: only its hash is kept, so it is shown this once."""
    now = SystemClock().now()
    ends = None if expires is None else now + timedelta(seconds=parse_duration(expires))
    grant = checked_grant(name, scope, prefix or (), rate=rate, at_once=at_once)
    for literal in (each for each in grant.prefixes if each.endswith("*")):
        said = (
            f"a prefix is not a pattern: {literal!r} matches ids that begin with it, star included"
        )
        say(said, err=True)
    token = create_token(tokens, grant, now=now, randomness=system_random(), expires=ends)
    _print(token, name, as_json=as_json)


@app.command()
def rotate(
    name: Name,
    *,
    overlap: Annotated[str, typer.Option(help="How long the old token stays valid.")] = "24h",
    tokens: Tokens = _FILE,
    as_json: AsJson = False,
) -> None:
    """Make another token for a name, and print it; the previous one ends after the overlap."""
    token = rotate_token(
        tokens,
        name,
        now=SystemClock().now(),
        randomness=system_random(),
        overlap=timedelta(seconds=parse_duration(overlap)),
    )
    _print(token, name, as_json=as_json)


@app.command()
def revoke(name: Name, *, tokens: Tokens = _FILE, as_json: AsJson = False) -> None:
    """End the tokens of a name; running services see it within a second."""
    ended = revoke_tokens(tokens, name, now=SystemClock().now())
    if as_json:
        print_json([{"name": name, "revoked": ended}])
    else:
        say(f"{name}: {ended} revoked" if ended else f"{name} had no valid token")


@app.command("list")
def list_(*, tokens: Tokens = _FILE, as_json: AsJson = False) -> None:
    """List the tokens: their names, what they allow, and until when."""
    records = sorted(
        read_tokens(tokens).records.values(), key=lambda one: (one.grant.name, one.made)
    )
    if as_json:
        print_json(map(_fields, records))
        return
    columns = (
        Column("name"), Column("id"), Column("scopes"), Column("prefixes"), Column("made (UTC)"),
        Column("expires (UTC)"), Column("state"),
    )  # fmt: skip
    print_grid(Grid(columns, [tuple(map(str, _fields(record).values())) for record in records]))


@app.command()
def proxy(
    header: Annotated[
        str | None, typer.Argument(help="Header that has the caller's name, as X-Caller.")
    ] = None,
    addresses: Annotated[
        list[str] | None,
        typer.Argument(help="Where the proxy asks from, as 10.0.7.0/24.", metavar="ADDRESS..."),
    ] = None,
    *,
    none: Annotated[
        bool, typer.Option("--none", help="Take no header any more: callers show tokens.")
    ] = False,
    tokens: Tokens = _FILE,
    as_json: AsJson = False,
) -> None:
    """Let a proxy name callers by a header, from its addresses alone; without one, show it.

    The name is that of a token, which says what the caller may do and need not be handed out.
    Services that run see it within a second.
    """
    if none and header is not None:
        raise InvalidInput("--none takes the header away: give no HEADER beside it")
    if none:
        set_proxy(tokens, None)
    elif header is not None:
        set_proxy(tokens, ProxyHeader.of(header, addresses or ()))
    found = read_tokens(tokens).proxy
    shown = [] if found is None else [*map(str, found.networks)]
    if as_json:
        print_json([{"header": found.name if found else None, "addresses": shown}])
    else:
        say(f"{found.name} from {', '.join(shown)}" if found else "no header is taken")


def _print(token: str, name: str, *, as_json: bool) -> None:
    if as_json:
        print_json([{"name": name, "token": token}])
    else:
        say(token)


def _fields(record: TokenRecord) -> dict[str, Any]:
    grant = record.grant
    return {
        "name": grant.name,
        "id": record.id,
        "scopes": ", ".join(sorted(grant.scopes)),
        "prefixes": ", ".join(prefix or "every counter" for prefix in grant.prefixes),
        "made": utc_text(record.made),
        "expires": utc_text(record.expires) if record.expires else "never",
        "state": "valid" if record.is_valid(SystemClock().now()) else "expired",
    }
