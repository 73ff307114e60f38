"""The speculative loop: propose, one target forward, accept, crop, bonus; the same for any drafter.

A batch of one; several requests are several loops. *Exact* with the rule ``exact``: greedy tokens
are those of ``lm.generate.stream``, and drawn ones have its law, whatever the drafter proposes. The
other rules state their own laws; see ``acceptance``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from readahead.errors import BackendError
from readahead.lm.base import Cache, CachedModel, Cancelled, never
from readahead.lm.batch import TokenIds, logprobs_of, prefill
from readahead.lm.generate import Piece, Row, tops_of
from readahead.lm.sample import SamplingParams, distribution
from readahead.speculation.tokens.acceptance import Accepted, Rule, TargetRow, accept
from readahead.speculation.tokens.base import REFRESH, Drafter, OwnTime, Pacer, Proposal, Round
from readahead.speculation.tokens.governor import Governor
from readahead.speculation.tokens.tally import Tally
from readahead.trace import Trace

EXACT = Rule()


def stream(
    model: CachedModel,
    prompt_ids: TokenIds,
    params: SamplingParams,
    drafter: Drafter,
    *,
    rule: Rule = EXACT,
    pacer: Pacer | None = None,
    cache: Cache | None = None,
    cancelled: Cancelled = never,
    trace: Trace | None = None,
    tally: Tally | None = None,
) -> Generator[Piece]:
    """Yield the answer run by run: what a forward pass of the target accepts is one piece.

    Args:
        model: The target.
        prompt_ids: The whole prompt.
        params: How tokens are chosen.
        drafter: Proposes; of this request alone.
        rule: How draft tokens are accepted.
        pacer: Decides how many are drafted; None: a governor of this request.
        cache: Holds the first ``cache.length`` tokens of the prompt already, at most all but one;
            afterwards holds all that the model has read of prompt and answer. While the generator
            waits it may hold rejected draft tokens, too, and may be cropped further.
        cancelled: Asked before every model step, the drafter's included.
        trace: Gets ``prefill``, ``draft`` and ``verify`` spans, ``draft`` without the time of a
            ``refresh`` that the drafter did meanwhile, the counters of tokens, and the
            attribute ``speculation``, see ``Tally``.
        tally: Gets what came of it.

    Raises:
        InputError: The prompt is empty.
        ContextOverflow: The prompt leaves no room for an answer.
        BackendError: The target failed; or the rule is not ``exact``, and the drafter failed or the
            target has recurrent layers. With ``exact`` that is plain decoding.
    """
    trace = trace or Trace("generate")
    request = _Request(
        model,
        Row(model, prompt_ids, params),
        params,
        drafter,
        rule,
        Governor() if pacer is None else pacer,
        model.new_cache() if cache is None else cache,
        OwnTime(trace, cancelled),
        trace,
        Tally() if tally is None else tally,
    )
    assert request.cache.length < len(prompt_ids), "the last token must be read to predict the next"
    try:
        yield from request.pieces()
    finally:
        request.trace.attributes["speculation"] = request.tally.to_json()


class _NoDrafter:
    """Proposes nothing: the loop is plain decoding."""

    def begin(self, *args: object, **more: object) -> None:
        """Need nothing."""

    def propose(self, *args: object, **more: object) -> Proposal:
        """Return no draft tokens."""
        return Proposal()


@dataclass(slots=True)
class _Request:
    model: CachedModel
    row: Row
    params: SamplingParams
    drafter: Drafter
    rule: Rule
    pacer: Pacer
    cache: Cache
    own: OwnTime
    trace: Trace
    tally: Tally
    num_kept: int = 0
    refreshed_s: float = 0.0

    def pieces(self) -> Iterator[Piece]:
        """Yield a piece a round; reading the prompt is the first, which has no draft."""
        self._begin()
        logits = self._prefill()
        proposal = Proposal() if logits is None else self._propose(0)
        at_s, begun_s = self.trace.now_s(), self.own.now_s()
        verify_s = begun_s
        while logits is not None and not self.own.cancelled():
            judged_s = self.own.now_s()
            accepted = accept(self.rule, proposal, self._rows(logits, proposal), self.row.generator)
            self.tally.add(at_s, proposal, accepted)
            piece = self._write(proposal, accepted, logits)
            now_s = self.own.now_s()
            if self.tally.num_rounds > 1:
                self._learn(proposal, accepted, (begun_s, verify_s, judged_s, now_s))
            try:
                yield piece
            finally:  # not before: a window can go back once a step, and the reader may go further
                self._crop()
            if self.row.finished:
                return
            at_s, begun_s = self.trace.now_s(), self.own.now_s()
            proposal = self._propose(min(self.pacer.max_draft_tokens, self.row.num_left - 1))
            begun_s += self.refreshed_s  # no part of the round that the pacer learns from
            verify_s = self.own.now_s()
            logits = self._verify(proposal)
        self._crop()  # what was verified and not judged
        yield self.row.cancel()

    def _crop(self) -> None:
        self.cache.crop(min(self.cache.length, self.num_kept))

    def _prefill(self) -> Tensor | None:
        """Read the prompt; return the logits (1, V) behind it, None if cancelled."""
        known = self.cache.length
        unread = torch.tensor([self.row.prompt_ids[known:]])  # (1, T)
        with self.trace.span("prefill", num_tokens=unread.shape[1], num_cached_tokens=known):
            logits = prefill(self.model, unread, self.cache, cancelled=self.own.cancelled)
        self.trace.count("computed_tokens", self.cache.length - known)
        self.num_kept = self.cache.length
        self.cache.record_past()
        if not self.cache.can_go_back:
            self._go_on_alone(
                BackendError(
                    "The target keeps one state for all positions, so draft tokens that are "
                    "rejected could not be taken back.",
                    remedy="Use the mode 'exact', which decodes such a model plainly.",
                )
            )
        return logits

    def _begin(self) -> None:
        prompt_ids = self.row.prompt_ids
        try:
            self.drafter.begin(
                prompt_ids, self.params, cancelled=self.own.cancelled, trace=self.trace
            )
        except BackendError as error:
            self._go_on_alone(error)

    def _propose(self, max_tokens: int) -> Proposal:
        """Return what is drafted; a refresh on the way is a span of its own, not drafting."""
        before_s, given_s = self.trace.total_s(REFRESH), self.own.given_s
        with self.trace.step("draft") as span:
            try:
                return self.drafter.propose(
                    self.row.new_ids,
                    self.pacer,
                    max_tokens,
                    with_soft=self.rule.needs_soft,
                    cancelled=self.own.cancelled,
                )
            except BackendError as error:
                self._go_on_alone(error)
                return Proposal()
            finally:
                self.refreshed_s = self.trace.total_s(REFRESH) - before_s
                span.busy_s -= self.refreshed_s + self.own.given_s - given_s

    def _go_on_alone(self, error: BackendError) -> None:
        """Draft nothing from here on, where the target needs no drafter for its law."""
        if not self.rule.is_exact:
            raise error
        self.tally.drafter_error = error.message
        self.drafter = _NoDrafter()

    def _verify(self, proposal: Proposal) -> Tensor | None:
        """Return the logits (γ + 1, V) at the last token and at each draft token."""
        if self.own.cancelled():
            return None
        unread = torch.tensor([[self.row.new_ids[-1], *proposal.token_ids]])  # (1, γ + 1)
        with self.trace.step("verify"):
            logits = self.model.forward(unread, self.cache, num_logits=unread.shape[1])[0]
            logits[-1, -1].item()  # waits for the device, or its time would be someone else's
        self.trace.count("computed_tokens", unread.shape[1])
        return logits

    def _rows(self, logits: Tensor, proposal: Proposal) -> TargetRow:
        """Return what gives p, and the same at temperature 1 where that is 0 and asked for."""
        params, soft_params = self.params, replace(self.params, temperature=1.0)
        is_soft = params.temperature > 0 or not self.rule.needs_soft

        def row(place: int) -> tuple[Tensor, Tensor | None]:
            seen = []
            if params.looks_back:
                ids = [*self.row.prompt_ids, *self.row.new_ids, *proposal.token_ids[:place]]
                seen = [torch.tensor(ids, device=logits.device)]
            one = logits[place : place + 1]
            of = partial(
                distribution, one, seen_ids=seen, num_prompt_tokens=[len(self.row.prompt_ids)]
            )
            return of(params)[0], None if is_soft else of(soft_params)[0]

        return row

    def _write(self, proposal: Proposal, accepted: Accepted, logits: Tensor) -> Piece:
        """Push what was accepted, and note how much of the cache that leaves."""
        num_rejected = len(proposal.token_ids) - accepted.num_accepted
        ids = [*proposal.token_ids[: accepted.num_accepted], accepted.next_id]
        told = torch.tensor(ids, device=logits.device)
        logprobs = logprobs_of(logits[: len(ids)], told).tolist()
        tops = tops_of(logits[: len(ids)], self.params.num_top_logprobs)
        pieces = []
        for token_id, logprob, top in zip(ids, logprobs, tops, strict=True):
            pieces.append(self.row.push(token_id, logprob, top))
            if self.row.finished:
                break
        num_written = len(self.row.prompt_ids) + len(self.row.new_ids)
        self.num_kept = min(self.cache.length - num_rejected, num_written)
        self.tally.num_new_tokens = len(self.row.new_ids)
        return Piece(
            "".join(piece.text for piece in pieces),
            tuple(token_id for piece in pieces for token_id in piece.token_ids),
            tuple(logprob for piece in pieces for logprob in piece.logprobs),
            pieces[-1].finish_reason,
            tuple(top for piece in pieces for top in piece.top),
        )

    def _learn(
        self, proposal: Proposal, accepted: Accepted, times_s: tuple[float, float, float, float]
    ) -> None:
        begun_s, verify_s, judged_s, now_s = times_s
        num_accepted = accepted.num_accepted
        self.pacer.saw(
            Round(
                proposal.kinds,
                num_accepted,
                verify_s - begun_s,
                judged_s - verify_s,
                now_s - begun_s,
            )
        )
