import itertools
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from readahead.config import InjectConfig
from readahead.lm.base import Cache
from readahead.lm.generate import Piece, stream
from readahead.lm.kv import KVCache
from readahead.lm.model import TransformersModel
from readahead.lm.node import num_shared
from readahead.lm.prompt import Context, Prompt, build_prompt
from readahead.lm.sample import SamplingParams
from readahead.speculation.retrieval import written
from readahead.speculation.retrieval.adding import Search
from readahead.speculation.retrieval.inject import Injected, Injecting
from readahead.speculation.retrieval.placing import Layout
from readahead.trace import Trace
from readahead.types import Hit, Passage
from tests.conftest import make_llama, make_tokenizer

QUESTION = "Who keeps the lamp of the old tower?"
PARAMS = SamplingParams(max_new_tokens=24)
ALWAYS = InjectConfig(threshold=0.0, min_similarity=-1.0, cool_down_tokens=0, jump=0.0)
NEVER = ALWAYS.model_copy(update={"threshold": 1.0})


def hit(number: int, text: str, similarity: float | None = 0.7) -> Hit:
    passage = Passage(f"{number}.md", text, 0, len(text), id=f"{number}.1.1")
    return Hit(passage, 1.0 / number, similarity)


SHOWN = [hit(1, "The lamp burns oil."), hit(2, "The tower is old.")]
NEW = [hit(3, "Ada keeps the lamp."), hit(4, "Bo paints boats."), hit(5, "Cy sails.")]


class Script(TransformersModel):
    """The tiny model with a strong leaning to begin its answers in a given way."""

    def __init__(self, said: str = "", num_prompt_tokens: int = 0) -> None:
        super().__init__(make_llama(), make_tokenizer(), prefill_step_tokens=16)
        self.num_forwards = 0
        self._said = self.tokenizer.encode(said)
        self._begin = num_prompt_tokens

    def forward(self, token_ids: Tensor, cache: Cache, *, num_logits: int = 1) -> Tensor:
        self.num_forwards += 1
        logits = super().forward(token_ids, cache, num_logits=num_logits)
        place = cache.length - self._begin
        if 0 <= place < len(self._said):
            logits[:, -1, self._said[place]] += 1000.0
        return logits


def prompt_of(model: TransformersModel, hits: Sequence[Hit] = SHOWN) -> Prompt:
    return build_prompt(model.tokenizer, QUESTION, [hit.passage for hit in hits], max_tokens=1500)


def searching(*results: Sequence[Hit]) -> Search:
    """Return a search that gives each result once, in turn, and the last one from then on."""
    turns = itertools.chain(results, itertools.repeat(results[-1]))
    return lambda query, k: list(next(turns))[:k]


class Run:
    """What came out of one answer."""

    def __init__(
        self,
        config: InjectConfig,
        search: Search,
        *,
        model: TransformersModel | None = None,
        params: SamplingParams = PARAMS,
        hits: Sequence[Hit] = SHOWN,
    ) -> None:
        self.model = model or Script()
        self.trace = Trace("test")
        prompt = prompt_of(self.model, hits)
        self.injecting = Injecting(self.model, QUESTION, prompt, hits, search, config=config)
        self.events = list(self.injecting.stream(params, trace=self.trace))
        self.pieces = [event for event in self.events if isinstance(event, Piece)]
        self.injected = [event for event in self.events if isinstance(event, Injected)]
        self.text = "".join(piece.text for piece in self.pieces)
        self.ids = [token_id for piece in self.pieces for token_id in piece.token_ids]
        log = self.trace.attributes["inject"]
        assert isinstance(log, list)
        self.log: list[dict[str, object]] = log

    @property
    def layout(self) -> Layout:
        return self.injecting._adding.layout

    def num_before(self, number: int) -> int:
        """Return how many tokens were released before an injection."""
        place = self.events.index(self.injected[number])
        pieces = [event for event in self.events[:place] if isinstance(event, Piece)]
        return sum(len(piece.token_ids) for piece in pieces)


def plain(prompt: Sequence[int], params: SamplingParams = PARAMS) -> list[int]:
    return [i for piece in stream(Script(), prompt, params) for i in piece.token_ids]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("hits", [SHOWN, SHOWN[:1], [hit(1, "潮水每天涨落两次。")]])
def test_while_nothing_is_injected_the_answer_is_the_plain_one(
    temperature: float, penalty: float, hits: list[Hit]
) -> None:
    params = SamplingParams(
        max_new_tokens=40, temperature=temperature, repetition_penalty=penalty, seed=3
    )
    model = Script()
    expected = list(stream(model, prompt_of(model, hits).token_ids, params))
    for config, search in [
        (NEVER, searching(NEW)),
        (ALWAYS, searching([])),
        (ALWAYS.model_copy(update={"max_injections": 0}), searching(NEW)),
    ]:
        run = Run(config, search, params=params, hits=hits)
        assert run.injected == []
        assert run.text == "".join(piece.text for piece in expected)
        assert run.ids == [i for piece in expected for i in piece.token_ids]
        logprobs = [value for piece in run.pieces for value in piece.logprobs]
        assert logprobs == [value for piece in expected for value in piece.logprobs]
        assert run.pieces[-1].finish_reason == expected[-1].finish_reason


def test_before_anything_is_read_passages_join_the_prompt() -> None:
    """The answer is that of a cold run over the longer prompt, and nothing is read twice."""
    run = Run(ALWAYS.model_copy(update={"max_injections": 1}), searching([*SHOWN, *NEW]))
    assert [passage.id for passage in run.injected[0].passages] == ["3.1.1", "4.1.1", "5.1.1"]
    assert run.injected[0].in_front
    longer = prompt_of(run.model, [*NEW, *SHOWN])
    assert run.layout.ids([]) == list(longer.token_ids)
    assert run.ids == plain(longer.token_ids)
    assert run.trace.counters["computed_tokens"] == len(longer.token_ids) + 23
    assert run.log[0]["moment"] == "start"


def test_a_cache_that_holds_the_prompt_is_taken_back_as_far_as_it_must() -> None:
    model = Script()
    prompt = prompt_of(model)
    cache = model.new_cache()
    model.forward(torch.tensor([prompt.token_ids[:-1]]), cache)
    config = ALWAYS.model_copy(update={"max_injections": 1})
    injecting = Injecting(model, QUESTION, prompt, SHOWN, searching(NEW), config=config)
    pieces = [e for e in injecting.stream(PARAMS, cache=cache) if isinstance(e, Piece)]
    ids = [token_id for piece in pieces for token_id in piece.token_ids]
    assert ids == plain(prompt_of(model, [*NEW, *SHOWN]).token_ids)


@pytest.mark.parametrize("placement", ["note", "turn", "prompt"])
@pytest.mark.parametrize("num_empty", [1, 2, 3])
def test_within_the_answer_the_rest_is_that_of_a_cold_run(placement: str, num_empty: int) -> None:
    """What was taken back leaves no trace in what comes after it."""
    config = ALWAYS.model_copy(update={"max_injections": 1, "placement": placement})
    model = Script("It is night. Ada keeps Bo", len(prompt_of(Script()).token_ids))
    run = Run(config, searching(*[[]] * num_empty, NEW), model=model)
    assert len(run.injected) == 1
    assert run.log[-1]["moment"] == "jump"
    kept = run.ids[: run.num_before(0)]
    assert bool(run.layout.notes) == (placement != "prompt")
    rest = plain(
        run.layout.ids(kept), SamplingParams(max_new_tokens=PARAMS.max_new_tokens - len(kept))
    )
    assert run.ids == [*kept, *rest]
    assert run.text == run.model.tokenizer.decode(run.ids)


REFUSAL = "It is night. The passages do not contain the answer"


@pytest.mark.parametrize("placement", ["note", "turn", "prompt"])
def test_a_refusal_is_taken_back_before_anyone_sees_it(
    placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "MAX_HELD_TOKENS", 60)  # a token is a byte here
    begin = len(prompt_of(Script()).token_ids)
    model = Script(REFUSAL, begin)
    config = ALWAYS.model_copy(update={"max_injections": 1, "jump": 99.0, "placement": placement})
    run = Run(config, searching([], NEW), model=model, params=SamplingParams(max_new_tokens=60))
    assert [entry["moment"] for entry in run.log] == ["start", "refusal"]
    assert run.text.startswith("It is night.")
    released = "".join(
        event.text
        for event in itertools.takewhile(lambda event: isinstance(event, Piece), run.events)
        if isinstance(event, Piece)
    )
    assert released == "It is night. "
    if placement != "prompt":
        (place, note), *_ = run.layout.notes
        assert run.model.tokenizer.decode(run.ids[:place]) == "It is night. "
        assert len(note) <= run.injected[0].num_tokens


def test_behind_earlier_turns_numbers_go_on() -> None:
    model = Script()
    earlier = prompt_of(model, [hit(8, "Di reads maps.")])
    context = Context(earlier.parts, earlier.passages, earlier.text)
    prompt = build_prompt(
        model.tokenizer,
        QUESTION,
        [one.passage for one in SHOWN],
        max_tokens=1500,
        context=context,
    )
    config = ALWAYS.model_copy(update={"max_injections": 1})
    found = searching([hit(8, "Di reads maps."), *NEW[:1]])
    injecting = Injecting(model, QUESTION, prompt, SHOWN, found, config=config, context=context)
    (injected,) = [e for e in injecting.stream(PARAMS) if isinstance(e, Injected)]
    assert [passage.id for passage in injected.passages] == ["3.1.1"]
    text = model.tokenizer.decode(injecting._adding.layout.ids([]))
    assert text.startswith(earlier.text.split("<|")[0])
    assert "[2] 3.md\nAda keeps the lamp." in text


def test_in_a_conversation_what_was_read_stays_in_front() -> None:
    """The answer is that of a cold run over the longer prompt, whose beginning is the shorter's."""
    model = Script()
    prompt = prompt_of(model)
    config = ALWAYS.model_copy(update={"max_injections": 1})
    injecting = Injecting(
        model, QUESTION, prompt, SHOWN, searching(NEW[:1]), config=config, keeps_prefix=True
    )
    events = list(injecting.stream(PARAMS))
    (injected,) = [event for event in events if isinstance(event, Injected)]
    ids = [i for event in events if isinstance(event, Piece) for i in event.token_ids]
    longer = prompt_of(model, [*SHOWN, *NEW[:1]])
    assert not injected.in_front
    assert not injected.in_answer
    assert injected.prompt == longer
    assert injected.token_ids == longer.token_ids
    assert num_shared(prompt.token_ids, longer.token_ids) >= prompt.spans[-1][1]
    assert ids == plain(longer.token_ids)


def test_a_passage_of_which_a_part_was_injected_is_not_injected_again() -> None:
    far = hit(3, "Gulls nest along the shore and feed on fish and crabs. Ada keeps the lamp. " * 3)
    config = ALWAYS.model_copy(update={"max_tokens_each": 50, "max_tokens": 500})
    run = Run(config, searching([far]), params=SamplingParams(max_new_tokens=60))
    (injected,) = run.injected
    assert injected.passages[0].start > 0
    assert len(run.log) > 1  # it was asked for again


def test_what_is_in_context_is_judged_too() -> None:
    model = Script()
    known = hit(8, "Ada keeps the lamp of the old tower.", 0.9)
    probabilities = []
    for context_hits in ([], [known]):
        injecting = Injecting(
            model,
            QUESTION,
            prompt_of(model, []),
            [],
            searching([]),
            config=ALWAYS,
            context_hits=context_hits,
        )
        list(injecting.stream(PARAMS, trace=(trace := Trace("test"))))
        log = trace.attributes["inject"]
        assert isinstance(log, list)
        probabilities.append(log[0]["probability"])
    assert probabilities[1] < probabilities[0]


class Fixed(Script):
    """A model whose caches cannot go back."""

    def new_cache(self, padding: Sequence[int] = (0,)) -> KVCache:
        class Stuck(KVCache):
            refusal = "it is stuck"

        return Stuck(self.backend.config, padding)


def test_a_cache_that_cannot_go_back_gets_nothing_once_it_is_read() -> None:
    run = Run(ALWAYS, searching([], NEW), model=Fixed("Zed, Bo, Cy", 0))
    assert run.injected == []
    assert run.ids == [
        i for p in stream(Script(), prompt_of(Script()).token_ids, PARAMS) for i in p.token_ids
    ]


def test_limits_are_kept() -> None:
    long = [hit(n, "One two three four five six seven. " * 20) for n in range(3, 9)]
    config = ALWAYS.model_copy(update={"max_tokens": 192, "max_tokens_each": 64})
    run = Run(config, searching(long), params=SamplingParams(max_new_tokens=100))
    assert 1 <= len(run.injected) <= config.max_injections
    assert (
        sum(injected.num_tokens for injected in run.injected) <= 192 + 2 * 30
    )  # and what marks a note
    for injected in run.injected:
        for passage in injected.passages:
            assert long[0].passage.text.startswith(passage.text)
    assert run.trace.counters["injections"] == len(run.injected)
    assert run.trace.counters["injected_tokens"] == sum(i.num_tokens for i in run.injected)


def test_after_an_injection_there_is_a_pause() -> None:
    begin = len(prompt_of(Script(), [NEW[0], *SHOWN]).token_ids)
    for cool_down, place in [(0, 0), (5, 5), (8, 9)]:  # where a word begins: a token is a byte
        config = ALWAYS.model_copy(
            update={"cool_down_tokens": cool_down, "max_tokens": 2000, "placement": "prompt"}
        )
        model = Script("Zed, Bo, Cy, Di", begin)
        run = Run(config, searching(NEW[:1], NEW), model=model)
        assert len(run.injected) == 2
        assert run.log[1]["at_token"] == place


def test_a_full_context_gets_nothing_and_goes_on() -> None:
    shown = prompt_of(Script())
    small = TransformersModel(
        make_llama(max_position_embeddings=len(shown.token_ids) + 30),
        make_tokenizer(),
        prefill_step_tokens=16,
    )
    run = Run(ALWAYS, searching(NEW), model=small)
    assert run.injected == []
    assert run.ids == plain(shown.token_ids)
    assert run.log[0]["reason"] == "nothing new is close enough, or fits"
    num = len(shown.token_ids)
    for limit, fits in [(num + 40, False), (num + 80, True)]:
        model = Script()
        injecting = Injecting(
            model,
            QUESTION,
            shown,
            SHOWN,
            searching(NEW),
            config=ALWAYS,
            max_prompt_tokens=limit,
        )
        events = list(injecting.stream(PARAMS))
        assert any(isinstance(event, Injected) for event in events) == fits
        assert len(injecting._adding.layout.ids([])) <= limit


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 60))
def test_a_cancelled_answer_ends_within_one_step(after: int) -> None:
    model = Script()
    cancelled_at: list[int] = []

    def cancelled() -> bool:
        if model.num_forwards >= after and not cancelled_at:
            cancelled_at.append(model.num_forwards)
        return bool(cancelled_at)

    injecting = Injecting(
        model, QUESTION, prompt_of(model), SHOWN, searching([], [], NEW), config=ALWAYS
    )
    events = list(injecting.stream(PARAMS, cancelled=cancelled))
    last = events[-1]
    assert isinstance(last, Piece)
    if cancelled_at:
        assert last.finish_reason == "cancelled"
        assert model.num_forwards == cancelled_at[0]


def test_the_trace_tells_when_the_gate_was_asked_and_why_not() -> None:
    run = Run(NEVER, searching(NEW))
    assert run.log[0]["moment"] == "start"
    for entry in run.log:
        assert entry["reason"] == "the passages seem to hold the answer"
        signals = entry["signals"]
        assert isinstance(signals, dict)
        assert {"similarity", "coverage"} <= set(signals)
        told = {"entropy", "attention_entropy", "unsupported"} <= set(signals)
        assert told == (entry["moment"] != "start")
    fired = Run(ALWAYS.model_copy(update={"max_injections": 1}), searching(NEW)).log[0]
    assert fired["query"] == QUESTION
    assert fired["injected"] == ["3.1.1", "4.1.1", "5.1.1"]
    assert fired["retrieved"] == [
        {"id": one.passage.id, "similarity": one.similarity} for one in NEW
    ]


def test_rare_words_of_what_was_injected_may_be_made_likelier() -> None:
    model = Script()
    config = ALWAYS.model_copy(update={"max_injections": 1, "logit_bias": 5.0})
    injecting = Injecting(
        model,
        QUESTION,
        prompt_of(model),
        SHOWN,
        searching(NEW[:1]),
        config=config,
        rarity=lambda word: float(word == "Ada"),
    )
    list(injecting.stream(PARAMS))
    (space,) = model.tokenizer.encode(" ")  # a token is a byte: the first of " Ada"
    assert injecting._model.bias == {space: 5.0}
    without = Run(config.model_copy(update={"logit_bias": 0.0}), searching(NEW[:1]))
    assert without.injecting._model.bias == {}


def test_nothing_waits_while_the_gate_is_far_from_firing() -> None:
    begin = len(prompt_of(Script()).token_ids)
    texts = {}
    for threshold in (0.0, 1.0):
        config = ALWAYS.model_copy(update={"threshold": threshold, "jump": 99.0})
        held = [hit(1, QUESTION, 0.9), hit(2, "The tower is old.", 0.1)]  # all but the answer
        model = Script("The passages tell.", begin)
        prompt = prompt_of(model)
        injecting = Injecting(model, QUESTION, prompt, held, searching([]), config=config)
        pieces = [p for p in injecting.stream(PARAMS) if isinstance(p, Piece)]
        texts[threshold] = "".join(piece.text for piece in pieces[:6])
    assert texts == {0.0: "", 1.0: "The pa"}


@pytest.mark.real
def test_on_a_real_model_the_tokens_are_those_of_cold_runs(
    smollm: TransformersModel,
) -> None:
    prompt = prompt_of(smollm)
    params = SamplingParams(max_new_tokens=16)
    expected = [i for p in stream(smollm, prompt.token_ids, params) for i in p.token_ids]
    run = Run(NEVER, searching(NEW), model=smollm, params=params)
    assert run.ids == expected
    assert {entry["moment"] for entry in run.log} >= {"start"}
    longer = prompt_of(smollm, [*NEW[:1], *SHOWN])
    given = Run(
        ALWAYS.model_copy(update={"max_injections": 1}),
        searching(NEW[:1]),
        model=smollm,
        params=params,
    )
    cold = [i for p in stream(smollm, longer.token_ids, params) for i in p.token_ids]
    assert given.ids == cold
