"""Whether what was read ahead changed an answer: the promise, checked on a user's own data."""

from __future__ import annotations

from readahead.engine import Engine, sampling_params
from readahead.lm import generate
from readahead.session import Turn


def is_lossless(engine: Engine, turn: Turn) -> bool:
    """Return whether a cold run over the same prompt gives the same answer, token for token.

    Always so in float32; in lower precisions, rounding may decide between tokens that are about
    equally likely.
    """
    params = sampling_params(engine.config.generation)
    cold = generate.generate(engine.target, [turn.prompt.token_ids], params)[0]
    return cold.token_ids == turn.token_ids
