"""A sentence finds the span that supports it, or none."""

import time
from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.evidence import Evidence, attribute, check
from readahead.evidence.terms import read_terms
from readahead.types import Passage, PassageKind


def passage(
    text: str, start: int = 0, kind: PassageKind = "paragraph", context: str = ""
) -> Passage:
    return Passage("doc", text, start, start + len(text), kind, heading=("Shop",), context=context)


REFUNDS = passage(
    "Our shop opened in 1990. Refunds are paid within 30 days of the purchase. "
    "Gift cards cannot be returned. Marie Curie founded the shop together with her sister. "
    "She ran it until 1,998.",
    start=100,
)
SHIPPING = passage("Parcels arrive in five days. Shipping costs 4.50 euros and is free above 87 %.")
CHINESE = passage("本店成立于1990年。退款在购买后三十天内完成。运费由买家承担。员工喜欢喝茶。")
PASSAGES = [SHIPPING, REFUNDS, CHINESE]


def found(sentence: str, question: str = "", threshold: float = 0.5) -> str | None:
    support = attribute(sentence, PASSAGES, question=question, threshold=threshold)
    if support is None:
        return None
    assert 0 < support.score <= 1
    source = PASSAGES[support.passage]
    return source.text[support.start - source.start : support.end - source.start]


@pytest.mark.parametrize(
    ("sentence", "question", "expected"),
    [
        (
            "You get a refund within 30 days.",
            "",
            "Refunds are paid within 30 days of the purchase.",
        ),
        (
            "30 days.",
            "How long do refunds take?",
            "Refunds are paid within 30 days of the purchase.",
        ),
        ("5 days.", "How fast do parcels arrive?", "Parcels arrive in five days."),
        (
            "Marie Curie.",
            "Who founded it?",
            "Marie Curie founded the shop together with her sister.",
        ),
        ("三十天。", "退款需要多久？", "退款在购买后三十天内完成。"),
        ("30天内退款。", "", "退款在购买后三十天内完成。"),
        ("运费由买家承担。", "", "运费由买家承担。"),
        ("She ran it until 1998.", "", "She ran it until 1,998."),
        ("茶。", "员工喝什么？", "员工喜欢喝茶。"),
    ],
)
def test_supported(sentence: str, question: str, expected: str) -> None:
    assert found(sentence, question) == expected


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("Refunds are paid within 31 days of the purchase.", ""),
        ("Shipping is free above 87 euros and 88 %.", ""),
        ("31 days.", "How long do refunds take?"),
        ("Pierre Dupont.", "Who founded the shop?"),
        ("The moon is made of cheese.", "What is the moon made of?"),
        ("六十天。", "退款需要多久？"),
        ("三十年。", "退款需要多久？"),
        ("30 years.", "How long do refunds take?"),
        ("客服电话全年无休。", ""),
        ("", ""),
        ("...", "Are refunds paid within days of the purchase?"),
    ],
)
def test_unsupported(sentence: str, question: str) -> None:
    assert found(sentence, question) is None


def test_a_percentage_is_not_a_plain_number() -> None:
    assert found("The shop opened in 1990 %.") is None
    assert found("Shipping is free above 87.") is not None


def test_two_sentences_when_one_does_not_do() -> None:
    one = "The shop opened in 1990."
    both = "The shop opened in 1990 and pays refunds within 30 days of the purchase."
    assert found(one) == "Our shop opened in 1990."
    assert found(both) == REFUNDS.text[: REFUNDS.text.index(" Gift")]


def test_one_sentence_where_two_add_little() -> None:
    assert found("Our shop pays refunds within 30 days of the purchase.") == (
        "Refunds are paid within 30 days of the purchase."
    )


def test_repeating_the_question_is_no_support() -> None:
    question = "Who founded the shop together with her sister and ran it until 1998?"
    said = "founded the shop together with her sister and ran it until 1998."
    assert found(f"Marie Curie {said}", question) is not None
    assert found(f"Zoe Zimmer {said}", question) is None


def test_a_wrong_name_weighs_more_than_a_wrong_word() -> None:
    assert found("The shop was founded by somebody.") is not None
    assert found("The shop was founded by Somebody.") is None


def test_what_the_passage_says_elsewhere_counts_in_part() -> None:
    text = "Marie Sklodowska Curie taught in Paris. It rained. She won the prize in 1911."
    claim = "Marie Sklodowska Curie won the prize in 1911."
    support = attribute(claim, [passage(text)], threshold=0.5)
    assert support is not None
    assert text[support.start : support.end] == "She won the prize in 1911."
    assert support.score < 1.0


BAKERY = passage("We bake at night. A loaf of rye costs 4.80 euros.")
FERRY = passage("Bicycles cost 3 dollars on the ferry. An adult pays £14.00. It runs daily.")
TEA = passage("清风茶馆由林远于1998年创办。绿茶三十元。")
BOOKS = passage("山下书店由周宁于2003年创办。地图八元。")


@pytest.mark.parametrize(
    ("sentence", "question", "expected"),
    [
        ("A bicycle on the ferry costs 4.80 euros.", "How much is a bicycle on the ferry?", None),
        ("A bicycle costs 4.80 euros.", "How much is a bicycle on the ferry?", None),
        ("A bicycle on the ferry costs 3 dollars.", "How much is a bicycle on the ferry?", FERRY),
        ("绿茶八元。", "绿茶多少钱？", None),
        ("绿茶三十元。", "绿茶多少钱？", TEA),
        # The question's words stand in another sentence of the passage, or nowhere.
        ("An adult on the ferry pays £14.00.", "What does an adult pay on the ferry?", FERRY),
        ("An adult ticket costs £14.00.", "How much is an adult ticket?", FERRY),
        ("£14.00.", "How much is an adult ticket?", FERRY),
    ],
)
def test_the_subject_of_the_question_must_be_in_the_passage_if_in_any(
    sentence: str, question: str, expected: Passage | None
) -> None:
    shown = [BAKERY, FERRY, TEA, BOOKS]
    support = attribute(sentence, shown, question=question, threshold=0.5)
    assert (support and shown[support.passage]) is expected


def test_the_subject_may_stand_in_heading_or_context() -> None:
    prices = passage("Bicycles cost 3 dollars.", context="Prices of the ferry")
    question = "How much is a bicycle on the ferry at the shop?"
    claim = "A bicycle on the ferry at the shop costs 3 dollars."
    for shown in ([prices], [passage("The ferry runs daily."), prices]):
        support = attribute(claim, shown, question=question, threshold=0.5)
        assert support is not None
        assert shown[support.passage] is prices


@pytest.mark.parametrize(
    ("sentence", "question", "is_supported"),
    [
        ("The ferry runs.", "When does the ferry run?", False),
        ("The ferry runs daily.", "When does the ferry run?", True),
        ("Bicycles cost on the ferry.", "How much do bicycles cost on the ferry?", False),
        ("茶馆是创办的。", "茶馆是谁创办的？", False),
        ("茶馆创办了。", "茶馆是谁创办的？", False),
        ("林远。", "茶馆是谁创办的？", True),
        ("绿茶。", "三十元的是什么？", True),
        # In their own words only closed questions are answered.
        ("The ferry runs daily.", "Does the ferry run daily?", True),
        ("The ferry runs daily.", "In winter, does the ferry run daily?", True),
        ("Bicycles.", "Which cost 3 dollars, bicycles or cars?", True),
        ("清风茶馆是林远创办的。", "清风茶馆是林远创办的吗？", True),
        ("清风茶馆创办。", "清风茶馆创办了什么？", False),
        ("The ferry runs daily.", "", True),
    ],
)
def test_an_open_question_is_not_answered_in_its_own_words(
    sentence: str, question: str, is_supported: bool
) -> None:
    def alike(query: str, texts: Sequence[str]) -> list[float]:
        return [1.0] * len(texts)

    for similarity in (None, alike):
        support = attribute(
            sentence, [FERRY, TEA], question=question, threshold=0.5, similarity=similarity
        )
        assert (support is not None) is is_supported


def test_numbers_of_the_question_need_no_support() -> None:
    assert found("In 2024 refunds take 30 days.", "How long do refunds take in 2024?") is not None
    assert found("In 2024 refunds take 30 days.", "How long do refunds take?") is None


def test_the_question_chooses_among_spans_with_the_answer() -> None:
    text = "Paris is known for its cafés. The treaty was signed in Paris. Paris is a name too."
    support = attribute(
        "Paris.", [passage(text)], question="Where was the treaty signed?", threshold=0.5
    )
    assert support is not None
    assert text[support.start : support.end] == "The treaty was signed in Paris."


def test_lines_of_tables_and_code_are_spans() -> None:
    table = passage("Ann  3 apples\n  Bob  4 pears", 50, "table", "| Name | Fruit |")
    support = attribute("Bob has 4 pears.", [table], threshold=0.5)
    assert support is not None
    assert table.text[support.start - 50 : support.end - 50] == "Bob  4 pears"


def test_equal_support_goes_to_the_better_passage() -> None:
    twice = [passage("Refunds take 30 days."), passage("Refunds take 30 days.")]
    support = attribute("Refunds take 30 days.", twice, threshold=0.5)
    assert support is not None
    assert support.passage == 0
    assert support.score == pytest.approx(1.0)


def test_similarity_only_adds() -> None:
    evidence = Evidence(PASSAGES)
    sentence = "Refunds happen inside of a month or 30 days."

    def alike(query: str, texts: Sequence[str]) -> list[float]:
        assert query == f"When? {sentence}"
        return [0.9 if "30 days" in text else -0.5 for text in texts]

    plain = evidence.rank(sentence, question="When?")
    raised = evidence.rank(sentence, question="When?", similarity=alike)
    assert raised[0].score > plain[0].score
    scores = {(s.passage, s.start, s.end): s.score for s in plain}
    assert all(s.score >= scores[s.passage, s.start, s.end] for s in raised)
    assert (
        evidence.attribute("31 days.", threshold=0.1, similarity=lambda q, t: [1.0] * len(t))
        is None
    )


def test_no_passages() -> None:
    def never(query: str, texts: Sequence[str]) -> list[float]:
        raise AssertionError("there is nothing to compare")

    assert attribute("Anything.", [], threshold=0.5, similarity=never) is None


TEXT = st.text(st.sampled_from("The cat sat. 30 days! 退款五天。\n| "), max_size=60)


@given(TEXT, st.lists(TEXT, max_size=3), TEXT)
def test_every_span_lies_in_its_passage(sentence: str, texts: list[str], question: str) -> None:
    passages = [passage(text, start=7) for text in texts]
    ranked = Evidence(passages).rank(sentence, question=question)
    assert [s.score for s in ranked] == sorted((s.score for s in ranked), reverse=True)
    for support in ranked:
        source = passages[support.passage]
        assert source.start <= support.start < support.end <= source.end
        assert 0 < support.score <= 1 + 1e-9


@given(st.lists(st.sampled_from(["Cats sleep.", "Dogs bark at 5.", "退款需要五天。"]), min_size=1))
def test_a_verbatim_sentence_is_always_supported(texts: list[str]) -> None:
    support = attribute(texts[-1], [passage(" ".join(texts))], threshold=0.5)
    assert support is not None
    assert " ".join(texts)[support.start : support.end] == texts[-1]


def test_a_score_does_not_depend_on_the_order_of_a_set() -> None:
    """Seen: 1.0000000000000002 under some seeds of the hash, which a share cannot be."""
    evidence = Evidence([passage("Alpha beta gamma delta epsilon zeta.")])
    span = evidence._spans[0]
    terms = sorted(span.held)[:4]
    claim = read_terms("Alpha beta gamma delta epsilon zeta.")
    for order in permutations(zip(terms, (0.1, 0.2, 0.3, 0.7), strict=True)):
        assert evidence._coverage(span, dict(order), claim) == 1.0


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("The option was added in Python 3.10.", "The option was added in Python 3.1."),
        ("The server listens on 192.168.1.10.", "The server listens on 192.168.1.1."),
        ("The account number is 1234567890123456.", "The account number is 1234567890123499."),
        ("Call 0123 for help.", "Call 123 for help."),
    ],
)
def test_what_is_spelled_otherwise_is_not_cited(sentence: str, text: str) -> None:
    assert attribute(sentence, [passage(text)], threshold=0.5) is None
    assert attribute(sentence, [passage(sentence)], threshold=0.5) is not None
    assert check(sentence, [passage(text)]).verdict != "supported"


def test_a_long_question_is_looked_at_in_no_time() -> None:
    evidence = Evidence([passage("The lamp was lit in 1846.")])
    started = time.perf_counter()
    for number in range(10):
        evidence.rank("Yes, in 1846.", question=f"Explain {number}: " + ", " * 1000 + "x")
    assert time.perf_counter() - started < 5.0
