"""Let a small drafter write several short answers, and a larger verifier choose one, or none."""
