"""What a transport trusts: the certificates that botocore would use, and its TLS setup.

A problem with them, or with the endpoint, is the same error for both transports, before anything is
sent: aiobotocore would find it with each request, and not report that nothing was sent.
"""

import os
import ssl
from functools import cache, partial
from typing import Any

from aiobotocore.session import AioSession
from botocore.httpsession import create_urllib3_context, get_cert_path

from ledger.core.errors import SettingsError
from ledger.core.urls import without_passwords
from ledger.runtime.threads import ThreadedCall
from ledger.settings.groups import is_url


async def check_configured(session: AioSession, client: Any) -> None:
    """Check the endpoint and the certificates in the SDK's configuration.

    Raises:
        SettingsError: the endpoint is not the URL of a service, or the certificates cannot be read.
    """
    endpoint = str(client.meta.endpoint_url)
    if not is_url(endpoint):
        raise SettingsError(
            f"the endpoint {without_passwords(endpoint)!r} (AWS_ENDPOINT_URL_DYNAMODB,"
            " AWS_ENDPOINT_URL, or `endpoint_url` of the profile) is not an http or https URL"
        )
    bundle = session.get_config_variable("ca_bundle")
    if endpoint.startswith("https:") and given_bundle(bundle):
        await trusting(bundle)


async def trusting(ca_bundle: str | None) -> ssl.SSLContext:
    """Trust the given bundle, else the one in REQUESTS_CA_BUNDLE, else botocore's.

    Raises:
        SettingsError: the bundle cannot be read.
        LedgerError: it was not read within a bound.
    """
    # Reading a bundle of certificates would block the event loop for too long.
    return await _reading(given_bundle(ca_bundle)).result()


def given_bundle(ca_bundle: str | None) -> str | None:
    """Return the bundle that is trusted instead of botocore's; None for botocore's."""
    return ca_bundle or os.environ.get("REQUESTS_CA_BUNDLE") or None


@cache
def _reading(given: str | None) -> ThreadedCall[ssl.SSLContext]:
    return ThreadedCall(partial(_trusting, given), what="the read of the certificates to trust")


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
