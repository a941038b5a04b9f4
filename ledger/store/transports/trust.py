"""Whom a transport trusts: the certificates that botocore would take, and its way to use TLS.

What is wrong with them, or with the endpoint, is one error for both transports, before anything is
sent: aiobotocore would find it with each request, and not say that none was.
"""

import asyncio
import os
import ssl
from typing import Any

from aiobotocore.session import AioSession
from botocore.httpsession import create_urllib3_context, get_cert_path

from ledger.core.errors import SettingsError
from ledger.core.redaction import without_passwords
from ledger.settings.groups import is_url


async def check_configured(session: AioSession, client: Any) -> None:
    """Look at what the SDK's configuration says of the endpoint and of certificates.

    Raises:
        SettingsError: the endpoint is no URL of a service, or the certificates cannot be read.
    """
    endpoint = str(client.meta.endpoint_url)
    if not is_url(endpoint):
        raise SettingsError(
            f"the endpoint {without_passwords(endpoint)!r} (AWS_ENDPOINT_URL_DYNAMODB,"
            " AWS_ENDPOINT_URL, or `endpoint_url` of the profile) is no URL of http or https"
        )
    bundle = session.get_config_variable("ca_bundle")
    if endpoint.startswith("https:") and given_bundle(bundle):
        await trusting(bundle)


async def trusting(ca_bundle: str | None) -> ssl.SSLContext:
    """Trust the given bundle, else the one of REQUESTS_CA_BUNDLE, else botocore's.

    Raises:
        SettingsError: the bundle cannot be read.
    """
    # Reading a bundle of certificates takes longer than an event loop should stand still.
    return await asyncio.to_thread(_trusting, given_bundle(ca_bundle))


def given_bundle(ca_bundle: str | None) -> str | None:
    """Return the bundle that is trusted in place of botocore's, None for none."""
    return ca_bundle or os.environ.get("REQUESTS_CA_BUNDLE") or None


def _trusting(given: str | None) -> ssl.SSLContext:
    context: ssl.SSLContext = create_urllib3_context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.check_hostname = True
    bundle = given or get_cert_path(verify=True)
    try:
        context.load_verify_locations(cafile=bundle)
    except OSError as error:
        raise SettingsError(
            f"the certificates in {bundle} (AWS_CA_BUNDLE, REQUESTS_CA_BUNDLE or `ca_bundle` of the"
            f" profile) cannot be read: {error.strerror or error}"
        ) from error
    return context
