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

# What ends a text while it is written and may still become the end of a sentence or a marker.
_UNDECIDED = re.compile(
    r"(?:[.!?。！？；…\n][\"'”’」』）)\]】》]*)?\s*(?:[\[【][^\[\]【】]{0,24})?$"
)
_TRAILING_MARKERS = re.compile(r"\s*(?:[\[【][^\[\]【】]{1,24}[\]】]\s*)+")
_WIDE_ENDS = "。！？；…"
_OPEN_BRACKET = re.compile(r"\s*(?:[\[【][^\[\]【】]{0,24})?$")


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

    def push(self, text: str) -> Iterator[str | Citation]:
        """Yield what became certain with ``text``; a citation comes before its first marker."""
        self._sentence.text += text
        while (end := self._finished_end()) is not None:
            rest = self._sentence.text[end:]
            self._sentence.text = self._sentence.text[:end]
            yield from self._finish_sentence()
            self._sentence = _Sentence(rest)
        clean = Markers.read(self._sentence.text).text
        undecided = _UNDECIDED.search(clean)
        certain = undecided.start() if undecided else len(clean)
        if certain > self._sentence.released:
            yield clean[self._sentence.released : certain]
            self._sentence.released = certain

    def finish(self) -> Iterator[str | Citation]:
        """Yield the rest of the answer."""
        yield from self._finish_sentence()
        self._sentence = _Sentence()

    def _finished_end(self) -> int | None:
        """Return where the current sentence ended, once what follows has begun."""
        text = self._sentence.text
        spans = sentences(text)
        if not spans:
            return None
        end = spans[0][1]
        # A marker written behind the full stop belongs to the sentence in front of it.
        if markers := _TRAILING_MARKERS.match(text, end):
            end = markers.end()
        follows = text[end:]
        return None if _OPEN_BRACKET.match(follows) else end

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
