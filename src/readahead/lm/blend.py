"""Passages that were read elsewhere, moved to where a prompt wants them; the opt-in of reuse.

*Approximate*: the keys and values of a passage are those that it had behind other tokens. Its keys
are rotated to the new place, and a share of its tokens is computed anew, with everything that is
not known: for one half its first ones [Hu25], for the other those that the question attends to most
[Wang26]. Computing all anew is a plain prefill; what the rest costs in answers is printed by
``benchmarks/bench_blend.py``.

Departs from both, which take one kind only: together they come closer to a plain prefill.
Departs from CacheBlend [Yao25], which chooses by how much values change in a first layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from readahead.errors import BackendError
from readahead.lm.base import Cache, CachedModel, Cancelled, never
from readahead.lm.blendplan import Plan, plan_blend
from readahead.lm.kv import KVCache, KVSegment
from readahead.lm.memory import is_out_of_memory
from readahead.lm.model import TransformersModel
from readahead.lm.patch import AttentionPaid, PatchCache, patch_refusal
from readahead.lm.prefixtree import Copies, PrefixTree
from readahead.lm.prompt import Part
from readahead.lm.rope import inverse_frequencies, moved, rope_refusal
from readahead.trace import Trace


class Blender:
    """Puts prompts together from what a tree holds anywhere.

    Args:
        model: Only a transformers model whose keys can be moved; see ``refusal``.
        tree: Is only read: nothing that is blended is kept.
        share: Of the moved tokens, computed anew.
    """

    def __init__(self, model: CachedModel, tree: PrefixTree, *, share: float) -> None:
        self._model = model
        self._tree = tree
        self.share = share

    @cached_property
    def refusal(self) -> str:
        """Return why nothing is blended for this model, "" if it is; found out once."""
        model = self._model
        if not isinstance(model, TransformersModel):
            return "its keys are not at hand"
        return patch_refusal(model) or rope_refusal(model)

    def extend(
        self,
        parts: Sequence[Part],
        cache: Cache,
        root: bytes,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> Plan | None:
        """Put the rest of ``parts`` behind what ``cache`` holds, if that saves tokens.

        Args:
            parts: The beginning of a prompt, up to a part of its question.
            cache: Holds the first of its tokens exactly; stays as it is if None is returned.
            root: Of the tree; passages are taken from nowhere else.
            cancelled: Asked between two steps; True ends the work.
            trace: Gets a ``blend`` span, and in it what was read.

        Returns:
            What was done; None if nothing was.
        """
        trace = trace or Trace("blend")
        labels = {part.label for part in parts} - {""}
        with (
            trace.span("blend", approximate=False) as span,
            self._tree.find(labels, root) as copies,
        ):
            try:
                done = self._tried(parts, copies, cache, cancelled, trace)
            except (BackendError, RuntimeError, MemoryError) as error:
                if not isinstance(error, BackendError) and not is_out_of_memory(error):
                    raise
                done = "memory ran out"
            if isinstance(done, str):
                span.attributes["reason"] = done
                return None
            span.attributes |= {
                "approximate": True,
                "share": self.share,
                "num_moved_tokens": len(done.moved),
                "num_chosen_tokens": done.num_chosen,
            }
        return done

    def _tried(
        self,
        parts: Sequence[Part],
        copies: Copies,
        cache: Cache,
        cancelled: Cancelled,
        trace: Trace,
    ) -> Plan | str:
        """Return what was done, or why nothing was."""
        if reason := self.refusal or cache.refusal:
            return reason
        plan = plan_blend(parts, cache.length, copies, self.share)
        if plan.num_computed >= len(plan.token_ids) - plan.num_known:
            return "it saves nothing"
        is_done = self.carry_out(plan, copies, cache, cancelled=cancelled, trace=trace)
        return plan if is_done else "cancelled, or lost on disk"

    def carry_out(
        self,
        plan: Plan,
        copies: Copies,
        cache: Cache,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> bool:
        """Put into ``cache`` what ``plan`` says; return whether it came to its end."""
        assert isinstance(self._model, TransformersModel)
        assert isinstance(cache, KVCache)
        trace = trace or Trace("blend")
        if (placed := self._placed(plan, copies, cache)) is None:
            return False
        patch = PatchCache(self._model, len(plan.token_ids), placed)
        with trace.span("prefill", num_tokens=plan.num_computed, num_cached_tokens=plan.num_known):
            chosen = self._chosen(plan, patch, cancelled)
            if not self._read(plan, patch, _rows(plan, chosen), cancelled):
                return False
        trace.count("computed_tokens", plan.num_computed)
        cache.replace(patch.whole(), plan.num_known)
        return True

    def _placed(
        self, plan: Plan, copies: Copies, cache: KVCache
    ) -> list[tuple[int, KVSegment]] | None:
        """Return what is known of the prompt at its place, None if some of it was lost."""
        assert isinstance(self._model, TransformersModel)
        placed = [(0, cache.cut(0, plan.num_known))] if plan.num_known else []
        inv_freq = inverse_frequencies(self._model)
        for move in plan.moves:
            if (found := copies.segment(move.node)) is None:
                return None
            segment = found.unpack()
            assert isinstance(segment, KVSegment)
            run = segment.part(move.first, move.first + move.num_tokens)
            placed.append((move.new_start, moved(run, inv_freq, move.new_start - move.old_start)))
        return placed

    def _chosen(self, plan: Plan, patch: PatchCache, cancelled: Cancelled) -> Tensor:
        """Return the first tokens of the runs, and what the question attends to: (num_chosen,)."""
        positions = torch.tensor(plan.moved, dtype=torch.long, device=patch.device)
        if not plan.num_looking:
            return positions[: plan.num_chosen]
        length = len(plan.token_ids)
        asked = torch.arange(length - plan.num_asked, length, device=patch.device)
        with AttentionPaid() as paid:
            is_read = self._read(plan, patch, asked, cancelled)
        if not is_read:
            return positions[: plan.num_chosen]
        assert paid.total is not None, "sdpa attention was not called"
        paid.total[plan.leading] = torch.inf
        return positions[paid.total[positions].topk(plan.num_chosen).indices]

    def _read(self, plan: Plan, patch: PatchCache, rows: Tensor, cancelled: Cancelled) -> bool:
        """Read the tokens at ``rows``, (T,), in steps; return whether all were."""
        ids = torch.tensor(plan.token_ids, device=rows.device)
        for step in rows.split(self._model.prefill_step_tokens):
            if cancelled():
                return False
            patch.aim(step)
            self._model.forward(ids[step][None], patch)
        return True


def _rows(plan: Plan, chosen: Tensor) -> Tensor:
    """Return all positions to be read, in ascending order."""
    is_read = torch.ones(len(plan.token_ids), dtype=torch.bool, device=chosen.device)
    is_read[: plan.num_known] = False
    is_read[torch.tensor(plan.moved, dtype=torch.long, device=chosen.device)] = False
    is_read[chosen] = True
    return is_read.nonzero()[:, 0]
