"""The URLs of an archive's places.

Passwords in URLs, which no message may show: more people read logs than settings.

Pure: no clock, no randomness, no I/O.
"""

import re

ARCHIVE_PLACES_MAX = 3
FILES = "file://"
S3 = "s3://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", flags=re.ASCII)
_PREFIX_BYTES_MAX = 800
"""S3's keys have 1,024 bytes at most (Amazon S3 User Guide, "Naming Amazon S3 objects")."""
_FORM = "an archive's place is s3://BUCKET/PREFIX or file:///ABSOLUTE/PATH"


def wrong_place(url: str) -> str:
    """Return what is wrong with the URL of a place; empty if nothing is.

    A bucket's name follows the rules of the Amazon S3 User Guide, "General purpose bucket naming
    rules": 3 to 63 characters of a to z, digits, dots and hyphens.
    """
    if not url.isprintable() or any(mark in url for mark in "?#\\, "):
        return f"{_FORM}, without spaces, commas and any of ? # \\, got {url!r}"
    if url.startswith(FILES):
        path = url.removeprefix(FILES)
        is_path = path.startswith("/") and path.strip("/") and ".." not in path.split("/")
        return "" if is_path else f"{_FORM}, got {url!r}"
    return _wrong_bucket(url) if url.startswith(S3) else f"{_FORM}, got {url!r}"


def bucket_of(url: str) -> tuple[str, str]:
    """Return the bucket of an S3 place, and the prefix of the keys of its objects."""
    bucket, _, prefix = url.removeprefix(S3).partition("/")
    return bucket, f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""


def _wrong_bucket(url: str) -> str:
    bucket, _, prefix = url.removeprefix(S3).partition("/")
    if not _BUCKET.fullmatch(bucket):
        return f"{bucket!r} in {url!r} is not the name of a bucket: 3 to 63 of a-z, 0-9, . and -"
    if len(prefix.encode()) > _PREFIX_BYTES_MAX or prefix.startswith("/"):
        return f"the prefix in {url!r} has over {_PREFIX_BYTES_MAX} bytes, or begins with /"
    return ""


HIDDEN = "***"

# RFC 3986, 3.2.1: user information ends at the last @ before the path.
_USER_INFORMATION = re.compile(r"(?<=://)[^/?#\s'\"]+(?=@)")


def without_passwords(text: str) -> str:
    """Return text in which the user and password of each URL are hidden."""
    return _USER_INFORMATION.sub(HIDDEN, text)
