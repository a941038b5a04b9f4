"""The rules of the pipeline, pure: records, transitions, sums, and the items they become."""
