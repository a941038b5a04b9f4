from ledger.core.urls import without_passwords


def test_users_and_passwords_of_urls_are_hidden() -> None:
    """Wherever a URL stands in a message; an @ elsewhere stays."""
    text = 'no answer ("http://u:se@cret@127.0.0.1:1/a@b"), proxy https://p@q, mail a@b.c'
    shown = without_passwords(text)
    assert shown == 'no answer ("http://***@127.0.0.1:1/a@b"), proxy https://***@q, mail a@b.c'
