"""Importing files of changes, each row exactly once however often the import is interrupted.

source.py reads bytes and lines; file_format.py holds the user's description of the file; rows.py
turns lines into rows, good or bad; batches.py turns rows into transactions, each with its marker
item; survey.py is the first pass, which only reads; begin_marker.py has every region show that the
import began; importer.py is the second pass, which writes, and keeps bad rows to be fixed.
"""

from ledger.writes.imports.file_format import ColumnChoice, Form, Format
from ledger.writes.imports.importer import Importer, ImportReport
from ledger.writes.imports.survey import StopSign

__all__ = ["ColumnChoice", "Form", "Format", "ImportReport", "Importer", "StopSign"]
