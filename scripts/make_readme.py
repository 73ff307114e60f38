"""Write the figures of ``benchmarks/results`` into the README, between its two markers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from figures import renew

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"


def results() -> dict[str, dict[str, float]]:
    """Return the metrics of each file of results, by its name."""
    files = RESULTS.glob("*.json")
    return {file.stem: json.loads(file.read_text(encoding="utf-8"))["metrics"] for file in files}


Row = tuple[str, str, str, str]


def table() -> str:
    """Return the table of figures."""
    found = results()
    rows = [*ahead_rows(found), *answer_rows(found), *token_rows(found)]
    rows += [*server_rows(found), *ground_rows(found)]
    lines = ["| what | measured | beside it | benchmark |", "|---|---|---|---|"]
    lines += [f"| {a} | **{b}** | {c} | `{d}` |" for a, b, c, d in rows]
    return "\n".join(lines) + "\n"


def ahead_rows(found: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Return the rows on speculation."""
    pause, no_pause = found["prefetch"], found["prefetch-no-pause"]
    relaxed, talk = found["prefetch-relaxed"], found["conversation"]
    gate, inject = found["gate"], found["inject"]
    return [
        (
            "time to first token, typed at 3 words/s, 0.35 s before Enter, of the plain time",
            f"{pause['ttft_ratio_mean']:.2f}",
            f"median {pause['ttft_s_ahead']:.2f} s, plainly {pause['ttft_s_plain']:.2f} s; "
            f"p95 {pause['ttft_ratio_p95']:.2f}; thrown away: "
            f"{pause['wasted_ratio']:.2f} of a prompt",
            "bench_prefetch.py",
        ),
        (
            "the same, Enter struck with the last key",
            f"{no_pause['ttft_ratio_mean']:.2f}",
            f"p95 {no_pause['ttft_ratio_p95']:.2f}; `relaxed`: {relaxed['ttft_ratio_mean']:.2f}, "
            f"p95 {relaxed['ttft_ratio_p95']:.2f}",
            "bench_prefetch.py --pause 0",
        ),
        (
            "the same in a conversation, from the second turn on",
            f"{talk['ttft_ratio_mean']:.2f}",
            f"for {talk['computed_ratio']:.2f} of the tokens computed, "
            f"{talk['computed_after_submit_ratio']:.2f} of them after Enter",
            "bench_conversation.py",
        ),
        (
            "answers that reading ahead changed, of all the above",
            f"{1 - min(m['identical_share'] for m in (pause, no_pause, relaxed, talk)):.0%}",
            "each compared with a cold run, token for token",
            "bench_prefetch.py",
        ),
        (
            "F1 of the gate for “the best passage is final”, cross-validated over questions",
            f"{gate['f1']:.3f}",
            f"base rate {gate['base_rate']:.2f}; score, margin and length alone "
            f"{gate['f1_score_margin_words']:.3f}",
            "fit_gate.py",
        ),
        (
            "right answers where the first search missed the passage on purpose, with `--inject`",
            f"{inject['contains.dropped.inject']:.2f}",
            f"without {inject['contains.dropped.plain']:.2f}; injections where the passage was "
            f"there: {inject['injections.present.inject']:.2f} an answer",
            "bench_inject.py",
        ),
    ]


def answer_rows(found: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Return the rows on drafts and their evidence."""
    drafts, evidence, edits = found["drafts"], found["evidence"], found["evidence_edits"]
    plain = f"plainly {drafts['clean.plain']:.2f} and {drafts['names_wrong.plain']:.2f}"

    def row(preset: str, said: str) -> Row:
        return (
            said,
            f"{drafts[f'clean.{preset}']:.2f}",
            f"wrong ones in {drafts[f'names_wrong.{preset}']:.2f}; {plain}; in "
            f"{drafts[f'time_ratio.{preset}']:.2f} of the time",
            "bench_drafts.py",
        )

    return [
        row("fast", "a right and no wrong answer over contradicting documents (RAMDocs), `fast`"),
        row("accurate", "the same, `accurate`"),
        (
            "claims told supported or not (WiCE, balanced accuracy), without any model",
            f"{evidence['balanced_accuracy.all']:.2f}",
            f"changed numbers and dates caught: {edits['edits_caught']:.1%}, false alarms "
            f"{edits['false_alarms']:.1%}",
            "fit_evidence.py",
        ),
    ]


def token_rows(found: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Return the rows on draft tokens."""
    rapid, exact = found["rapid"], found["lookup"]
    return [
        (
            "decoding grounded answers, copied and drafted tokens together, against plainly",
            f"{rapid['decode_speedup.hybrid']:.2f} ×",
            f"copies alone {rapid['decode_speedup.lookup']:.2f}, drafter alone "
            f"{rapid['decode_speedup.rag']:.2f}; transformers' prompt lookup "
            f"{rapid['decode_speedup.hf_lookup']:.2f}, assisted generation "
            f"{rapid['decode_speedup.hf_assisted']:.2f}",
            "bench_rapid.py --drafter-dtype int8",
        ),
        (
            "the same, free answers that quote nothing",
            f"{rapid['decode_speedup.free.hybrid']:.2f} ×",
            f"copies alone {rapid['decode_speedup.free.lookup']:.2f}; transformers' "
            f"{rapid['decode_speedup.free.hf_lookup']:.2f} and "
            f"{rapid['decode_speedup.free.hf_assisted']:.2f}",
            "bench_rapid.py --drafter-dtype int8",
        ),
        (
            "answers that draft tokens changed, in float32",
            f"{1 - exact['identical_share']:.0%}",
            f"copies alone, 0.5B: {exact['decode_speedup.lookup']:.2f} × grounded, "
            f"{exact['decode_speedup.free.lookup']:.2f} × free",
            "bench_lookup.py --dtype float32",
        ),
    ]


def server_rows(found: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Return the rows on the server."""
    load, typed, live = found["serve"], found["serve-typing"], found["serve-live"]
    return [
        (
            f"errors in {load['num_answers']:.0f} requests to the server, 32 at a time",
            f"{load['errors']:.0f}",
            f"{load['requests_per_s']:.2f} a second; first token p50 {load['ttft_p50_s']:.0f} s, "
            f"p95 {load['ttft_p95_s']:.0f} s, nearly all of it in the queue; between tokens p95 "
            f"{load['itl_p95_s']:.1f} s; memory {load['rss_mb'] / 1e3:.1f} GB, after the warm-up "
            f"{load['rss_slope_mb_per_100']:+.0f} MB per 100 answers",
            "bench_serve.py",
        ),
        (
            "time to first token over HTTP, typed into a session, of the plain time",
            f"{typed['typing.ttft_ratio']:.2f}",
            f"median {typed['typing.ttft_s']:.2f} s, plainly {typed['plain.ttft_s']:.2f} s; "
            f"{typed['typing.busy.ttft_ratio']:.2f} beside four streams",
            "bench_serve.py --requests 0",
        ),
        (
            "a live answer's time to first token beside four people who type, of that without",
            f"{live['live.sparse.ttft_with_typing_ratio']:.2f}",
            f"{live['live.sparse.wait_with_typing_s']:.2f} s of it for one step of a guess; "
            f"{live['live.ttft_with_typing_ratio']:.2f} where answers leave no time for guesses",
            "bench_serve.py --requests 0",
        ),
    ]


def ground_rows(found: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Return the rows on what speculation stands on."""
    search, add = found["search"], found["add"]
    retrieval, generate, int8 = found["retrieval"], found["generate"], found["quantize"]
    return [
        (
            "the next token with `--dtype int8`, of the time in bfloat16 (approximate)",
            f"{int8['step1_s_ratio.int8_to_bfloat16']:.2f}",
            f"KL to float32 {int8['kl.int8']:.4f}, bfloat16's {int8['kl.bfloat16']:.4f}; five "
            f"tokens at once {int8['step5_s_ratio.int8_to_bfloat16']:.2f}, nine "
            f"{int8['step9_s_ratio.int8_to_bfloat16']:.2f}",
            "bench_quantize.py",
        ),
        (
            "the right passage is among the first three (Natural Questions)",
            f"{retrieval['recall@3.hybrid']:.3f}",
            f"words alone {retrieval['recall@3.lexical']:.3f}, "
            f"meaning alone {retrieval['recall@3.dense']:.3f}",
            "bench_retrieval.py",
        ),
        (
            f"search over {search['num_passages']:,} passages, p50",
            f"{search['p50_s'] * 1e3:.0f} ms",
            f"encoding the query alone {search['encode_p50_s'] * 1e3:.0f} ms",
            "bench_search.py",
        ),
        (
            f"reading, cutting and storing, as a share of `add` ({add['num_files']} HTML pages)",
            f"{add['other_share']:.1%}",
            f"{add['seconds'] - add['encode_s']:.0f} s for {add['num_passages']:,} passages; "
            "the rest is the embedding model",
            "bench_add.py",
        ),
        (
            "answers equal to `transformers.generate`, token for token",
            f"{generate['identical_share']:.0%}",
            f"in {generate['e2e_ratio']:.2f} of its time",
            "bench_generate.py",
        ),
    ]


def main() -> None:
    """Rewrite the README, or with ``--check`` fail if that would change it."""
    renew(README, table(), "scripts/make_readme.py")


if __name__ == "__main__":
    main()
