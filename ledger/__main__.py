"""The `ledger` command, and `python -m ledger`."""

from ledger.runtime.program import start


def main() -> None:
    """Run the command."""
    start("ledger.commands.main")


if __name__ == "__main__":
    main()
