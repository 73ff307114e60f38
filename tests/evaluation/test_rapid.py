"""Settings answer over long documents, each as it promises; the drafter reads what is shown."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from readahead.config import load_config
from readahead.errors import ContextOverflow, InputError
from readahead.evaluation.longcases import LongCase, Turn
from readahead.evaluation.longread import Long, Reader, WordIndex, ask, fitting_passages
from readahead.evaluation.needles import make_needles
from readahead.evaluation.rapid import Mean, evaluate_rapid
from readahead.evaluation.rapidrun import Runner, num_weights
from readahead.evaluation.rapidsettings import DEFAULT_SETTINGS, read_settings
from readahead.lm.model import TransformersModel
from readahead.retrieval.base import Vectors
from readahead.speculation.tokens import refresh
from readahead.types import Passage
from tests.conftest import make_llama, make_tokenizer

CONFIG = load_config(
    {
        "passages.max_words": 30,
        "generation.max_new_tokens": 12,
        "tokens.num_draft_tokens": 3,
        "tokens.context_share": 0.5,
    }
)
DOCUMENT = "\n\n".join(
    f"The lamp of place {n} was lit in {1800 + n} by its keeper." for n in range(9)
)

SAID = "In 1806 that of 6, in 1807 that of 7."


def case(document: str = DOCUMENT, question: str = "When was place 4 lit?") -> LongCase:
    return LongCase("c", document, (Turn(question, ("1804",)),), "contains", ("g",))


class FirstLetters:
    """Embeds a text as the counts of its letters."""

    fingerprint, dim, max_tokens = "letters", 26, 1000

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        rows = np.array(
            [[text.count(chr(97 + n)) for n in range(26)] for text in texts], np.float32
        )
        units: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return units

    def embed_query(self, text: str) -> Vectors:
        return self.embed_passages([text])


@pytest.fixture(scope="module")
def runner(model: TransformersModel) -> Runner:
    return Runner(model, model, CONFIG)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_all_settings_answer(runner: Runner, share: float) -> None:
    cases = [make_needles(400, runner.target.tokenizer, seed, num_needles=1) for seed in range(2)]
    settings = read_settings(f"{DEFAULT_SETTINGS} augmented:2", eta=runner.eta)
    seen: list[tuple[int, int]] = []
    report = evaluate_rapid(cases, runner, settings, progress=lambda *done: seen.append(done))
    assert seen == [(1, 2), (2, 2)]
    assert (len(report.rows), report.failed) == (2, ())
    assert list(report.settings) == [*DEFAULT_SETTINGS.split(), "augmented:2"]
    for name in ("plain", "lookup", "rag", "hybrid"):
        figures = report.settings[name]
        assert (figures.identical_share, figures.mean_gap) == (1.0, 0.0)
    for name in ("augmented", "paper", "ensemble"):
        figures = report.settings[name]
        assert figures.identical_share is None
        assert figures.acceptance_rate is not None
        assert figures.mean_gap is not None and 0 <= figures.mean_gap <= 1
        assert len(figures.acceptance_by_position or ()) == 3
    alone = report.settings["rag-only"]
    assert (alone.tokens_per_forward, alone.acceptance_rate, alone.mean_gap) == (None, None, None)
    assert alone.num_prompt_tokens == 0 < alone.num_drafter_tokens
    assert report.settings["plain"].tokens_per_forward == 1.0
    assert report.settings["plain"].num_drafter_tokens == 0


def test_rates_are_those_of_all_answers_together(runner: Runner) -> None:
    settings = read_settings("plain rag", eta=5)
    report = evaluate_rapid([case(), case(question="And place 7?")], runner, settings)
    tallies = [row.runs["rag"].tally for row in report.rows]
    drafted = sum(tally.drafted.total() for tally in tallies if tally)
    accepted = sum(tally.accepted.total() for tally in tallies if tally)
    num_rounds = sum(tally.num_rounds for tally in tallies if tally)
    figures = report.settings["rag"]
    assert drafted > 0
    assert figures.acceptance_rate == accepted / drafted
    num_drafted_rounds = sum(
        num_drafted > 0 for tally in tallies if tally for _, num_drafted, _, _ in tally.rounds
    )
    assert num_drafted_rounds < num_rounds  # the first round of an answer has no draft
    assert figures.mean_acceptance_length == 1 + accepted / num_drafted_rounds
    assert figures.tokens_per_forward == 1 + accepted / num_rounds
    assert figures.scores["contains"].n == figures.groups["g"].n == 2
    assert all(seconds >= 0 for seconds in figures.seconds.values())
    assert min(figures.seconds[part] for part in ("prefill_s", "verify_s", "decode_s")) > 0


def test_drawn_tokens_are_not_compared(model: TransformersModel) -> None:
    generation = CONFIG.generation.model_copy(update={"temperature": 1.0})
    warm = Runner(model, model, CONFIG.model_copy(update={"generation": generation}))
    report = evaluate_rapid([case()], warm, read_settings("plain rag augmented:0", eta=5))
    assert report.settings["rag"].identical_share is None
    assert report.settings["augmented:0"].mean_gap == pytest.approx(0.0, abs=1e-5)


def test_another_setting_is_not_touched_by_those_before(runner: Runner) -> None:
    """Each writes into a fork of what was read."""
    settings = read_settings("paper:50 rag-only plain", eta=5)
    alone = evaluate_rapid([case()], runner, settings[-1:]).rows[0].runs["plain"]
    last = evaluate_rapid([case()], runner, settings).rows[0].runs["plain"]
    assert alone.token_ids == last.token_ids


def test_a_drafter_may_retrieve_again_while_it_drafts(
    model: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tiny model writes no sentences, so it is said to have written one."""
    monkeypatch.setattr(refresh, "last_sentence", lambda *_: SAID)
    changes = {"refresh_tokens": 2, "context_share": 0.1}
    tokens = CONFIG.tokens.model_copy(update=changes)
    again = Runner(model, model, CONFIG.model_copy(update={"tokens": tokens}))
    settings = read_settings("plain lookup rag hybrid", eta=5)
    report = evaluate_rapid([case()], again, settings)
    for name in ("lookup", "rag", "hybrid"):
        figures = report.settings[name]
        assert figures.identical_share == 1.0
        assert figures.seconds["refresh_s"] > 0
    assert report.settings["plain"].seconds["refresh_s"] == 0
    opened = Long.open(case(), model.tokenizer, again.config, 900, None)
    asked = ask(opened, 0, model.tokenizer, again.config, 900)
    assert "place 7" not in asked.own.text
    assert "place 7" in asked.refreshed(SAID).own.text


def test_a_document_is_read_once(model: TransformersModel) -> None:
    reader = Reader(model)
    one = reader.fork((5, 6, 7))
    seconds = reader.seconds
    model.forward(torch.tensor([[8]]), one)
    other = reader.fork((5, 6, 7))
    assert (one.length, other.length, reader.seconds) == (4, 3, seconds)
    assert reader.fork((5, 6)).length == 2


@pytest.mark.parametrize("room", [600, 10_000])
def test_the_middle_is_cut_and_the_prompt_fits(runner: Runner, room: int) -> None:
    tokenizer = runner.target.tokenizer
    passages = fitting_passages(case(), tokenizer, CONFIG.passages, room)
    long = Long(case(), tuple(passages), WordIndex(passages), 0.0)
    asked = ask(long, 0, tokenizer, CONFIG, room)
    assert len(asked.prompt.token_ids) <= room
    assert asked.prompt.dropped == ()
    text = " ".join(passage.text for passage in passages)
    assert text.startswith("The lamp of place 0")
    assert text.endswith("keeper.")
    assert ("place 4" in text) == (room == 10_000)


def test_the_drafter_reads_nothing_that_the_target_does_not(runner: Runner) -> None:
    tokenizer = runner.target.tokenizer
    for room in (700, 10_000):
        asked = ask(Long.open(case(), tokenizer, CONFIG, room, None), 0, tokenizer, CONFIG, room)
        shown = {passage.text for passage in asked.prompt.passages}
        assert asked.own.passages
        assert {passage.text for passage in asked.own.passages} <= shown
        assert len(asked.own.token_ids) < len(asked.prompt.token_ids)
        places = [passage.start for passage in asked.own.passages]
        assert places == sorted(places)


def test_no_room_is_an_error(runner: Runner) -> None:
    with pytest.raises(ContextOverflow, match="no room"):
        fitting_passages(case(), runner.target.tokenizer, CONFIG.passages, 100)
    report = evaluate_rapid([case()], runner, read_settings("plain", eta=5), max_context_tokens=50)
    assert (report.rows, report.settings) == ((), {})
    assert "no room" in report.failed[0].reason


def test_words_and_vectors_rank() -> None:
    passages = [Passage("d", text, 0, len(text)) for text in ("a cat sat", "the dog", "zzz")]
    assert WordIndex(passages).similarities("a dog") == [0.0, 1.0, 0.0]
    assert WordIndex([]).similarities("a dog") == []
    tokenizer = TransformersModel(make_llama(), make_tokenizer()).tokenizer
    long = Long.open(case(), tokenizer, CONFIG, 10_000, FirstLetters())
    similarities = long.index.similarities(DOCUMENT[:40])
    assert len(similarities) == len(long.passages)
    assert max(similarities) == pytest.approx(1.0, abs=0.2)


def test_unrelated_passages_come_from_another_document(runner: Runner) -> None:
    other = case(
        "\n\n".join(f"A whale sang song {n} off the coast." for n in "abcdefghi"), "Song e?"
    )
    tokenizer = runner.target.tokenizer
    longs = [Long.open(one, tokenizer, CONFIG, 2000, None) for one in (case(), other)]
    asked = ask(longs[0], 0, tokenizer, CONFIG, 2000, other=longs[1])
    assert "whale" in asked.own.passages[0].text
    assert all("whale" not in passage.text for passage in asked.prompt.passages)
    assert "place 4" in asked.own.text
    assert asked.trust == 0.0  # no word of the question is there
    settings = read_settings("plain dynamic:20 augmented:20", eta=5)
    report = evaluate_rapid([case(), other], runner, settings, unrelated=True)
    assert report.settings["dynamic:20"].mean_gap == pytest.approx(0.0, abs=1e-5)
    assert (report.settings["augmented:20"].mean_gap or 0) > 0.001
    with pytest.raises(InputError, match="two cases"):
        evaluate_rapid([case()], runner, settings, unrelated=True)


def test_later_turns_follow_the_right_answers(runner: Runner) -> None:
    given = Turn("Remember the lamp.", ("I shall.",), is_given=True)
    turns = (given, Turn("When?", ("1804",)), Turn("Unknown?", ()), Turn("Where?", ("there",)))
    dialogue = replace(case(), turns=turns)
    report = evaluate_rapid([dialogue], runner, read_settings("plain rag", eta=5))
    assert [row.number for row in report.rows] == [1, 3]
    tokenizer = runner.target.tokenizer
    long = Long.open(dialogue, tokenizer, CONFIG, 2000, None)
    asked = ask(long, 3, tokenizer, CONFIG, 2000)
    assert "I shall." in asked.prompt.text
    assert "1804" in asked.own.text


def test_settings_are_read() -> None:
    settings = read_settings("plain, augmented:5 augmented:5 dynamic ensemble:0.3 paper", eta=7)
    assert [one.name for one in settings] == [
        *("plain", "augmented:5", "dynamic", "ensemble:0.3", "paper")
    ]
    _, augmented, dynamic, ensemble, paper = [one.rule for one in settings]
    assert (augmented.eta, ensemble.weight, paper.eta) == (5, 0.3, 7)
    assert (dynamic.mode, dynamic.eta, dynamic.is_dynamic) == ("augmented", 7, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "No setting"),
        ("fast", "'fast'"),
        ("plain:2", "'plain:2'"),
        ("paper:x", "'x' is no number"),
        ("ensemble:2", "weight is 2.0"),
        ("augmented:-1", "eta is -1.0"),
    ],
)
def test_other_settings_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_settings(text, eta=5)


def test_a_score_has_a_standard_error() -> None:
    assert Mean.of([1.0]) == Mean(1.0, 0.0, 1)
    assert Mean.of([0.0, 1.0, 0.0, 1.0]).stderr == pytest.approx(0.288675)


def test_the_preset_follows_the_models(model: TransformersModel, runner: Runner) -> None:
    assert num_weights(model) > 1000
    assert runner.eta == 10.0


def test_the_tail_of_the_settings_counts() -> None:
    named = "augmented paper:3 dynamic ensemble"
    rules = [one.rule for one in read_settings(named, eta=5, weight=0.6, tail=0.0)]
    assert [rule.tail for rule in rules[:3]] == [0.0, 0.0, 0.0]
    assert [rule.eta for rule in rules[:3]] == [5.0, 3.0, 5.0]
    assert rules[3].weight == 0.6
