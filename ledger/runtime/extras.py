"""Messages about a package that is not installed.

The distribution is not on a package index, and another could take its name there: the message names
a package that exists, or this repository.
"""


def install(package: str, *, extra: str) -> str:
    """Return how to install a package; one of our extras names it with the supported versions."""
    return f"pip install {package}, or from this repository pip install '.[{extra}]'"
