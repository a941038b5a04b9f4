"""Each region is reached at an endpoint of its own, by the settings or the SDK's configuration.

`AWS_ENDPOINT_URL_DYNAMODB`, `AWS_ENDPOINT_URL`, and `endpoint_url` of a profile or of its
`services` section hold for every region. With two regions both names would be one replica: what was
"recorded in eu-west-1" would lie in us-east-1 alone.

Source: AWS SDKs and Tools Reference Guide, "Service-specific endpoints"
(https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html).
"""

import os
from typing import Any

from ledger.core.errors import SettingsError
from ledger.core.urls import without_passwords
from ledger.runtime.foreign import FOREIGN
from ledger.settings import Settings
from ledger.settings.groups import same_endpoint

TABLE = "dynamodb"
STREAM = "dynamodb_streams"
"""Names of services in the SDK's configuration."""
_GLOBAL = "AWS_ENDPOINT_URL"


def check_apart(settings: Settings, region: str, *, service: str = TABLE) -> None:
    """Make sure that no other region would be reached where this one is.

    Raises:
        SettingsError: one would.
    """
    others = [name for name in settings.regions if name != region]
    if not others:
        return
    own, source = _endpoint(settings, region, service)
    if own is None:
        return
    for other in others:
        there, _ = _endpoint(settings, other, service)
        if there is not None and same_endpoint(own, there):
            raise SettingsError(
                f"{source} ({without_passwords(own)}) would be the endpoint of {region} and"
                f" {other}: both would be one replica; give each an `endpoint` of its own"
            )


def _endpoint(settings: Settings, region: str, service: str) -> tuple[str | None, str]:
    """Return the endpoint of a region, None for AWS's own, and what names it."""
    described = settings.region(region)
    if described.endpoint is not None:
        return described.endpoint, "`endpoint` in `regions`"
    # Slow to import, and commands that send nothing do not need it.
    from botocore.session import Session  # noqa: PLC0415

    try:
        return _configured(Session(profile=described.profile), service)
    except FOREIGN:  # its own opening says so
        return None, ""


def _configured(session: Any, service: str) -> tuple[str | None, str]:
    """Return the endpoint in the SDK's configuration, as the SDK finds it."""
    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return None, ""
    for variable in (f"{_GLOBAL}_{service.upper()}", _GLOBAL):
        if found := os.environ.get(variable):
            return found, variable
    profile = session.get_scoped_config()
    services = session.full_config.get("services", {}).get(profile.get("services"), {})
    own = services.get(service, {})
    for section in (own, profile):
        if isinstance(section, dict) and (found := section.get("endpoint_url")):
            return found, "`endpoint_url` of the SDK's configuration"
    return None, ""
