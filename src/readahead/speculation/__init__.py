"""Guess ahead and check every guess: a wrong one costs time, never the answer."""
