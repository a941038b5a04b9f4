"""`ledger serve`: the service over HTTP, of one region.

The table of `ledger serve --local`: a local global table with everything the page can show.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from compactor.job import Compactor
from ledger.commands.regions import Region, region_of
from ledger.core.errors import InvalidInput
from ledger.http.service.access.access import Access, FileAccess, OpenAccess
from ledger.http.service.options import CONNECTIONS_OF_ADDRESS_MAX, ServiceOptions, Tls
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.command_line import Config, new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.descriptors import connections_allowed
from ledger.runtime.logs import LogFormat, LogFormatOption, begin_logging
from ledger.runtime.loops import run_tuned
from ledger.runtime.metrics import program_registry
from ledger.runtime.output import needing, say
from ledger.runtime.tasks import background_tasks
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.settings.fields import parse_duration
from ledger.settings.variables import TOKENS_VARIABLE

PASS_SECONDS = 2.0
"""The wait between two passes of its compactor, so that a new counter is listed soon."""
log = logging.getLogger(__name__)


@asynccontextmanager
async def trial_table(regions: Sequence[str]) -> AsyncIterator[Settings]:
    """Yield the settings of a table that runs meanwhile, with its compactor.

    All counters are in its index and have sums by period; those named `book/...` are books, and
    budgets named `wallet/...` take credits.
    """
    budgets = {"wallet/*": {"credits": True}, "*": {}}
    async with LocalGlobalTable.start(regions=regions) as world, background_tasks() as tasks:
        settings = world.settings(index=["*"], periods={"*": {}}, budgets=budgets, books=["book/*"])
        compactor = Compactor(settings)
        tasks.start_soon(
            partial(compactor.run_every, PASS_SECONDS, on_error=partial(log.warning, "merging: %s"))
        )
        yield settings


LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
LOCAL_REGIONS = ("us-east-1", "eu-west-1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The region that is served, where, and to whom."""

    region: Region = None
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 for a free one.")] = 8080
    tokens: Annotated[
        Path | None,
        typer.Option(envvar=TOKENS_VARIABLE, help="File of tokens, as `ledger token` writes it."),
    ] = None
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Require no token; only on a loopback address.")
    ] = False
    local: Annotated[
        bool,
        typer.Option(
            "--local",
            help="Try it: a local global table with its compactor in this process, and the service"
            " of each of its two regions, on PORT and the next.",
        ),
    ] = False
    tls_certificate: Annotated[
        Path | None, typer.Option(help="Certificate chain, PEM.", show_default="no TLS")
    ] = None
    tls_key: Annotated[
        Path | None, typer.Option(help="Its private key, PEM.", show_default=False)
    ] = None
    tls_clients: Annotated[
        Path | None,
        typer.Option(
            help="Authority, PEM, whose certificate each client must show.", show_default=False
        ),
    ] = None
    drain: Annotated[
        str, typer.Option(help="Time from SIGTERM until new requests are refused.")
    ] = "5s"
    connections_per_address: Annotated[
        int,
        typer.Option(
            min=1,
            help="Connections of one address at a time. Behind a proxy all have the proxy's: give"
            " as many as it opens.",
        ),
    ] = CONNECTIONS_OF_ADDRESS_MAX
    log_format: LogFormatOption = LogFormat.TEXT
    config: Config = None

    def access(self) -> Access:
        """Return the access rules: the tokens and what each may do.

        Raises:
            InvalidInput: neither tokens nor --insecure is given, or both; or not on a loopback
                address.
            LedgerError: the file of tokens cannot be read.
        """
        if self.insecure:
            if self.tokens is not None:
                raise InvalidInput("--insecure requires no token: leave out --tokens")
            if self.host not in LOOPBACK:
                raise InvalidInput(
                    "--insecure is for a loopback address (127.0.0.1, ::1), not for --host"
                    f" {self.host}: anyone who reaches it could write; make tokens with"
                    " `ledger token create`"
                )
            return OpenAccess()
        if self.tokens is None:
            raise InvalidInput(
                "give --tokens FILE, which `ledger token create --tokens FILE` makes, or --insecure"
                " to try it on this machine only"
            )
        return FileAccess(self.tokens, SystemClock())

    def of_service(self) -> ServiceOptions:
        """Return the options of the service.

        Raises:
            InvalidInput: a part of TLS is missing, or the time of --drain is not a duration.
        """
        return ServiceOptions(
            self.host,
            self.port,
            tls=self._tls(),
            drain_seconds=parse_duration(self.drain),
            of_address=self.connections_per_address,
            loopback_only=self.insecure,
        )

    def _tls(self) -> Tls | None:
        if not (self.tls_certificate or self.tls_key or self.tls_clients):
            return None
        if self.tls_certificate is None or self.tls_key is None:
            raise InvalidInput("TLS needs both --tls-certificate and --tls-key")
        return Tls(self.tls_certificate, self.tls_key, self.tls_clients)


app = new_app()


@app.command()
@spread_options
def serve(given: ServeOptions) -> None:
    """Serve the ledger of one region over HTTP, until SIGTERM.

    Any number of processes may serve in parallel. After SIGTERM /readyz answers 503 while requests
    are still accepted for the time of --drain; then those under way are finished.
    """
    if given.local and (given.config is not None or given.region is not None):
        raise InvalidInput("--local makes its own table: leave out --config and --region")
    begin_logging(given.log_format)
    access = given.access()
    options = given.of_service()
    settings = None if given.local else Settings.load(given.config)
    regions = LOCAL_REGIONS if settings is None else (region_of(settings, given.region),)
    allowed = connections_allowed(options.connections, listeners=len(regions))
    options = replace(options, connections=allowed)
    run_tuned(_serve(settings, regions, options, access))


async def _serve(
    settings: Settings | None, regions: Sequence[str], options: ServiceOptions, access: Access
) -> None:
    with needing("`ledger serve`"):
        # Imported here: FastAPI and uvicorn are an extra.
        from ledger.http.service.server import ServerInstance, serve  # noqa: PLC0415
    async with _settings_of(settings, regions) as chosen:
        instances = []
        for place, region in enumerate(regions):
            registry = program_registry()
            instances.append(
                ServerInstance(
                    Ledger.open(chosen, region=region, registry=registry),
                    replace(options, port=options.port + place if options.port else 0),
                    registry,
                    partial(_say_listening, region, options),
                )
            )
        await serve(instances, access=access, clock=SystemClock(), randomness=system_random())
    say("stopped", err=True)


@asynccontextmanager
async def _settings_of(
    settings: Settings | None, regions: Sequence[str]
) -> AsyncIterator[Settings]:
    """Yield the settings; without any, those of a local global table that runs meanwhile."""
    if settings is not None:
        yield settings
        return
    from ledger.commands.serve import trial_table  # noqa: PLC0415 (few services have one)

    async with trial_table(regions) as made:
        yield made


def _say_listening(region: str, options: ServiceOptions, port: int) -> None:
    scheme = "http" if options.tls is None else "https"
    host = f"[{options.host}]" if ":" in options.host else options.host
    say(f"{region} is served at {scheme}://{host}:{port}", err=True)
