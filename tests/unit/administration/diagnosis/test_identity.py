"""Whose credentials a region's requests are signed with: asked of a server that answers as STS."""

from pathlib import Path

import pytest
from support.ledgers import HOME, LOCAL
from support.strangers import answering, refused

from ledger.administration.diagnosis.identity import identify, known_regions
from ledger.administration.diagnosis.observations import Cause, CredentialsObservation, FailedLook
from ledger.core.errors import AccessDenied
from ledger.settings import Settings

ARN = "arn:aws:iam::111122223333:user/me"
AWS = Settings(regions={HOME: {}}, request_timeout=5)
_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
CALLER = f"""<GetCallerIdentityResponse xmlns="{_NAMESPACE}"><GetCallerIdentityResult>
<Arn>{ARN}</Arn><UserId>U</UserId><Account>111122223333</Account></GetCallerIdentityResult>
</GetCallerIdentityResponse>"""


def refusal(code: str) -> str:
    """Return the answer of STS that refuses."""
    return (
        f'<ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>Sender</Type><Code>{code}</Code>'
        "<Message>no</Message></Error><RequestId>1</RequestId></ErrorResponse>"
    )


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without credentials, of which the SDK asks nobody."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


async def test_an_endpoint_on_this_machine_asks_for_none() -> None:
    """Nobody is asked, and nothing has to be found."""
    found = await identify(Settings(regions={HOME: LOCAL}), HOME)
    assert isinstance(found, CredentialsObservation)
    assert found.is_local


async def test_no_credentials() -> None:
    """Are a failure of their own kind."""
    found = await identify(AWS, HOME)
    assert isinstance(found, FailedLook)
    assert found.cause is Cause.NO_CREDENTIALS


async def test_a_profile_that_is_not_there() -> None:
    """Is the SDK's error, which names it."""
    with pytest.raises(Exception, match="absent") as raised:
        await identify(Settings(regions={HOME: {"profile": "absent"}}), HOME)
    assert not isinstance(raised.value, AccessDenied)


@pytest.mark.usefixtures("keys")
async def test_whose_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ARN, and where they were found."""
    with answering((200, "text/xml", CALLER.encode()), is_aws=True) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        assert await identify(AWS, HOME) == CredentialsObservation("env", ARN)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("ExpiredToken", Cause.EXPIRED),
        ("InvalidClientTokenId", Cause.BAD_CREDENTIALS),
        ("AccessDenied", Cause.DENIED),
    ],
)
async def test_what_sts_refuses(monkeypatch: pytest.MonkeyPatch, code: str, cause: Cause) -> None:
    """Expired, wrong, and not allowed to ask are told apart."""
    with answering((403, "text/xml", refusal(code).encode()), is_aws=True) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        found = await identify(AWS, HOME)
    assert isinstance(found, CredentialsObservation)
    assert isinstance(found.identity, FailedLook)
    assert found.identity.cause is cause


@pytest.mark.usefixtures("keys")
async def test_sts_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The credentials are found all the same; an endpoint of others is not even asked about."""
    with refused() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        found = await identify(AWS, HOME)
        other = Settings(regions={HOME: {"endpoint": "http://dynamo.example:8000"}})
        assert await identify(other, HOME) == CredentialsObservation("env")
    assert isinstance(found, CredentialsObservation)
    assert isinstance(found.identity, FailedLook)
    assert found.identity.cause is Cause.UNANSWERED


def test_regions_of_all_partitions_are_known() -> None:
    """China and GovCloud among them; a slip of the pen is none."""
    known = known_regions()
    assert {"us-east-1", "cn-north-1", "us-gov-west-1"} <= known
    assert "eu-wst-1" not in known


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("is_aws", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        (200, "application/json", b"{}"),
        (200, "application/json", b"[]"),
        (403, "application/json", b'{"message": "Forbidden"}'),
        (200, "text/xml", b"<Other/>"),
        (200, "text/xml", b""),
    ],
    ids=["object", "list", "refused", "other", "nothing"],
)
async def test_what_is_no_answer_of_sts_leaves_the_identity_unknown(
    answer: tuple[int, str, bytes], monkeypatch: pytest.MonkeyPatch, *, is_aws: bool
) -> None:
    """A gateway, or another local service, may speak JSON, or another dialect of XML."""
    with answering(answer, is_aws=is_aws) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        found = await identify(AWS, HOME)
    assert isinstance(found, CredentialsObservation)
    assert isinstance(found.identity, FailedLook)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("endpoint", ["notaurl", "http://[::1", "http://host:99999"])
async def test_a_malformed_endpoint_leaves_the_identity_unknown(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK raises a bare ValueError for it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", endpoint)
    found = await identify(AWS, HOME)
    assert isinstance(found, CredentialsObservation)
    assert isinstance(found.identity, FailedLook)
