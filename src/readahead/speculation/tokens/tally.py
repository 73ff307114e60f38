"""What speculation on tokens comes to in one answer, counted round by round."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from readahead.speculation.tokens.acceptance import Accepted
from readahead.speculation.tokens.base import Proposal


@dataclass(slots=True)
class Tally:
    """What speculation came to in one answer.

    Attributes:
        accept_counts: How many rounds accepted 0, 1, … draft tokens, by that number.
        drafted, accepted: Draft tokens by source.
        drafted_at, accepted_at: The same by position in the proposal, from 0.
        num_judged_tokens: Accepted, residual and bonus tokens, also those behind an end.
        gap: Sum over these of the total variation between the law of a token and p.
        drafter_error: Why the answer went on without its drafter; "" if it did not.
        rounds: Of each forward pass: when it began, draft tokens, accepted ones, source.
    """

    num_rounds: int = 0
    num_new_tokens: int = 0
    num_judged_tokens: int = 0
    accept_counts: Counter[int] = field(default_factory=Counter)
    drafted: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    drafted_at: Counter[int] = field(default_factory=Counter)
    accepted_at: Counter[int] = field(default_factory=Counter)
    gap: float = 0.0
    drafter_error: str = ""
    rounds: list[tuple[float, int, int, str]] = field(default_factory=list)

    def add(self, begun_s: float, proposal: Proposal, accepted: Accepted) -> None:
        """Add a round."""
        sources = [kind.source for kind in proposal.kinds]
        num = accepted.num_accepted
        self.num_rounds += 1
        self.accept_counts[num] += 1
        self.drafted.update(sources)
        self.accepted.update(sources[:num])
        self.drafted_at.update(range(len(sources)))
        self.accepted_at.update(range(num))
        self.num_judged_tokens += len(accepted.gaps)
        self.gap += sum(accepted.gaps)
        shown = "+".join(dict.fromkeys(sources))
        self.rounds.append((round(begun_s, 4), len(sources), num, shown))

    @property
    def acceptance_rate(self) -> float:
        """Return the share of draft tokens that were accepted, 0 where there were none."""
        return self.accepted.total() / max(1, self.drafted.total())

    @property
    def num_drafted_rounds(self) -> int:
        """Return in how many rounds anything was drafted: each has a first draft token."""
        return self.drafted_at[0]

    @property
    def mean_acceptance_length(self) -> float:
        """Return 1 + accepted tokens / rounds with a draft, as vLLM has it."""
        return 1 + self.accepted.total() / max(1, self.num_drafted_rounds)

    @property
    def tokens_per_forward(self) -> float:
        """Return the tokens that a forward pass of the target is good for, drafted or not."""
        return 1 + self.accepted.total() / max(1, self.num_rounds)

    @property
    def mean_gap(self) -> float:
        """Return the mean total variation between the law of a judged token and p."""
        return self.gap / max(1, self.num_judged_tokens)

    def to_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "num_rounds": self.num_rounds,
            "num_drafted_rounds": self.num_drafted_rounds,
            "num_draft_tokens": self.drafted.total(),
            "num_accepted_tokens": self.accepted.total(),
            "draft_acceptance_rate": self.acceptance_rate,
            "mean_acceptance_length": self.mean_acceptance_length,
            "tokens_per_forward": self.tokens_per_forward,
            "drafted": dict(self.drafted),
            "accepted": dict(self.accepted),
            "acceptance_by_position": [
                self.accepted_at[place] / self.drafted_at[place]
                for place in range(len(self.drafted_at))
            ],
            "mean_gap": self.mean_gap,
            **({"drafter_error": self.drafter_error} if self.drafter_error else {}),
            "rounds": self.rounds,
        }
