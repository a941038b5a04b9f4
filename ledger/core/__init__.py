"""Pure values and rules: ids, amounts, items, and the fold from items to a total."""
