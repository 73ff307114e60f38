import shutil
from pathlib import Path

import pytest
from rich.cells import cell_len

from readahead.cli.output import printable
from tests.cli.conftest import Cli

QUESTION = "How often does the tide turn?"
ANSWER_KEYS = "answer abstained confidence method citations usage timing trace_id".split()
USAGE_KEYS = "prompt_tokens completion_tokens computed_tokens reused_tokens retrievals".split()
TIMING_KEYS = "ttft_s e2e_s retrieval_s prefill_s tpot_s".split()
CITATION_KEYS = "marker passage_id document heading page start end text".split()
HIT_KEYS = "passage_id document heading kind score text start end".split()


def test_search_gives_exact_spans(cli: Cli, kb: Path) -> None:
    outcome = cli("search", "what pulls the water", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    hit = outcome.json["hits"][0]
    assert set(HIT_KEYS) <= set(hit)
    assert (hit["document"], hit["heading"]) == ("docs/tides.md", ["Tides", "Moon"])
    text = cli("show", hit["document"], "--json").json["text"]
    assert text[hit["start"] : hit["end"]] == hit["text"]


def test_search_tells_people_where_and_what(cli: Cli, kb: Path) -> None:
    outcome = cli("search", "moon", "-k", "1")
    assert outcome.out.splitlines() == [
        "1. docs/tides.md · Tides > Moon (2.1.1)",
        "   Moon The moon pulls the water.",
    ]


def test_nothing_found_is_no_error(cli: Cli, kb: Path) -> None:
    outcome = cli("search", "zebra")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "Nothing found.\n")
    assert cli("search", "zebra", "--json").json == {"hits": []}


@pytest.mark.parametrize(
    "command", [("add", "docs"), ("search", "moon"), ("ask", "moon?"), ("chat",)]
)
def test_a_search_by_meaning_without_vectors_is_told(
    cli: Cli, kb: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    hint = "words only: this knowledge base has no vectors; give it some with: readahead reembed\n"
    assert hint not in cli(*command).err
    monkeypatch.setenv("READAHEAD_RETRIEVAL__MODE", "hybrid")
    assert hint in cli(*command).err


def test_filters_limit_a_search(cli: Cli, kb: Path) -> None:
    def found(*options: str) -> list[str]:
        hits = cli("search", "the moon, a lamp", "--json", *options).json["hits"]
        return sorted({hit["document"] for hit in hits})

    assert found() == ["docs/lamps.txt", "docs/tides.md"]
    assert found("--document", "docs/lamps.txt") == found("--document", "1") == ["docs/lamps.txt"]
    assert found("--document", "docs") == found()
    assert found("--kind", "table") == []
    assert found("--where", "year=2024") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-k", "0"), "'retrieval.k' is not usable: Input should be greater than 0 (got 0)"),
        (("-k", "10001"), "less than or equal to 10000 (got 10001)"),
        (("--kind", "poem"), "There is no kind 'poem'. Use: title, paragraph, "),
        (("--where", "year"), "'year' is not KEY=VALUE. For instance: --where year=2024"),
        (("--document", "b.md"), "There is no document 'b.md'. List them: readahead ls"),
    ],
)
def test_a_bad_option_of_search_is_named(
    cli: Cli, kb: Path, options: tuple[str, ...], message: str
) -> None:
    outcome = cli("search", "moon", *options)
    assert outcome.status == 2
    assert message in outcome.error


@pytest.mark.parametrize("text", ["", " \t\n", "\u3000"])
@pytest.mark.parametrize("command", ["search", "ask"])
def test_blank_text_is_refused(cli: Cli, kb: Path, command: str, text: str) -> None:
    for outcome in (cli(command, text), cli(command, "-", stdin=text.encode())):
        assert outcome.status == 2
        assert outcome.error.startswith("The question is blank. ")


def test_a_query_comes_from_stdin(cli: Cli, kb: Path) -> None:
    outcome = cli("search", "-", "--json", stdin=b"\xef\xbb\xbfmoon\n")
    assert outcome.json["hits"][0]["document"] == "docs/tides.md"


def test_stdin_that_is_not_text_is_refused(cli: Cli, kb: Path, target: Path) -> None:
    for command in ("search", "ask"):
        outcome = cli(command, "-", stdin=b"moon \xff\x00")
        assert outcome.status == 2
        assert "not UTF-8: byte 5" in outcome.error
    chatted = cli("chat", "--target", target, stdin=b"moon\n\xff\nmoon\n")
    assert chatted.status == 1
    assert "error: Standard input is not UTF-8: byte 0" in chatted.err
    assert chatted.err.count("first token") == 2


def test_ask_prints_the_contract(cli: Cli, kb: Path, target: Path) -> None:
    options = ("--target", target, "--max-new-tokens", "8", "-k", "2")
    outcome = cli("ask", QUESTION, "--json", *options)
    assert outcome.status == 0
    answer = outcome.json
    assert set(ANSWER_KEYS) <= set(answer)
    assert list(answer["usage"]) == USAGE_KEYS
    assert list(answer["timing"]) == TIMING_KEYS
    assert answer["usage"]["completion_tokens"] <= 8
    assert cli("trace", answer["trace_id"], "--json").json["id"] == answer["trace_id"]


def test_ask_streams_the_same_answer_for_people(cli: Cli, kb: Path, target: Path) -> None:
    options = ("--target", target, "--max-new-tokens", "8")
    outcome = cli("ask", "-", *options, stdin=QUESTION.encode())
    assert outcome.status == 0
    assert "first token" in outcome.err
    answer = cli("ask", QUESTION, "--json", *options).json["answer"]
    assert outcome.out == printable(answer) + "\n" != answer + "\n"


DRAFTS = ("--method", "drafts", "--threshold", "0", "--preset", "accurate")


def test_drafts_carry_their_audit(cli: Cli, kb: Path, target: Path) -> None:
    outcome = cli("ask", QUESTION, *DRAFTS, "--target", target, "--json")
    answer = outcome.json
    assert (outcome.status, answer["method"]) == (0, "drafts")
    assert {"threshold", "drafts", "candidates"} <= set(answer["audit"])
    assert answer["audit"]["threshold"] == 0
    plain = cli("ask", QUESTION, "--target", target, "--max-new-tokens", "4", "--json")
    assert "audit" not in plain.json


def test_drafts_are_explained(cli: Cli, kb: Path, target: Path) -> None:
    outcome = cli("ask", QUESTION, *DRAFTS, "--target", target, "--explain")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    (head,) = [number for number, line in enumerate(lines) if "drafts" in line and " · " in line]
    assert lines[head + 1].split()[:2] == ["#", "passages"]
    assert max(map(cell_len, lines[head:])) <= 100
    assert "drafts · answer after" in outcome.err
    assert "tokens/s" not in outcome.err
    id = outcome.err.split("trace ")[1].split()[0]
    shown = cli("trace", id).out.splitlines()
    assert lines[head] in shown
    assert not any("{" in line for line in shown)


def test_drafts_of_a_plain_answer_are_explained(
    cli: Cli, kb: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafting takes too long: what was written until then is shown, and kept."""
    monkeypatch.setenv("READAHEAD_DRAFTS__TIMEOUT_S", "1e-9")
    options = (*DRAFTS, "--target", target, "--max-new-tokens", "4")
    outcome = cli("ask", QUESTION, *options, "--explain")
    told = " ".join(outcome.out.split())
    assert "answered plainly: drafting took longer than 1e-09 s" in told
    assert "first token" in outcome.err
    id = outcome.err.split("trace ")[1].split()[0]
    assert "answered plainly: drafting took longer" in cli("trace", id).out
    answer = cli("ask", QUESTION, *options, "--json").json
    assert (answer["method"], answer["audit"]["drafts"]) == ("plain", [])


RAPID = ("--method", "rapid")
TIDES = ("--document", "docs/tides.md")


def test_rapid_carries_what_draft_tokens_came_to(cli: Cli, kb: Path, target: Path) -> None:
    options = ("--target", target, "--max-new-tokens", "8", "--json")
    outcome = cli("ask", QUESTION, *RAPID, *TIDES, *options, "--draft-tokens", "3")
    answer = outcome.json
    assert (outcome.status, answer["method"]) == (0, "rapid")
    assert set(ANSWER_KEYS) <= set(answer)
    speculation = answer["speculation"]
    assert speculation["mode"] == "exact"
    assert speculation["num_rounds"] == len(speculation["rounds"])
    assert speculation["seconds"]["verify_s"] > 0
    assert answer["timing"]["retrieval_s"] > 0
    plain = cli("ask", QUESTION, *options)
    assert "speculation" not in plain.json


@pytest.mark.parametrize("drafting", ["lookup", "rag", "hybrid"])
def test_rapid_is_explained(cli: Cli, kb: Path, target: Path, drafting: str) -> None:
    options = ("--target", target, "--drafting", drafting, "--draft-tokens", "3", "--explain")
    outcome = cli("ask", QUESTION, *RAPID, *TIDES, *options, "--max-new-tokens", "16")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    (head,) = [number for number, line in enumerate(lines) if " rounds · " in line]
    assert any(line.split()[:2] == ["seconds", "retrieval"] for line in lines[head:])
    assert ("the drafter read" in outcome.out) == (drafting != "lookup")
    assert max(map(cell_len, lines[head:])) <= 100
    id = outcome.err.split("trace ")[1].split()[0]
    shown = cli("trace", id).out.splitlines()
    assert lines[head] in shown
    assert any(line.startswith("  rounds: ■ copied") for line in shown)


def test_rapid_says_what_the_governor_made_of_it(cli: Cli, kb: Path, target: Path) -> None:
    asked = ("ask", QUESTION, *RAPID, *TIDES, "--target", target, "--drafting", "rag")
    told = cli(*asked, "--json").json["speculation"]
    assert 0 <= told["num_drafted_rounds"] < told["num_rounds"]
    assert 0 <= told["governor"]["model"]["acceptance"] <= 1
    outcome = cli(*asked, "--explain")
    id = outcome.err.split("trace ")[1].split()[0]
    for shown in (outcome.out, cli("trace", id).out):
        assert "the governor expects the drafter to decode" in " ".join(shown.split())


def test_a_drafter_may_be_named(cli: Cli, kb: Path, target: Path) -> None:
    options = ("--target", target, "--drafter", target, "--draft-tokens", "2", "--json")
    answer = cli("ask", QUESTION, *RAPID, *TIDES, *options, "--max-new-tokens", "8").json
    assert answer["speculation"]["read"]["num_prompt_tokens"] > 0


def test_another_law_tells_its_gap(cli: Cli, kb: Path, target: Path) -> None:
    law = ("--drafting", "rag", "--mode", "augmented", "--eta", "self-weak", "--explain")
    outcome = cli("ask", QUESTION, *RAPID, *TIDES, *law, "--target", target)
    assert "mode augmented: approximate; total variation from the target " in outcome.out


def test_without_a_passage_the_target_declines(cli: Cli, kb: Path, target: Path) -> None:
    outcome = cli("ask", QUESTION, "--kind", "table", "--target", target)
    assert "No passage of the knowledge base matches" in outcome.out
    assert "(abstained: the passages do not hold the answer)" in outcome.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "magic"), "There is no method 'magic'. Use: plain, drafts, rapid."),
        (("--dtype", "float12"), "'models.dtype' is not usable: Input should be 'auto', 'float32'"),
        (("--device", "abacus"), "There is no device 'abacus'"),
        (("--temperature", "-1"), "greater than or equal to 0 (got -1.0)"),
        (("--temperature", "nan"), "(got nan)"),
        (("--seed", "-1"), "greater than or equal to 0 (got -1)"),
        (("--max-new-tokens", "0"), "greater than 0 (got 0)"),
        (("--max-new-tokens", "99999"), "tokens"),
        (("--threshold", "1.5"), "'1.5' is no threshold. Give strict, lenient or a probability"),
        (("--threshold", "nan"), "'nan' is no threshold."),
        (("--threshold", "high"), "'high' is no threshold."),
        (("--preset", "best"), "--preset is 'best'. Use: fast, accurate."),
        (("--explain",), "--explain is of the method drafts or rapid, not of 'plain'. Add: --met"),
        (("--method", "rapid", "--preset", "fast"), "--preset is of the method drafts, not of 'r"),
        (("--drafting", "rag"), "--drafting is of the method rapid, not of 'plain'. Add: --metho"),
        (("--eta", "0"), "--eta is of the method rapid, not of 'plain'"),
        (("--method", "drafts", "--draft-tokens", "0"), "--draft-tokens is of the method rapid"),
        ((*RAPID, "--drafting", "eagle"), "--drafting is 'eagle'. Use: auto, lookup, rag, hybrid."),
        ((*RAPID, "--mode", "fast"), "--mode is 'fast'. Use: exact, augmented, paper, ensemble."),
        ((*RAPID, "--mode", "paper"), "--mode paper needs a model's distributions, and --drafting"),
        ((*RAPID, "--eta", "5"), "--eta is of the modes augmented and paper, not of 'exact'. Add"),
        ((*RAPID, "--eta", "-1"), "'tokens.eta' is not usable: Input should be greater than or eq"),
        ((*RAPID, "--eta", "strong"), "'tokens.eta' is not usable: Input should be a valid number"),
        ((*RAPID, "--eta", "inf"), "'tokens.eta' is not usable: Input should be a finite number"),
        ((*RAPID, "--inject"), "--inject is of the method plain, not of 'rapid'. Add: --method pl"),
        ((*RAPID, "--draft-tokens", "65"), "'tokens.num_draft_tokens' is not usable: Input should"),
        ((*RAPID, "--drafting", "lookup", "--drafter", "x"), "--drafter names a model, and --draf"),
        ((*RAPID, "--document", "docs"), "2 documents are named; the method 'rapid' reads one."),
        ((*RAPID, "--document", "a b.md"), "readahead ls; or add it: readahead add 'a b.md'"),
        (("--method", "drafts", "--drafter", "gpt9"), "No model is called 'gpt9'. Try qwen"),
    ],
)
def test_a_bad_option_of_ask_is_named(
    cli: Cli, kb: Path, target: Path, options: tuple[str, ...], message: str
) -> None:
    outcome = cli("ask", QUESTION, "--target", target, *options)
    assert outcome.status == 2
    assert message in outcome.error


def test_a_target_that_cannot_be_had_is_named(cli: Cli, kb: Path, place: Path) -> None:
    missing = cli("ask", QUESTION)
    assert missing.status == 2
    assert "Bring it with: readahead pull qwen2.5-coder-0.5b" in missing.error
    unknown = cli("ask", QUESTION, "--target", "minilm-l6-v3").error
    assert "No model is called 'minilm-l6-v3'" in unknown
    assert "qwen2.5-coder-0.5b" in unknown and "all-minilm" not in unknown
    (place / "empty").mkdir()
    assert "holds no config.json" in cli("ask", QUESTION, "--target", "empty").error


def test_a_damaged_target_is_a_fault(cli: Cli, kb: Path, target: Path, place: Path) -> None:
    (shutil.copytree(target, place / "broken") / "tokenizer.json").unlink()
    outcome = cli("ask", QUESTION, "--target", "broken")
    assert outcome.status == 3
    assert "broken' cannot be loaded" in outcome.error
