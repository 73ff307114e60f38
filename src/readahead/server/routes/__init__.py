"""What is asked for over HTTP, and answered."""
