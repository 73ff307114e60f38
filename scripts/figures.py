"""What keeps the figures of a page equal to the results: they stand between two marks."""

from __future__ import annotations

import sys
from pathlib import Path


def renew(page: Path, table: str, script: str, *, mark: str = "figures") -> None:
    """Write ``table`` into ``page``, or with ``--check`` exit with 1 if that would change it.

    Args:
        page: Holds the marks ``<!-- figures: begin -->`` and ``<!-- figures: end -->``.
        table: Whole lines.
        script: What to run, for the message.
        mark: In place of ``figures``, where a page has several tables.
    """
    begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
    text = page.read_text(encoding="utf-8")
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    fresh = head + begin + table + end + tail
    if "--check" in sys.argv:
        sys.exit(f"{page.name} is stale: run {script}" if fresh != text else 0)
    page.write_text(fresh, encoding="utf-8")
