"""Who may do what: tokens, what they allow, and how much at a time."""
