"""The identity behind a region's credentials: found as the SDK finds them, asked of STS.

GetCallerIdentity needs no permission, so a refusal is due to the credentials themselves.

Source: AWS Security Token Service API Reference, "GetCallerIdentity".
"""

from ledger.administration.diagnosis.observations import Cause, CredentialsObservation, FailedLook
from ledger.administration.diagnosis.region_client import failed
from ledger.administration.diagnosis.region_findings import local_credentials
from ledger.runtime.aws_session import open_session
from ledger.runtime.foreign import FOREIGN
from ledger.settings import Settings
from ledger.store.dynamodb.connect import client_options


async def identify(settings: Settings, region: str) -> CredentialsObservation | FailedLook:
    """Return a region's credentials and their identity; STS is not asked for other endpoints.

    Errors are botocore's: the profile does not exist, or its credentials cannot be obtained.
    """
    # Slow to import, and commands without identity checks do not need it.
    from aiobotocore.config import AioConfig  # noqa: PLC0415

    reached = settings.region(region)
    if "aws_access_key_id" in client_options(region, reached):
        return local_credentials()
    session = open_session(reached.profile)
    credentials = await session.get_credentials()
    if credentials is None:
        return FailedLook(
            Cause.NO_CREDENTIALS, "the AWS SDK finds none in environment, files or host"
        )
    await credentials.get_frozen_credentials()  # renews those that are short-lived
    source = str(credentials.method)
    if not reached.is_aws:
        return CredentialsObservation(source)
    seconds = settings.request_timeout
    config = AioConfig(
        connect_timeout=seconds, read_timeout=seconds, retries={"total_max_attempts": 1}
    )
    try:
        async with session.create_client("sts", region_name=region, config=config) as client:
            name = str((await client.get_caller_identity())["Arn"])
    except FOREIGN as error:
        return CredentialsObservation(source, failed(error, region=region, table=settings.table))
    return CredentialsObservation(source, name)


def known_regions() -> frozenset[str]:
    """Return AWS's regions with DynamoDB, of all partitions, as far as the SDK knows them."""
    from botocore.session import Session  # noqa: PLC0415

    session = Session()
    return frozenset(
        name
        for partition in session.get_available_partitions()
        for name in session.get_available_regions("dynamodb", partition_name=partition)
    )
