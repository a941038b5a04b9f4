"""The three stages that act on the table, and the worker that drives a lane through them."""
