from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.config import PassagesConfig
from readahead.retrieval.base import Vector
from readahead.retrieval.chunk import chunk
from readahead.retrieval.index import Indexer
from readahead.retrieval.retriever import HybridRetriever
from readahead.retrieval.store import Store
from readahead.speculation.retrieval.topic import (
    MAX_RUNNERS_UP,
    NUM_RUNNERS_UP,
    Topic,
    TopicBounds,
    Verdict,
    loosened,
    match,
    stored_vectors,
)
from readahead.types import Hit, Passage
from tests.retrieval.support import HashingEmbedder, document, source

DOCUMENTS = (
    document("dome", "Aldous Roofing did the work on the copper panels.", title="The dome"),
    document("bus", "Bus 17 leaves Wexcombe station every 40 minutes.", title="By bus"),
    document("tickets", "A day visit costs nine pounds, children pay half.", title="Tickets"),
    document("camera", "Cool the camera before the first frame.", title="Taking an image"),
    document("hours", "天文台周一、周二闭馆。夏天下午五点关门。", title="开放时间"),
    document("photos", "圆顶内可以拍照,三脚架只能在草坪使用。", title="拍照"),
)
EMBEDDER = HashingEmbedder()


class Conversation:
    """A topic over a real store, used as a session uses it."""

    def __init__(self, store: Store, *, k: int = 1) -> None:
        self.topic = Topic(stored_vectors(store))
        self.k = k
        self._retriever = HybridRetriever(store, EMBEDDER)

    def ask(self, question: str) -> tuple[Verdict, bool]:
        verdict = self.topic.judge(question, EMBEDDER.embed_query(question)[0])
        hits = (
            [] if verdict.skip else self._retriever.search(verdict.query, self.k + NUM_RUNNERS_UP)
        )
        return verdict, self.topic.follow(verdict, hits, k=self.k)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder: Path = tmp_path_factory.mktemp("topic")
    with Store.open(folder / "kb") as store:
        cut = partial(chunk, config=PassagesConfig())
        Indexer(store, cut, embedder=EMBEDDER).add(source(d.name, d) for d in DOCUMENTS)
        yield store


@pytest.fixture
def conversation(store: Store) -> Conversation:
    return Conversation(store)


def hit(id: str, text: str) -> Hit:
    return Hit(Passage("document", text, 0, len(text), id=id), 1.0)


def first_turn(topic: Topic, hits: Sequence[Hit], question: str = "Who?", k: int = 1) -> None:
    topic.follow(topic.judge(question), hits, k=k)


def test_the_first_question_is_searched_for_as_it_is(conversation: Conversation) -> None:
    verdict, has_changed = conversation.ask("And who worked on the dome?")
    assert not verdict.skip
    assert not verdict.on_topic
    assert verdict.query == "And who worked on the dome?"
    assert not has_changed
    assert len(conversation.topic.passages) == 1


def test_a_follow_up_that_the_passages_cover_needs_no_retrieval(conversation: Conversation) -> None:
    conversation.ask("Who worked on the dome?")
    before = conversation.topic.passages
    verdict, has_changed = conversation.ask("And the copper panels?")
    assert verdict.skip
    assert verdict.signs == ("and",)
    assert verdict.similarity >= verdict.threshold
    assert not has_changed
    assert conversation.topic.passages == before


def test_a_question_that_a_runner_up_matches_better_is_searched_for(
    conversation: Conversation,
) -> None:
    conversation.ask("Who worked on the dome?")
    verdict, _ = conversation.ask("And which bus leaves the station?")
    assert not verdict.skip
    assert verdict.lead < 0


def test_the_topic_changes_when_question_and_hits_have_left_it(conversation: Conversation) -> None:
    conversation.ask("Who worked on the dome?")
    verdict, has_changed = conversation.ask("Which bus leaves Wexcombe station?")
    assert not verdict.on_topic
    assert has_changed
    assert len(conversation.topic.passages) == 1
    assert conversation.topic.num_turns == 1
    assert "dome" not in conversation.topic.words


def test_a_question_that_refers_back_stays_on_topic_and_brings_its_words(
    conversation: Conversation,
) -> None:
    conversation.ask("How do I cool the camera?")
    verdict, has_changed = conversation.ask("and how do I delete it?")
    assert verdict.on_topic
    assert verdict.query == "and how do I delete it? cool camera"
    assert not has_changed


def test_chinese_follow_ups_and_changes_are_seen(conversation: Conversation) -> None:
    conversation.ask("天文台周几闭馆？")
    covered, _ = conversation.ask("那夏天下午呢？")
    assert covered.skip
    asked_back, has_changed = conversation.ask("那什么时候关门？")
    assert asked_back.signs == ("那",)
    assert asked_back.query.startswith("那什么时候关门？ 天文")
    assert not has_changed
    change, has_changed = conversation.ask("圆顶内可以拍照吗？")
    assert not change.skip
    assert has_changed


def test_without_vectors_words_decide(store: Store) -> None:
    topic = Topic()
    hits = [hit("1", "The lens is in the red box."), hit("2", "Bus 17 leaves at nine.")]
    first_turn(topic, hits, "Where is the lens?")
    assert topic.judge("Which box is it?").skip
    assert not topic.judge("When does the bus leave?").on_topic


def test_nothing_found_changes_nothing(conversation: Conversation) -> None:
    conversation.ask("Who worked on the dome?")
    verdict, has_changed = conversation.ask("   ")
    assert not verdict.skip
    assert not has_changed
    assert conversation.topic.passages


def test_a_known_hit_in_front_holds_the_topic() -> None:
    topic = Topic()
    dome, roof, bus = hit("1", "The dome."), hit("2", "The roof."), hit("3", "The bus.")
    first_turn(topic, [dome, roof, bus], k=2)
    verdict = topic.judge("bus")
    assert not verdict.on_topic
    assert not topic.is_left(verdict, [roof, bus])
    assert topic.is_left(verdict, [bus, roof])


def test_a_passage_that_is_read_is_no_runner_up_any_more() -> None:
    topic = Topic()
    dome, bus = hit("1", "The dome."), hit("2", "The bus.")
    first_turn(topic, [dome, bus])
    assert not topic.judge("bus").skip
    topic.follow(topic.judge("And the bus?"), [bus, dome], k=1)
    assert topic.passages == ("1", "2")
    assert topic.judge("bus").skip


def test_a_topic_that_is_reset_knows_nothing() -> None:
    topic = Topic()
    first_turn(topic, [hit("1", "The dome."), hit("2", "The bus.")], k=2)
    assert topic.judge("And the bus?").skip
    topic.reset()
    assert not topic.passages
    assert not topic.words
    assert not topic.judge("And the bus?").signs


def test_what_was_said_elsewhere_is_referred_back_to_and_holds_no_topic() -> None:
    """Its passages are unknown, so nothing is skipped, and no hit shows that the topic changed."""
    topic = Topic()
    topic.follow(topic.judge("Who keeps the dome?"))
    verdict = topic.judge("And the bus?")
    assert (verdict.signs, verdict.on_topic, verdict.skip) == (("and",), True, False)
    assert verdict.query == "And the bus? keeps dome"
    assert not topic.is_left(topic.judge("bus"), [hit("1", "The bus.")])


def test_runners_up_that_have_gone_are_forgotten() -> None:
    topic = Topic()
    first_turn(topic, [hit("1", "The dome."), hit("2", "The bus.")], k=1)
    assert topic.judge("the bus").lead < 0
    topic.drop(lambda id: id == "2")
    assert topic.judge("the bus").lead == 0
    assert topic.passages == ("1",)


def test_old_runners_up_make_room() -> None:
    topic = Topic(bounds=TopicBounds(similarity=0.0, lead=0.0))
    many = [hit(str(n), "bus" if n == 1 else "snow") for n in range(MAX_RUNNERS_UP + 2)]
    first_turn(topic, many)
    assert topic.judge("and the bus").lead == 0.0
    assert topic.judge("and the snow").lead == 0.0


def test_what_a_runner_up_matches_better_is_off_topic_however_near() -> None:
    topic = Topic()
    first_turn(topic, [hit("1", "The dome in snow."), hit("2", "The dome in snow and ice.")])
    verdict = topic.judge("dome, snow, ice")
    assert verdict.similarity >= verdict.threshold
    assert verdict.lead < 0
    assert not verdict.on_topic


@pytest.mark.parametrize(
    ("bounds", "skip"),
    [
        (TopicBounds(similarity=0.5, lead=0.5), True),
        (TopicBounds(similarity=0.6, lead=0.5), False),
        (TopicBounds(similarity=0.5, lead=0.6), False),
    ],
)
def test_a_skip_needs_a_good_match_and_a_lead(bounds: TopicBounds, skip: bool) -> None:
    topic = Topic(bounds=bounds)
    first_turn(topic, [hit("1", "The dome."), hit("2", "The bus.")])
    verdict = topic.judge("And snow on the dome?")
    assert (verdict.similarity, verdict.lead) == (0.5, 0.5)
    assert verdict.skip is skip


def test_thresholds_loosen_by_a_sixth_and_no_further() -> None:
    assert loosened(0.6, 0) == loosened(0.6, 10) == 0.6
    assert loosened(0.6, 60) == pytest.approx(0.6 * 1.1 / 1.2)
    assert loosened(0.6, 110) == pytest.approx(0.5)
    assert loosened(0.6, 10_000) == pytest.approx(0.5)


def test_a_long_topic_has_a_lower_threshold() -> None:
    topic = Topic()
    first_turn(topic, [hit("1", "The dome.")], "dome " * 60)
    assert topic.judge("dome?").threshold < TopicBounds().similarity


def test_a_match_is_the_mean_of_words_and_meaning() -> None:
    asked, held = frozenset({"dome", "copper"}), frozenset({"dome"})
    assert match(asked, held, None) == 0.5
    assert match(asked, held, 0.3) == pytest.approx(0.4)
    assert match(frozenset(), held, 0.3) == pytest.approx(0.15)


def test_the_trace_shows_what_decided(conversation: Conversation) -> None:
    conversation.ask("Who worked on the dome?")
    verdict, _ = conversation.ask("And the copper panels?")
    assert verdict.signals["skip"] is True
    assert verdict.signals["refers_back"] == ["and"]
    assert set(verdict.signals) >= {"similarity", "lead", "threshold", "on_topic"}


def test_a_passage_without_a_stored_vector_is_compared_by_words(store: Store) -> None:
    unknown = Passage("elsewhere", "never stored", 0, 12, id="9.9.9")
    assert stored_vectors(store)([unknown]) == [None]
    topic = Topic(stored_vectors(store))
    first_turn(topic, [Hit(unknown, 1.0)])
    vector: Vector = EMBEDDER.embed_query("stored")[0]
    assert topic.judge("never stored", vector).similarity == 1.0


@given(st.lists(st.text(), max_size=4))
def test_any_strings_are_judged_and_followed(questions: list[str]) -> None:
    topic = Topic()
    hits = [hit("1", "The dome. 圆顶"), hit("2", "The bus.")]
    for question in questions:
        verdict = topic.judge(question)
        assert verdict.query.startswith(question)
        topic.follow(verdict, () if verdict.skip else hits, k=1)
    assert topic.num_turns <= len(questions)
    assert len(topic.passages) <= 2
