"""What keeps the figures of a page equal to the results: they stand between two marks."""

from __future__ import annotations

import sys
from pathlib import Path

BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->"


def renew(page: Path, table: str, script: str) -> None:
    """Write ``table`` into ``page``, or with ``--check`` exit with 1 if that would change it."""
    text = page.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    fresh = head + BEGIN + table + END + tail
    if "--check" in sys.argv:
        sys.exit(f"{page.name} is stale: run {script}" if fresh != text else 0)
    page.write_text(fresh, encoding="utf-8")
