"""Full-text search in an FTS5 table; knows no vectors.

FTS5 splits at spaces and punctuation, which Chinese, Japanese and Korean text does not put between
words. Runs of their characters are therefore indexed as overlapping pairs, with the last character
once more by itself: 劳动合同 becomes 劳动 动合 合同 同. Any two neighbouring characters are then a
term, and any single one begins a term.

FTS5 also folds case letter by letter, which leaves ß and hundreds of others as they are. Text and
query are therefore folded here: Straße, STRASSE and strasse are one term.
"""

from __future__ import annotations

import math
import re
import unicodedata
from itertools import groupby

import apsw

from readahead.retrieval.schema import storable
from readahead.text import is_cjk

# The headings count twice. Contentless: the text is kept once, in the table of versions. Porter's
# stemmer leaves everything but English as it is.
SCHEMA = """
CREATE VIRTUAL TABLE passages_fts USING fts5 (
    heading, body, content = '', tokenize = 'porter unicode61 remove_diacritics 2');
INSERT INTO passages_fts (passages_fts, rank) VALUES ('rank', 'bm25(2.0, 1.0)');
"""

MAX_QUERY_CHARS = 10_000
MAX_QUERY_TERMS = 64
_COMMON = 1000  # passages; which of two terms is in more of them than this does not matter

# Letters and digits, with the accents that FTS5 takes off them.
_WORD_RE = re.compile(r"[^\W_]+(?:[\u0300-\u036f]+[^\W_]*)*")

# Words of questions that are in so many passages that looking them up is slow and tells nothing.
STOP_WORDS = frozenset(
    "a an and are as at be been but by can could did do does for from had has have he her his how "
    "i in is it its me my not of on or our she so that the their them there these they this to us "
    "was we were what when where which who whom whose why will with would you your "
    "的 了 是 在 和 有 与 及 吗 呢".split()
)


def segmented(text: str) -> str:
    """Return ``text``, folded, with its CJK runs cut into the terms that are indexed."""
    text = _folded(storable(text))
    if text.isascii():
        return text
    return "".join(
        f" {' '.join([*_pairs(run), run[-1]])} " if is_run else run for run, is_run in _runs(text)
    )


def terms(query: str) -> list[str]:
    """Return the distinct terms of a query in their order, without stop words if others remain."""
    text = _folded(query[:MAX_QUERY_CHARS])
    found: dict[str, None] = {}
    for word in _WORD_RE.findall(text):
        for run, is_run in _runs(word):
            found.update(dict.fromkeys((_pairs(run) or [run]) if is_run else [run]))
    return [term for term in found if term not in STOP_WORDS] or list(found)


def insert(connection: apsw.Connection, passage: int, heading: str, body: str) -> None:
    """Index a passage."""
    sql = "INSERT INTO passages_fts (rowid, heading, body) VALUES (?, ?, ?)"
    connection.execute(sql, (passage, segmented(heading), segmented(body)))


def delete(connection: apsw.Connection, passage: int, heading: str, body: str) -> None:
    """Take a passage out of the index; heading and body must be those it was indexed with."""
    sql = "INSERT INTO passages_fts (passages_fts, rowid, heading, body) VALUES ('delete', ?, ?, ?)"
    connection.execute(sql, (passage, segmented(heading), segmented(body)))


def forget(connection: apsw.Connection) -> None:
    """Erase what is left of deleted passages; rewrites the index.

    A deleted entry is otherwise only marked, until FTS5 happens to merge the part that holds it.
    """
    connection.execute("INSERT INTO passages_fts (passages_fts) VALUES ('optimize')")


def search(
    connection: apsw.Connection, query: str, n: int, within: tuple[str, tuple[str, ...]] | None
) -> list[tuple[int, float]]:
    """Return the best ``n`` passages with their BM25 scores, higher is better.

    Of a long query the 64 terms that are in the fewest passages are searched for, as they weigh
    most; of Chinese that is about as many characters. The first 10,000 characters are looked at.

    Args:
        connection: Of the database that holds the table.
        query: Any string; no part of it is read as query syntax.
        n: How many at most.
        within: SQL that selects the passages to search, with its parameters; None for all.
    """
    words = _rarest(connection, terms(query))
    if not words:
        return []
    sql = "SELECT rowid, rank FROM passages_fts WHERE passages_fts MATCH ?"
    parameters: tuple[str | int, ...] = (" OR ".join(_quoted(word) for word in words),)
    if within is not None:
        # The plus keeps SQLite from running the full-text query once for every passage within.
        sql += f" AND +rowid IN ({within[0]})"
        parameters += within[1]
    rows = connection.execute(f"{sql} ORDER BY rank, rowid LIMIT ?", (*parameters, n))
    return [(passage, -rank) for passage, rank in rows]


def rarity(connection: apsw.Connection, word: str) -> float:
    """Return how well ``word`` tells passages apart: 1 if it is in one or none, 0 if in all.

        rarity = 1 − log(max(1, n(w))) / log(n)

    n: number of passages, n(w): of those that contain w. 0 for a stop word and for what is no word.
    A word of several terms, such as multi-agent or a run of Chinese, is as rare as its rarest.
    """
    ((total,),) = connection.execute("SELECT count(*) FROM passages_fts_docsize")
    sql = "SELECT count(*) FROM passages_fts WHERE passages_fts MATCH ?"
    log_n = math.log(max(2, total))
    best = 0.0
    for term in terms(word)[:MAX_QUERY_TERMS]:
        if term not in STOP_WORDS:
            ((count,),) = connection.execute(sql, (_quoted(term),))
            best = max(best, 1.0 - math.log(max(1, count)) / log_n)
    return best


def _rarest(connection: apsw.Connection, words: list[str]) -> list[str]:
    """Return those of ``words`` to search for, in their order: the rarest, if they are many."""
    if len(words) <= MAX_QUERY_TERMS:
        return words
    sql = (
        "SELECT count(*) FROM "
        f"(SELECT 1 FROM passages_fts WHERE passages_fts MATCH ? LIMIT {_COMMON})"
    )
    counts = {word: int(connection.execute(sql, (_quoted(word),)).get) for word in words}
    there = sorted((word for word in words if counts[word]), key=counts.__getitem__)
    chosen = set(there[:MAX_QUERY_TERMS])
    return [word for word in words if word in chosen]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _quoted(term: str) -> str:
    """Return ``term`` as an FTS5 string; a single CJK character as the beginning of a term."""
    return f'"{term}"*' if len(term) == 1 and is_cjk(term) else f'"{term}"'


def _runs(text: str) -> list[tuple[str, bool]]:
    """Split ``text`` into runs, each with whether it is CJK."""
    return [("".join(run), is_run) for is_run, run in groupby(text, is_cjk)]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]
