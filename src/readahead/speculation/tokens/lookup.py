"""Draft tokens copied from passages, document, prompt and answer; no model.

What a grounded answer says next often stands in what it is grounded on, behind the same words.
[Hu24]
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from readahead.errors import ConfigError
from readahead.lm.base import Cancelled, never
from readahead.lm.sample import SamplingParams
from readahead.speculation.tokens.automaton import Match, SuffixAutomaton
from readahead.speculation.tokens.base import Kind, Pacer, Proposal
from readahead.trace import Trace

_LEVELS = (1, 2, 3, 4, 6, 9, 16)
"""Matches of at least so many tokens are of level 1, 2, …, 7."""


class Sources:
    """Texts to copy from, best first; made once, and shared by as many requests as like."""

    def __init__(self, texts: Sequence[Sequence[int]] = ()) -> None:
        """Index ``texts``, token ids of passages best first, then for instance the document."""
        self.automaton = SuffixAutomaton(texts)


@dataclass(frozen=True, slots=True)
class Copied:
    """A token that may come next, as it did where the text's end stood before.

    Attributes:
        token_id: The token.
        num_matched_tokens: How long the end is that stood before.
    """

    token_id: int
    num_matched_tokens: int

    @property
    def kind(self) -> Kind:
        """Return its kind: the longer the match, the surer it is."""
        return Kind("lookup", bisect_right(_LEVELS, self.num_matched_tokens))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text ends, draft tokens included; following it changes nothing.

    Attributes:
        copied: What may come next; None where the last token stands nowhere else.
    """

    copied: Copied | None
    _lookup: Lookup
    _in_sources: Match
    _in_own: Match

    def after(self, token_id: int) -> Place:
        """Return the place behind one draft token more, copied or not."""
        sources, own = self._lookup.sources, self._lookup.own
        return self._lookup.place(
            sources.advance(self._in_sources, token_id), own.advance(self._in_own, token_id)
        )


class Lookup:
    """Finds the longest end of one request's text in the sources and in the text itself.

    Of equally long matches that of the earlier source counts, then that in the text so far; of
    several in one, the first. A match never crosses from one source into the next.

    Attributes:
        sources: Where the sources' runs of tokens are.
        own: Where those of prompt and answer are.
    """

    def __init__(self, sources: Sources, prompt_ids: Sequence[int]) -> None:
        self.sources = sources.automaton
        self.own = SuffixAutomaton()
        self._in_sources = Match()
        self._num_new_tokens = 0
        self._read(prompt_ids)

    def prefer(self, sources: Sources) -> None:
        """Copy from other sources from now on."""
        self.sources = sources.automaton
        self._in_sources = Match()
        for token_id in self.own.token_ids:
            self._in_sources = self.sources.advance(self._in_sources, token_id)

    def start(self, new_ids: Sequence[int]) -> Place:
        """Return where prompt and answer end.

        Args:
            new_ids: The answer so far; begins with that of the call before.
        """
        self._read(new_ids[self._num_new_tokens :])
        self._num_new_tokens = len(new_ids)
        return self.place(self._in_sources, self.own.own_end())

    def place(self, in_sources: Match, in_own: Match) -> Place:
        """Return the place of these matches, with what stands behind the longer one."""
        if in_own.length > in_sources.length:
            where, best = self.own, in_own
        else:
            where, best = self.sources, in_sources
        copied = Copied(where.token_ids[where.end_of(best)], best.length) if best.length else None
        return Place(copied, self, in_sources, in_own)

    def _read(self, token_ids: Sequence[int]) -> None:
        for token_id in token_ids:
            self.own.extend(token_id)
            self._in_sources = self.sources.advance(self._in_sources, token_id)


class LookupDrafter:
    """Drafts by copying what stands behind the longest match; a ``Drafter``.

    It goes on while the pacer expects a gain. Where the text that is copied ends, so does its
    match, and what follows is a new, shorter one, of a kind that the pacer trusts less.
    """

    def __init__(self, sources: Sources | None = None) -> None:
        """Copy from ``sources``, and from prompt and answer in any case."""
        self._sources = sources or Sources()
        self._lookup = Lookup(self._sources, ())

    def begin(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> None:
        """Get ready for the answer to ``prompt_ids``; the rest changes nothing here."""
        self._lookup = Lookup(self._sources, prompt_ids)

    def prefer(self, sources: Sources) -> None:
        """Copy from other sources from now on, in the midst of an answer, too."""
        self._sources = sources
        self._lookup.prefer(sources)

    def start(self, new_ids: Sequence[int]) -> Place:
        """Return where prompt and answer so far end, for drafters that do not only copy."""
        return self._lookup.start(new_ids)

    def propose(
        self,
        new_ids: Sequence[int],
        pacer: Pacer,
        max_tokens: int,
        *,
        with_soft: bool = False,
        cancelled: Cancelled = never,
    ) -> Proposal:
        """Return at most ``max_tokens`` copied tokens to follow the answer so far.

        Raises:
            ConfigError: ``with_soft``; a copied token has no distribution.
        """
        if with_soft:
            raise no_distribution()
        drafted: list[Copied] = []
        survival = 1.0
        place = self.start(new_ids)
        while len(drafted) < max_tokens:
            copied = place.copied
            if copied is None or pacer.gain_s(copied.kind, survival, len(drafted)) <= 0:
                break
            drafted.append(copied)
            survival *= pacer.rate(copied.kind)
            place = place.after(copied.token_id)
        return Proposal(
            tuple(copied.token_id for copied in drafted),
            (None,) * len(drafted),
            tuple(copied.kind for copied in drafted),
        )


def no_distribution() -> ConfigError:
    """Return the error for a rule of acceptance that copied tokens cannot serve."""
    return ConfigError(
        "Copied tokens have no distribution, so they can only be accepted exactly.",
        remedy="Use the mode 'exact' with this drafter, or the drafter 'rag'.",
    )
