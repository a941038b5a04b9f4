"""Finding the collections that need merging, by hints and by scanning the table."""
