"""Where records come from, and where those go that cannot be taken."""
