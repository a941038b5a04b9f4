"""The errors of the AWS SDK are caught as one kind; only where they are mapped is one named."""

import ast

import pytest
from unit.test_purity import sources

SDKS = ("botocore", "aiobotocore", "aiohttp")
MAPPED_IN = ("ledger.store.dynamodb", "ledger.store.transports", "ledger.runtime.foreign")
OTHERS = {
    "ledger.reads.archive.places.s3": "reads bodies, whose errors are those of HTTP",
    "ledger.local.engines.dynoxide": "asks its engine over HTTP",
    "ledger.local.front.endpoints": "serves HTTP, and refuses a body that is too large",
}


def named_in(source: str) -> set[str]:
    """Return the errors of an SDK that a module catches by name."""
    if not any(sdk in source for sdk in SDKS):
        return set()
    tree = ast.parse(source)
    imported = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in SDKS
        for name in node.names
    } | {
        (name.asname or name.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
        if name.name.split(".")[0] in SDKS
    }
    caught = [node.type for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    return {
        name.id
        for type_ in caught
        if type_ is not None
        for name in ast.walk(type_)
        if isinstance(name, ast.Name) and name.id in imported
    }


def test_no_module_catches_an_error_of_the_sdk_by_name() -> None:
    """A list of names always misses one: `FOREIGN` of `ledger.runtime.foreign` has all."""
    found = {
        name: named_in(source)
        for name, source in sources().items()
        if not name.startswith((*MAPPED_IN, *OTHERS))
    }
    assert {name: errors for name, errors in found.items() if errors} == {}


@pytest.mark.parametrize("name", OTHERS)
def test_an_exception_is_needed(name: str) -> None:
    """A module that names one no more is no exception."""
    assert named_in(sources()[name])
