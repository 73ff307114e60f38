"""Speculation on tokens: a drafter proposes the next few, the target disposes in one pass."""
