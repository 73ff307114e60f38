"""Who may ask, from where, how much, and what may go out."""
