"""The `compactor` command, and `python -m compactor`."""

from ledger.runtime.program import start


def main() -> None:
    """Run the command."""
    start("compactor.cli")


if __name__ == "__main__":
    main()
