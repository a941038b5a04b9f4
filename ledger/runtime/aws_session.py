"""Sessions of the AWS SDK that share what it reads from its own files, and check its answers.

A session of its own for each client keeps profiles and credentials apart, but each would read and
parse the SDK's description of its services again: some 95 of the 115 ms of processor time, and
most of the memory, that a client takes. The descriptions depend on the search path alone.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiobotocore.session import AioSession

_LOADERS: dict[str | None, Any] = {}
"""By the configured search path (`data_path`, AWS_DATA_PATH); what they hold is never changed."""


def open_session(profile: str | None = None) -> "AioSession":
    """Return a new session of this profile, by default of the one that the environment names.

    Errors are botocore's: of a profile that does not exist, or a configuration that is unreadable.
    """
    # It takes longer to import than all the rest, and many commands send nothing.
    from aiobotocore.session import AioSession  # noqa: PLC0415

    from ledger.runtime.aws_answers import LargeAnswers, check_answers_of  # noqa: PLC0415

    session = AioSession(profile=profile)
    path = session.get_config_variable("data_path")
    if path not in _LOADERS:
        _LOADERS[path] = session.get_component("data_loader")
    session.register_component("data_loader", _LOADERS[path])
    check_answers_of(session)
    session.register("before-parse", LargeAnswers().before_parse)
    return session
