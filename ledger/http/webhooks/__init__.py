"""Webhooks: entries, and crossings of totals, posted to URLs; at least once, under stable ids."""
