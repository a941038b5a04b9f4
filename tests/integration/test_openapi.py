"""The service is what its OpenAPI document says: for any request, and for a generated client."""

import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from lab.bench.node import PACKAGES
from support import needs
from support.serving import served
from support.sockets import listening

from ledger.http.service.access.access import OpenAccess
from ledger.http.service.access.tokens import SCOPES, TokenGrant
from ledger.testing import MemoryGlobalTable

SUPPORT = Path(__file__).resolve().parents[1] / "support"
TOKEN = "secret"
KEY = "01a1fcde-71d8-7a31-8b1c-5f2d9e4a6b70"
"""A UUIDv7 of the time of the tests' clock."""
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


@pytest.mark.tools("typescript")
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_generated_client_compiles_and_works(tmp_path: Path) -> None:
    """TypeScript, strict, by openapi-typescript and openapi-fetch; run by Node."""
    modules = (PACKAGES / "node_modules").resolve()
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(SUPPORT / "typescript" / "main.ts", tmp_path)

    async def run(*command: str) -> str:
        done = await anyio.run_process(["node", *command], check=False, cwd=tmp_path)
        output = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == 0, output
        return done.stdout.decode()

    async with running() as url:
        async with httpx.AsyncClient(base_url=url) as http:
            (tmp_path / "openapi.json").write_bytes((await http.get("/openapi.json")).content)
        generator = modules / "openapi-typescript" / "bin" / "cli.js"
        await run(str(generator), "openapi.json", "--output", "schema.ts")
        compiler = modules / "typescript" / "bin" / "tsc"
        options = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"]
        await run(str(compiler), *options, "main.ts")
        seen = json.loads(await run("main.js", url, TOKEN, KEY))
    assert seen == {
        "record 12.50": [201, "12.5", "from TypeScript"],
        "record 12.5": [200, "12.5", "from TypeScript"],
        "record 13": [409, "/problems/key-conflict"],
        "total": "12.5",
        "totals": [["12.5"], []],
        "many": [[201, None], [400, "/problems/invalid-counter"]],
        "described": {"size": {"number": "42"}, "colour": "red"},
        "history": ["12.5", "1"],
        "budget": ["5", "5"],
        "spend 4": [201, "-4", 1],
        "spend 2": [409, "/problems/budget-exceeded"],
    }
