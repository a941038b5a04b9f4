"""The pipeline's truth: states compared with totals, and what is damaged put right."""
