"""What only the laboratory's programs share."""
