"""A streamed answer to the same answer with citation markers; knows no model.

Text is released as it comes. Only what may still change waits: the end of a sentence, until its
support is found, and brackets, until they turn out to be a marker of the model's own or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from readahead.evidence import Evidence, Markers, Similarity, Support, is_refusal
from readahead.evidence.terms import read_terms
from readahead.text import is_cjk, sentences
from readahead.types import Citation, Passage

_ENDS = ".!?…。！？；\n"
_WIDE_ENDS = "。！？；…"
_CLOSERS = "\"'”’」』）)]】》"
_OPENERS = r"\[【(（"
_BRACKETS = rf"{_OPENERS}\]】)）"
# What may still become the end of a sentence, once its next word or line is known.
_UNDECIDED = re.compile(
    rf"(?:[.!?…。！？；]+[{re.escape(_CLOSERS)}]*(?:\s+\w{{0,12}})?"
    r"|\n\s*(?:[-*+•|]|\d+[.)]?)?)?\s*$"
)
_UNCLOSED = re.compile(rf"[{_OPENERS}][^{_BRACKETS}]*$")
_BRACKETED = re.compile(rf"[^\S\n]*[{_OPENERS}][^{_BRACKETS}]*[\]】)）]")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
# The next word is complete, or is not a word: what it says of the end before it will not change.
_FOLLOWED = re.compile(rf"\s*(?:\w{{13}}|\w+[^\w]|[^\w\s{_BRACKETS}])")


@dataclass(slots=True)
class _Sentence:
    """The sentence being written: what came, and how much of its clean text is released."""

    text: str = ""
    released: int = 0


@dataclass(slots=True)
class Tally:
    """What became of the sentences of one answer."""

    num_claims: int = 0
    num_supported: int = 0
    num_refusals: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def confidence(self) -> float:
        """Return the share of claims that a span supports, 0 without a claim."""
        return self.num_supported / self.num_claims if self.num_claims else 0.0

    @property
    def abstained(self) -> bool:
        """Return whether the answer says that the passages do not hold it, and cites nothing."""
        return self.num_refusals > 0 and self.num_supported == 0


class Citing:
    """Puts ``[n]`` behind each sentence that a span of the passages supports.

    Markers number the cited spans in the order of their first use. Markers that the model writes
    itself are taken out; one that names a supporting passage decides which is cited, any other
    is reported in ``tally.notes``.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        question: str,
        *,
        threshold: float,
        similarity: Similarity | None = None,
    ) -> None:
        self.tally = Tally()
        self.citations: list[Citation] = []
        self._passages = passages
        self._question = question
        self._threshold = threshold
        self._similarity = similarity
        self._evidence = Evidence(passages)
        self._sentence = _Sentence()

    def extend(self, passages: Sequence[Passage], *, in_front: bool = False) -> None:
        """Add passages that may be cited from now on, numbered on behind the others or before."""
        pair = (passages, self._passages) if in_front else (self._passages, passages)
        self._passages = (*pair[0], *pair[1])
        self._evidence = Evidence(self._passages)

    def push(self, piece: str) -> Iterator[str | Citation]:
        """Yield what became certain with ``piece``; a citation comes before its first marker."""
        self._sentence.text += piece
        while (end := self._end()) is not None and _is_decided(self._sentence.text, end):
            yield from self._cut(end)
        text = self._sentence.text
        settled = _settled(text, len(text) if end is None else end)
        certain = Markers.read(text[:settled].rstrip()).text.rstrip()
        if len(certain) > self._sentence.released:
            yield certain[self._sentence.released :]
            self._sentence.released = len(certain)

    def finish(self) -> Iterator[str | Citation]:
        """Yield the rest of the answer."""
        while (end := self._end()) is not None:
            yield from self._cut(end)
        yield from self._cut(len(self._sentence.text))

    def _cut(self, end: int) -> Iterator[str | Citation]:
        """Finish the sentence that ends at ``end``; what follows is the next one."""
        rest = self._sentence.text[end:]
        self._sentence.text = self._sentence.text[:end]
        yield from self._finish_sentence()
        self._sentence = _Sentence(rest)

    def _end(self) -> int | None:
        """Return where the first sentence ends as far as is known, None if it goes on."""
        text = self._sentence.text
        if not any(char in text for char in _ENDS):
            return None
        spans = sentences(text)
        if not spans:
            return None
        end = spans[0][1]
        # Markers written behind the full stop belong to the sentence in front of them.
        while (group := _BRACKETED.match(text, end)) and not Markers.read(group[0]).text.strip():
            end = group.end()
        return end if text[end:].strip() else None

    def _finish_sentence(self) -> Iterator[str | Citation]:
        markers = Markers.read(self._sentence.text)
        clean, body = markers.text, markers.text.rstrip()
        if unreleased := body[self._sentence.released :]:
            yield unreleased
        if citation := self._cite(body.strip(), markers.indices):
            if citation not in self.citations:
                self.citations.append(citation)
                yield citation
            gap = "" if is_cjk(body[-1]) or body[-1] in _WIDE_ENDS else " "
            yield f"{gap}[{citation.marker}]"
        if trailing := clean[max(len(body), self._sentence.released) :]:
            yield trailing

    def _cite(self, sentence: str, claimed: Sequence[int]) -> Citation | None:
        if is_refusal(sentence):
            self.tally.num_refusals += 1
            return None
        if not read_terms(sentence).content:
            return None
        self.tally.num_claims += 1
        support = self._claimed_support(sentence, claimed) or self._evidence.attribute(
            sentence,
            question=self._question,
            threshold=self._threshold,
            similarity=self._similarity,
        )
        if support is None:
            return None
        self.tally.num_supported += 1
        return self._citation(support)

    def _claimed_support(self, sentence: str, claimed: Sequence[int]) -> Support | None:
        """Return the support in a passage that the model named itself; note names that fail."""
        ranked = self._evidence.rank(sentence, question=self._question) if claimed else []
        best: Support | None = None
        for number in claimed:
            found = next(
                (s for s in ranked if s.passage == number - 1 and s.score >= self._threshold), None
            )
            if found is None:
                self.tally.notes.append(
                    f"The model cited [{number}], which does not support: {sentence}"
                )
            elif best is None or found.score > best.score:
                best = found
        return best

    def _citation(self, support: Support) -> Citation:
        """Return the citation of a span: the one it has already, or the next."""
        passage = self._passages[support.passage]
        place = (passage.id, support.start, support.end)
        for known in self.citations:
            if (known.passage_id, known.start, known.end) == place:
                return known
        return Citation(
            marker=len(self.citations) + 1,
            passage_id=passage.id,
            document=passage.document,
            heading=passage.heading,
            page=passage.page,
            start=support.start,
            end=support.end,
            text=passage.text[support.start - passage.start : support.end - passage.start],
        )


def _is_decided(text: str, end: int) -> bool:
    """Return whether a sentence of ``text`` ends at ``end``, whatever comes."""
    follows = text[end:].lstrip()
    if _UNCLOSED.match(follows):
        return False
    if text[:end].rstrip(_CLOSERS)[-1:] in _WIDE_ENDS or is_cjk(follows[0]):
        return True
    return _FOLLOWED.match(follows) is not None


def _settled(text: str, end: int) -> int:
    """Return how much of an unfinished sentence, at most ``end``, means the same whatever comes."""
    # A run of backticks at the end may grow, and then it closes nothing.
    closed = text.rstrip("`")
    spans = [match.span() for match in _CODE.finditer(closed)]
    for start, stop in spans:
        closed = f"{closed[:start]}{'x' * (stop - start)}{closed[stop:]}"
    backtick = closed.find("`")
    limits = [end, len(closed) if backtick < 0 else backtick]
    limits += [match.start() for r in (_UNDECIDED, _UNCLOSED) if (match := r.search(closed))]
    settled = min(limits)
    return next((start for start, stop in spans if start < settled < stop), settled)
