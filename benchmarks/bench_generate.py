"""Compare the decode loop with ``transformers.generate``: same tokens, and how fast.

The claim: the loop that everything else is built on costs nothing over transformers' own and
writes the same tokens. Each prompt is run both ways in turn, greedy, in float32.
"""

from __future__ import annotations

import statistics
import time

import torch

from readahead.lm.generate import generate
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.lm.weights import pull
from report import finish, options

TOPICS = (
    "tides telescopes bread rivers chess volcanoes bees bridges clouds maps clocks salt".split()
)


class Contest:
    """Runs one prompt both ways."""

    def __init__(self, model: TransformersModel, max_new_tokens: int) -> None:
        self._model = model
        self._params = SamplingParams(max_new_tokens=max_new_tokens, ignore_eos=True)

    def readahead(self, ids: list[int]) -> list[int]:
        """Return the tokens that this loop writes."""
        return list(generate(self._model, [ids], self._params)[0].token_ids)

    def transformers(self, ids: list[int]) -> list[int]:
        """Return the tokens that transformers writes."""
        prompt = torch.tensor([ids])
        written = self._model.backend.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=self._params.max_new_tokens,
            eos_token_id=None,
        )
        new_ids: list[int] = written[0, len(ids) :].tolist()
        return new_ids


def main() -> None:
    """Run every prompt both ways and compare tokens and times."""
    parser = options(__doc__)
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--n", type=int, default=len(TOPICS), help="prompts")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    given = parser.parse_args()
    folder = pull(given.target).folder
    begun = time.perf_counter()
    model = TransformersModel.load(folder, device="cpu")
    load_s = time.perf_counter() - begun

    contest = Contest(model, given.max_new_tokens)
    head, tail = model.tokenizer.frame("You are a helpful assistant.")
    sides = {"readahead": contest.readahead, "transformers": contest.transformers}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    num_identical = 0
    for number in range(-1, given.n):  # the first round pays for what is set up once
        topic = TOPICS[number % len(TOPICS)]
        ids = model.tokenizer.encode_control(f"{head}Tell me about {topic}.{tail}")
        written: dict[str, list[int]] = {}
        for name in sorted(sides, reverse=number % 2 == 0):
            begun = time.perf_counter()
            written[name] = sides[name](ids)
            if number >= 0:
                seconds[name].append(time.perf_counter() - begun)
        num_identical += number >= 0 and written["readahead"] == written["transformers"]
    ours_s, theirs_s = seconds["readahead"], seconds["transformers"]
    ratio = statistics.median(a / b for a, b in zip(ours_s, theirs_s, strict=True))
    print(f"{given.target}: loaded in {load_s:.1f} s")
    print(f"readahead    {statistics.median(ours_s):6.2f} s a prompt")
    print(f"transformers {statistics.median(theirs_s):6.2f} s a prompt, ratio {ratio:.2f}")
    print(f"identical    {num_identical} of {given.n}")
    finish(
        "generate",
        {
            "e2e_ratio": ratio,
            "e2e_s": statistics.median(ours_s),
            "e2e_s_transformers": statistics.median(theirs_s),
            "identical_share": num_identical / given.n,
            "load_s": load_s,
            "max_new_tokens": given.max_new_tokens,
        },
        models={"target": given.target},
        workload="short questions, greedy",
        n=given.n,
        out=given.out,
    )


if __name__ == "__main__":
    main()
