"""The file of webhooks: which events go where, and by which secrets they are signed."""

import os
import re
from decimal import Decimal
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ledger.core.errors import LedgerError, SettingsError
from ledger.core.values import Entry
from ledger.core.watches import Watch
from ledger.http.webhooks.signatures import secrets_of
from ledger.runtime.files import read_bounded
from ledger.settings.rules import rule_of

HOOKS_MAX = 50
FILE_BYTES_MAX = 1_000_000
SECRETS_BYTES_MAX = 64 * 1024
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_BOOL = "tag:yaml.org,2002:bool"
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*", re.ASCII)


class _Yaml(yaml.SafeLoader):
    """YAML with the booleans of version 1.2: in 1.1 a bare `on`, as of a key, is true."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (as PyYAML types it)
        first: [(tag, form) for tag, form in resolvers if tag != _BOOL]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Yaml.add_implicit_resolver(
    _BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")
)


def _bound(value: object) -> object:
    """Return a bound as the file has it, exactly: a float of YAML has lost its digits."""
    if isinstance(value, float):
        raise ValueError(  # noqa: TRY004 (as pydantic asks)
            f'a bound is a whole number, or text such as "9.99", got {value!r}'
        )
    return value


Bound = Annotated[Decimal, BeforeValidator(_bound)]


def _check_place(url: SplitResult) -> None:
    """Check host and port of a URL.

    Raises:
        ValueError: no name and no address is written so.
    """
    host = url.hostname or ""
    try:
        _ = url.port
        if ":" in host or _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            ip_address(host)
        else:
            host.encode("idna")
    except ValueError as error:
        raise ValueError(f"url names no host and port: {error}") from None


class Hook(BaseModel):
    """One webhook: of `changes` each entry is an event, of `crossings` each crossing of a bound.

    With an `account`, or `PREFIX*`, of `changes` only transfers in books are that name such a one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    url: str
    on: Literal["changes", "crossings"] = "changes"
    counters: str = "*"
    account: str | None = None
    below: Bound | None = None
    above: Bound | None = None
    rearm: Bound | None = None
    secret: str | None = Field(None, repr=False)
    secret_env: str | None = None
    secret_file: Path | None = None
    private: bool = False

    @model_validator(mode="after")
    def _check(self) -> "Hook":
        url = urlsplit(self.url)
        is_plain = url.hostname and "@" not in url.netloc and not url.fragment
        if url.scheme not in {"http", "https"} or not is_plain:
            raise ValueError("url must be of https, without credentials and fragment")
        _check_place(url)
        if url.scheme == "http" and not self.private:
            raise ValueError("url must be of https: http is for `private: true` alone")
        bounds = (self.below, self.above)
        if (self.on == "crossings") == (bounds == (None, None)):
            raise ValueError("on: crossings needs a bound (below, above), on: changes has none")
        if self.account is not None and (self.on == "crossings" or not self.account):
            raise ValueError("account is a name, or PREFIX*, for on: changes alone")
        if (
            len([secret for secret in (self.secret, self.secret_env, self.secret_file) if secret])
            != 1
        ):
            raise ValueError("give one of secret, secret_env and secret_file")
        return self

    def matches(self, counter: str) -> bool:
        """Return whether a counter's events are its."""
        return fnmatchcase(counter, self.counters)

    def takes(self, entry: Entry) -> bool:
        """Return whether an entry is an event of its, or may have made a total cross."""
        if not self.matches(entry.counter):
            return False
        return self.account is None or any(self._is_account(leg.account) for leg in entry.legs)

    def _is_account(self, name: str) -> bool:
        wanted = self.account or ""
        return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted

    @property
    def watch(self) -> Watch | None:
        """The bound that is watched; None for changes.

        Raises:
            InvalidInput: it breaks a rule.
        """
        if self.on == "changes":
            return None
        return Watch.of(
            f"webhook {self.name}", self.counters, below=self.below, above=self.above,
            rearm=self.rearm,
        )  # fmt: skip

    def secrets(self) -> tuple[bytes, ...]:
        """Return the keys by which its events are signed: the newest first, as they are rotated.

        Raises:
            SettingsError: there is none, or one that is none.
        """
        try:
            if self.secret_file is not None:
                text = read_bounded(
                    self.secret_file, SECRETS_BYTES_MAX, what="file of secrets"
                ).decode()
            elif self.secret_env is not None:
                text = os.environ[self.secret_env]
            else:
                text = self.secret or ""
            return secrets_of(text)
        except (LedgerError, KeyError, ValueError) as error:
            raise SettingsError(
                f"webhook {self.name}: its secret cannot be used: {error}"
            ) from None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    webhooks: dict[str, Hook] = Field(min_length=1, max_length=HOOKS_MAX)


def read_hooks(path: Path) -> dict[str, Hook]:
    """Return the webhooks of a file, by name.

    Raises:
        LedgerError: it cannot be read.
        SettingsError: it breaks a rule; the message says where.
    """
    text = read_bounded(path, FILE_BYTES_MAX, what="file of webhooks", too_large=SettingsError)
    try:
        found = _File.model_validate(yaml.load(text, _Yaml))  # noqa: S506 (a safe one)
        hooks = {
            name: hook.model_copy(update={"name": name}) for name, hook in found.webhooks.items()
        }
        for name, hook in hooks.items():
            if not _NAME.fullmatch(name):
                raise SettingsError(
                    f"{path}: {name!r} must be 1 to 64 of a-z, 0-9, '.', '_' and '-'"
                )
            _ = hook.watch
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{path}: {place}: {rule_of(first)}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise SettingsError(f"{path} is no YAML") from None
    return hooks
