"""Client request tokens, by which DynamoDB recognizes repeats of a transaction for ten minutes.

Pure: no clock, no randomness, no I/O.
"""

import hashlib

REQUEST_TOKEN_CHARACTERS = 36
"""The maximum length of DynamoDB's ClientRequestToken."""


def request_token(*parts: str) -> str:
    """Return the ClientRequestToken for these texts in this order."""
    digest = hashlib.sha256()
    for part in parts:
        text = part.encode()
        digest.update(len(text).to_bytes(4, "big") + text)
    return digest.hexdigest()[:REQUEST_TOKEN_CHARACTERS]
