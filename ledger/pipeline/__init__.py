"""From a stream of corrected records to exact totals; see README.md beside this file."""
