"""What the programs of the laboratory share."""
