"""Client request tokens, by which DynamoDB knows a transaction's repeats for ten minutes.

Pure: no clock, no randomness, no I/O.
"""

import hashlib

REQUEST_TOKEN_CHARACTERS = 36
"""As many as DynamoDB's ClientRequestToken may have."""


def request_token(*parts: str) -> str:
    """Return what stands for these texts, in this order, as a ClientRequestToken."""
    digest = hashlib.sha256()
    for part in parts:
        text = part.encode()
        digest.update(len(text).to_bytes(4, "big") + text)
    return digest.hexdigest()[:REQUEST_TOKEN_CHARACTERS]
