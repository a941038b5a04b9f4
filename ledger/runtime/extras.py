"""What a message says of a package that is not installed.

The distribution is not on a package index, and another could take its name there: what is said is a
package that exists, or this repository.
"""


def install(package: str, *, extra: str) -> str:
    """Return how to install a package, which an extra of ours names with the versions it takes."""
    return f"pip install {package}, or from this repository pip install '.[{extra}]'"
