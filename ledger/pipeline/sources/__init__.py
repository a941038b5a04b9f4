"""Sources of records, and destinations of records that cannot be processed."""
