"""What requests may hold, and what replies do."""
