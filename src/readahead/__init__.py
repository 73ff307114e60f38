"""Read-Ahead Generation: speculative retrieval-augmented generation that checks its guesses."""

__version__ = "0.1.0"
