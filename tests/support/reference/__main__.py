"""Writes the pages anew."""

from support.reference.pages import PAGES, path_of, text_of

if __name__ == "__main__":
    for name in PAGES:
        path_of(name).write_text(text_of(name), encoding="utf-8")
