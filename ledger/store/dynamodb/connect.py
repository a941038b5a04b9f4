"""How a client of one region is built: the same for boto3 and for aiobotocore."""

import ipaddress
from typing import TypedDict
from urllib.parse import urlsplit

from ledger.settings.groups import Region

LOCAL_CREDENTIAL = "local"
"""Key and secret for a local engine; letters only, because DynamoDB Local requires it."""


class ClientOptions(TypedDict, total=False):
    """Keyword arguments of `Session.client("dynamodb", ...)`."""

    region_name: str
    endpoint_url: str
    aws_access_key_id: str
    aws_secret_access_key: str


def client_options(region_name: str, region: Region) -> ClientOptions:
    """Return the options of a client of one region; the profile belongs to the session instead.

    An endpoint on this machine without a profile gets dummy credentials, so a laptop without AWS
    credentials works with the local global table, and real ones are never sent to it.
    """
    options = ClientOptions(region_name=region_name)
    if region.endpoint is None:
        return options
    options["endpoint_url"] = region.endpoint
    if region.profile is None and _is_loopback(region.endpoint):
        options["aws_access_key_id"] = LOCAL_CREDENTIAL
        options["aws_secret_access_key"] = LOCAL_CREDENTIAL
    return options


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
