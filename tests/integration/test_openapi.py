"""The service is what its OpenAPI document says: for any request, and for a generated client."""

import json
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from lab.bench.node import PACKAGES
from support import needs
from support.commands import run_command, started
from support.serving import served
from support.sockets import listening

from ledger.http.service.access.access import OpenAccess
from ledger.http.service.access.tokens import SCOPES, TokenGrant
from ledger.testing import MemoryGlobalTable

SUPPORT = Path(__file__).resolve().parents[1] / "support"
TOKEN = "secret"
EXAMPLES_MAX = 5
"""Requests of each operation that are drawn; those of the other phases follow from the document."""


class OneToken(OpenAccess):
    """Lets in whoever has the token."""

    def grant(self, authorization: str | None) -> TokenGrant | None:
        """Return what a caller may do."""
        allowed = authorization == f"Bearer {TOKEN}"
        return TokenGrant("test", frozenset(SCOPES)) if allowed else None


@asynccontextmanager
async def running() -> AsyncIterator[str]:
    """Run a service on a port; every counter is in the index, and has sums and a budget."""
    table = MemoryGlobalTable(
        index=("*",),
        periods={"*": {"hours": 72, "days": 62}},
        budgets={"*": {}},
        books=("book/*",),
    )
    async with (
        served(table, access=OneToken(), body_max=1_000_000) as service,
        listening(service.app) as url,
    ):
        yield url


async def document() -> dict[str, Any]:
    """Return the service's document."""
    async with served() as service:
        found: dict[str, Any] = (await service.http.get("/openapi.json")).json()
        return found


@pytest.mark.tools("openapi_spec_validator")
async def test_the_document_is_valid() -> None:
    """By the schema of OpenAPI 3.1."""
    from openapi_spec_validator import OpenAPIV31SpecValidator  # noqa: PLC0415 (a tool)

    OpenAPIV31SpecValidator(await document()).validate()


async def test_every_reference_of_the_document_resolves() -> None:
    """To a schema that is there; and every schema is referred to, or is an answer or a body."""
    found = await document()
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(found)))
    assert names <= set(found["components"]["schemas"])
    assert {"Entry", "EntryBody", "Problem", "Total", "Description"} <= names


async def test_every_operation_says_what_may_go_wrong() -> None:
    """Every operation of the table's data declares a problem, and takes a token."""
    found = await document()
    for path, operations in found["paths"].items():
        for name, operation in operations.items():
            if path.startswith("/v1/"):
                for status in ("400", "422", "503"):
                    content = operation["responses"][status]["content"]
                    assert list(content) == ["application/problem+json"], (path, name, status)
                assert "security" not in operation, (path, name)


@pytest.mark.tools("schemathesis")
@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_any_request_is_answered_as_the_document_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All checks of schemathesis, in all its phases; but for the stream that never ends."""
    # The other region has no endpoint here: it is found out of reach at once, and asked by nobody.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    environment = os.environ | {
        "SCHEMATHESIS_HOOKS": "openapi_formats",
        "PYTHONPATH": str(SUPPORT),
    }
    async with running() as url:
        command = [
            needs.program("schemathesis"),
            "--config-file", str(SUPPORT / "schemathesis.toml"),
            "run", f"{url}/openapi.json",
            "--header", f"Authorization: Bearer {TOKEN}",
            "--checks", "all",
            "--max-examples", str(EXAMPLES_MAX),
            "--seed", "1",
            "--request-timeout", "120",
            "--max-response-time", "90",  # a request may prefer to wait for a minute
            "--exclude-path", "/v1/live",
            "--no-color",
        ]  # fmt: skip
        done = await anyio.run_process(command, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout.decode()[-6_000:]


def recent_key() -> str:
    """Return a UUIDv7 of now."""
    millis = f"{int(time.time() * 1000):012x}"
    return f"{millis[:8]}-{millis[8:]}-7a31-8b1c-5f2d9e4a6b70"


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """Run `ledger serve` on a local table with books and credits; yield its URL and a token."""
    terms = ("index=*", "budgets=key/*=credits:on", "books=book/*")
    up = ("local", "up", "--no-table", "--regions", "us-east-1", "--write-config", "regions.yaml")
    made = ("create", "test", "--scope", "read", "--scope", "write", "--scope", "admin")
    with ExitStack() as stack:
        stack.enter_context(started(folder, ["ledger", *up], "Ctrl-C stops it"))
        sets = [word for term in terms for word in ("--set", term)]
        created = run_command("ledger", "table", "create", *sets, folder=folder)
        assert created.status == 0, created.errors
        token = run_command("ledger", "token", *made, folder=folder).out.strip()
        serve = ["ledger", "serve", "--tokens", "tokens.json", "--port", "0"]
        line = stack.enter_context(started(folder, serve, "is served at"))
        yield line.split()[-1], token


@pytest.mark.tools("typescript")
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_generated_client_compiles_and_works(tmp_path: Path) -> None:
    """TypeScript, strict, by openapi-typescript and openapi-fetch; Node runs it on a service."""
    modules = (PACKAGES / "node_modules").resolve()
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(SUPPORT / "typescript" / "main.ts", tmp_path)

    async def run(*command: str) -> str:
        done = await anyio.run_process(["node", *command], check=False, cwd=tmp_path)
        output = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == 0, output
        return done.stdout.decode()

    (tmp_path / "openapi.json").write_text(json.dumps(await document()))
    generator = modules / "openapi-typescript" / "bin" / "cli.js"
    await run(str(generator), "openapi.json", "--output", "schema.ts")
    compiler = modules / "typescript" / "bin" / "tsc"
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"]
    await run(str(compiler), *options, "main.ts")
    with serving(tmp_path) as (url, token):
        seen = json.loads(await run("main.js", url, token, recent_key()))
    paid = {"EUR": {"cash": "-12.5", "customer/alice": "12.5"}}
    assert seen == {
        "record 12.50": [201, "12.5", "from TypeScript"],
        "record 12.5": [200, "12.5", "from TypeScript"],
        "record 13": [409, "/problems/key-conflict", "not_applied", False],
        "total": "12.5",
        "totals": [["12.5"], []],
        "many": [[201, None], [400, "/problems/invalid-counter"]],
        "described": {"size": {"number": "42"}, "colour": "red"},
        "history": ["12.5", "1"],
        "budget": ["5", "5"],
        "spend 4": [201, "-4", 1],
        "spend 2": [409, "/problems/budget-exceeded"],
        "credit": [201, "3", 200, "3"],
        "transfer": [201, "0", [["cash", "-12.5"], ["customer/alice", "12.5"]], {"order": "17"}],
        "balances": [paid, {"EUR": {"customer/alice": "12.5"}}, 1],
        "unbalanced": [
            400,
            "/problems/unbalanced",
            "the legs of a transfer must sum to 0 in each asset, got 1 in EUR",
        ],
    }
