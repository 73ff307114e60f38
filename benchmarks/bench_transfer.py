"""Measure how strongly to move the target towards its drafter, with right and wrong passages.

Needles are hidden in made-up documents. The drafter reads what is retrieved for the question, and
then, in the stress test of RAPID, what another question finds in another document. Reported for
each rule of acceptance and each strength: draft tokens accepted, answers right, and how far the
law of the tokens is off the target's.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from readahead.config import Config, load_config
from readahead.evaluation.needles import make_needles
from readahead.evaluation.rapid import Figures, evaluate_rapid
from readahead.evaluation.rapidrun import Runner
from readahead.evaluation.rapidsettings import Setting, read_settings
from readahead.knowledge import load_embedder
from report import finish, options

PASSAGES = ("right", "unrelated")
COLUMNS = ("score", "acceptance_rate", "mean_acceptance_length", "mean_gap")


def main() -> None:
    """Answer every question in every setting, with right and with unrelated passages."""
    given = parsed()
    config = settings_of(given)
    runner = Runner.load(config)
    tokenizer = runner.target.tokenizer
    cases = [
        make_needles(given.tokens, tokenizer, given.seed + number) for number in range(given.n)
    ]
    ways = read_settings(" ".join(names(given)), eta=runner.eta)
    embedder = load_embedder(config.models)
    found: dict[str, float] = {}
    for passages in PASSAGES:
        report = evaluate_rapid(
            cases, runner, ways, embedder=embedder, unrelated=passages == "unrelated"
        )
        assert not report.failed, report.failed
        found |= metrics(report.settings, passages)
        show(ways, report.settings, passages)
    finish(
        "transfer",
        found,
        models={"target": given.target, "drafter": given.drafter or given.target},
        workload=f"one needle in {given.tokens} tokens, at most {given.max_new_tokens} new tokens, "
        f"temperature {given.temperature:g}, {given.gamma} draft tokens a round",
        n=given.n,
        out=given.out,
        dtype=given.dtype,
        seed=given.seed,
    )


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = options(__doc__ or "")
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--drafter", default="", help="else the target")
    parser.add_argument("--n", type=int, default=6, help="documents, 2 at least")
    parser.add_argument("--tokens", type=int, default=1000, help="of a document")
    parser.add_argument("--max-new-tokens", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--gamma", type=int, default=4, help="draft tokens a round")
    parser.add_argument("--eta", type=float, nargs="*", default=[0, 5, 10, 20, 40])
    parser.add_argument("--dynamic", type=float, nargs="*", default=[10, 40], help="η of dynamic")
    parser.add_argument("--weight", type=float, nargs="*", default=[0.8, 0.5], help="of ensemble")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def settings_of(given: argparse.Namespace) -> Config:
    """Return the settings; a quarter of a document is what the drafter may read."""
    return load_config(
        {
            "models.target": given.target,
            "models.drafter": given.drafter,
            "models.device": "cpu",
            "models.dtype": given.dtype,
            "passages.max_words": 60,
            "tokens.num_draft_tokens": given.gamma,
            "generation.max_new_tokens": given.max_new_tokens,
            "generation.temperature": given.temperature,
            "generation.seed": given.seed,
        }
    )


def names(given: argparse.Namespace) -> list[str]:
    """Return the settings by name; without strength ``paper`` is ``augmented``."""
    numbers = [
        *(("augmented", eta) for eta in given.eta),
        *(("dynamic", eta) for eta in given.dynamic),
        *(("paper", eta) for eta in given.eta if eta),
        *(("ensemble", weight) for weight in given.weight),
    ]
    return ["plain", "rag-only", *(f"{name}:{number:g}" for name, number in numbers)]


def metrics(settings: Mapping[str, Figures], passages: str) -> dict[str, float]:
    """Return what is reported, as far as it has a meaning in each setting."""
    found: dict[str, float] = {}
    for name, figures in settings.items():
        score = figures.scores["contains"]
        told = {name: getattr(figures, name) for name in COLUMNS[1:]}
        told |= {"score": score.mean, "score_stderr": score.stderr}
        found |= {
            f"{key}.{passages}.{name}": value for key, value in told.items() if value is not None
        }
    return found


def show(ways: Sequence[Setting], settings: Mapping[str, Figures], passages: str) -> None:
    """Print a table."""
    found = metrics(settings, passages)
    head = ("score", "accepted", "length", "TV to p")
    print(f"{passages} passages\n{'':<16}" + "".join(f"{title:>10}" for title in head))
    for way in ways:
        cells = (found.get(f"{column}.{passages}.{way.name}") for column in COLUMNS)
        row = "".join(f"{'' if cell is None else f'{cell:.3f}':>10}" for cell in cells)
        print(f"{way.name:<16}{row}", flush=True)


if __name__ == "__main__":
    main()
