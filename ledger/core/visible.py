"""Characters that cannot be seen: names must not have them, and output shows them escaped.

Two names that look alike would be two counters. Of Unicode these are control and format characters,
line ends, half characters, and code points without a character (not assigned, for private use, or
never one), by category; what a display ignores by default; and what it shows as blank although it
is a letter, a sign or a mark.

Sources: Default_Ignorable_Code_Point of
https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt (Unicode 16), which Python's
`unicodedata` does not have; blank by their names and charts: https://www.unicode.org/charts/

Pure: no clock, no randomness, no I/O.
"""

import re
import unicodedata

_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANK = (
    "\u2800"  # braille pattern blank
    "\ufffc"  # object replacement character: the object is not there
    "\U00013441\U00013442"  # Egyptian hieroglyph full blank, half blank
    "\U00016fe4"  # Khitan small script filler
    "\U0001d159"  # musical symbol null notehead
)
UNSEEN = _IGNORABLE + _BLANK
"""Characters of a class of a regular expression, that no category tells."""
_UNSEEN = re.compile(f"[{UNSEEN}]")


def is_invisible(sign: str) -> bool:
    """Return whether a character cannot be seen; a space can, by its width."""
    return unicodedata.category(sign) in _CATEGORIES or _UNSEEN.match(sign) is not None


def is_visible(text: str) -> bool:
    """Return whether each character of a text can be seen, and each space is a plain one."""
    return text.isprintable() and (text.isascii() or _UNSEEN.search(text) is None)


def unclear_in(name: str) -> str | None:
    """Return the first character of a name that cannot be seen, or is another space than the plain.

    A character that this Python does not know yet is not assigned.
    """
    if is_visible(name):
        return None
    return next(sign for sign in name if not is_visible(sign))
