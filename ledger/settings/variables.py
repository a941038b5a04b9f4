"""The `LEDGER_*` environment variables: which exist, what they set, and which are mistakes."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast, get_origin

from pydantic import BaseModel

from ledger.core.errors import SettingsError

PREFIX = "LEDGER_"
NESTING = "__"
CONFIG_VARIABLE = "LEDGER_CONFIG"
REGION_VARIABLE = "LEDGER_REGION"
AWS_VARIABLE = "AWS_REGION"
"""Where AWS names the region in which a function runs."""
TOKENS_VARIABLE = "LEDGER_TOKENS"
PIPELINE_VARIABLE = "LEDGER_CHOSEN_PIPELINE"
OTHERS: Mapping[str, str] = MappingProxyType(
    {
        CONFIG_VARIABLE: "Names the file of settings, where `--config` does not.",
        REGION_VARIABLE: "Names the region of a command without `--region`.",
        PIPELINE_VARIABLE: "Names the pipeline that a Lambda function runs.",
        "LEDGER_DYNOXIDE": "Names the program dynoxide, an engine of the local global table.",
        "LEDGER_LOG_FORMAT": "Is `text` or `json`, where `--log-format` is not given.",
        TOKENS_VARIABLE: "Names the service's file of tokens.",
    }
)
"""Variables of ours that are not settings, and what each says."""

# Those of our own tests, those that `ledger lease run` passes to a command, and those that
# Kubernetes sets in each pod for a Service whose name begins with `ledger`:
# kubernetes.io/docs/concepts/services-networking/service/#environment-variables
_NOT_READ = re.compile(
    r"LEDGER_(REQUIRE|BANK_FILE|DYNAMODB_LOCAL|SIM_.+|TRIAL_.+|LEASE_(NAME|OWNER|EPOCH))"
    r"|LEDGER_(.+_)?SERVICE_(HOST|PORT(_.+)?)"
    r"|LEDGER_(.+_)?PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)


def read_variables(settings_type: type[BaseModel]) -> dict[str, Any]:
    """Return the values of the `LEDGER_*` variables, nested at `__`.

    Raises:
        SettingsError: a variable names no setting, or is not JSON where it should be.
    """
    names = {name for name in os.environ if name.upper().startswith(PREFIX)}
    if not {name.upper() for name in names} - {CONFIG_VARIABLE}:
        return {}
    if wrong := tuple(_unknown(sorted(names), settings_type)):
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise SettingsError(f"{wrong[0]}{more}", problems=wrong)
    # Imported only here: it takes as long as pydantic itself, and most processes set no variable.
    from pydantic_settings import BaseSettings, EnvSettingsSource  # noqa: PLC0415
    from pydantic_settings import SettingsError as UnreadableVariable  # noqa: PLC0415

    # The source uses the fields and `model_config` of the class, which every model has.
    fields = cast("type[BaseSettings]", settings_type)
    try:
        return dict(EnvSettingsSource(fields, env_prefix=PREFIX, env_nested_delimiter=NESTING)())
    except UnreadableVariable as error:
        for name in settings_type.model_fields:
            if f'"{name}"' in str(error):
                variable = variable_of((name,))
                raise SettingsError(
                    f"{variable}: must be JSON, or use {variable}{NESTING}..."
                ) from None
        raise SettingsError(str(error)) from None


def variable_of(location: tuple[str | int, ...]) -> str:
    """Return the variable, as it is spelled in the environment, that set a location."""
    spelled = {name.upper(): name for name in os.environ}
    for length in range(len(location), 0, -1):
        name = PREFIX + NESTING.join(str(part) for part in location[:length])
        if name.upper() in spelled:
            return spelled[name.upper()]
    return PREFIX + str(location[0]).upper()


def _unknown(names: list[str], settings_type: type[BaseModel]) -> Iterator[str]:
    """Yield a problem for each variable that nothing reads."""
    for name in names:
        upper = name.upper()
        if upper in OTHERS or _NOT_READ.fullmatch(upper) or _sets(upper, settings_type):
            continue
        known = {name.removeprefix(PREFIX): name for name in (*_settable(settings_type), *OTHERS)}
        near = difflib.get_close_matches(upper.removeprefix(PREFIX), known, n=1)
        advice = f"did you mean {known[near[0]]}?" if near else "see the settings in regions.yaml"
        yield f"{name}: no setting has this variable; {advice}"


def _sets(variable: str, settings_type: type[BaseModel]) -> bool:
    """Return whether a variable sets a field, or, nested at `__`, a part of one.

    An unknown part of a group is found with all other values, when they are checked.
    """
    name, *parts = variable.removeprefix(PREFIX).lower().split(NESTING)
    field = settings_type.model_fields.get(name)
    if field is None:
        return False
    has_parts = get_origin(field.annotation) in {dict, tuple} or _is_group(field.annotation)
    return has_parts or not parts


def _settable(group: type[BaseModel], above: str = PREFIX) -> Iterator[str]:
    """Yield the variables of all settings."""
    for name, field in group.model_fields.items():
        variable = above + name.upper()
        yield variable
        if _is_group(field.annotation):
            yield from _settable(cast("type[BaseModel]", field.annotation), variable + NESTING)


def _is_group(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
