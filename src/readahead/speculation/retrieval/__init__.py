"""Retrieve, and read what was retrieved, before the question or the answer is finished."""
