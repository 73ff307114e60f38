"""What is seen of the server: metrics, spans and logs."""
