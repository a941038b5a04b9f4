"""From a stream of corrected records to exact totals; see docs/internals/pipeline.md."""
