"""What passages say about a claim; the reports of users that became tests are named in them."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.evidence import Checker, Claim, check
from readahead.evidence.attribution import NUM_COMPARED
from readahead.evidence.claims import fitted, log_odds
from readahead.logistic import Logistic
from readahead.types import Passage

FRANCE = "France is a country in Europe. The population of France is 67 million people."
SHOP = (
    "Our shop opened in 1990. Refunds are paid within 30 days of the purchase. "
    "Marie Curie founded the shop together with her sister. Sales rose by 85 % in 2021. "
    "The building in Bern cost USD 890,000,000."
)
CAFE = "The café serves tea. The café in Basel was founded by Pierre Blanc."
NOISE = (
    "The river flows north. A heron stands in the reeds, and nobody counts the fish. "
    "In 1872 a bridge was built over it. Boats pass below."
)


def passage(text: str, start: int = 0, title: str = "Title") -> Passage:
    return Passage("doc", text, start, start + len(text), heading=(title,))


PASSAGES = [passage(NOISE), passage(SHOP, start=1000), passage(FRANCE), passage(CAFE)]


def spans(claim: Claim, passages: Sequence[Passage] = PASSAGES) -> list[tuple[str, str]]:
    return [
        (span.kind, cut(passages[span.passage], span.start, span.end)) for span in claim.supporting
    ]


def cut(source: Passage, start: int, end: int) -> str:
    assert source.start <= start < end <= source.end
    return source.text[start - source.start : end - source.start]


@pytest.mark.parametrize(
    "claim",
    [
        "The population of France is 67 million people.",
        "Refunds are paid within thirty days of the purchase.",
        "The building in Bern cost $890M.",
        "The shop opened in 1990.",
        "Marie Curie founded the shop.",
    ],
)
def test_supported(claim: str) -> None:
    found = check(claim, PASSAGES)
    assert (found.verdict, found.conflicting) == ("supported", ())
    assert found.score >= fitted().threshold
    assert found.supporting


@pytest.mark.parametrize(
    ("claim", "what"),
    [
        # KRLabsOrg/LettuceDetect 4
        (
            "The population of France is 999 million people.",
            "number: 999 million against 67 million",
        ),
        # gomate-community/TrustRAG 167
        ("Sales rose by 87 % in 2021.", "percentage: 87 % against 85 %"),
        ("Sales rose by 85 % in 2022.", "date: 2022 against 2021"),
        # SeraphimSerapis/tool-eval-bench 100
        (
            "The building in Bern cost $980M.",
            "money: $980M against USD 890,000,000",
        ),
        (
            "Refunds are paid within 30 weeks of the purchase.",
            "quantity: 30 weeks against 30 days",
        ),
        (
            "Lise founded the shop together with her sister.",
            None,
        ),
        ("The shop is in Bern.", None),
        (
            "The café in Basel was founded by Jean Noir.",
            "name: Jean Noir against Pierre Blanc",
        ),
        ("The café does not serve tea.", "negation: not against The café serves tea."),
    ],
)
def test_contradicted(claim: str, what: str | None) -> None:
    found = check(claim, PASSAGES)
    assert (found.verdict == "contradicted") is (what is not None)
    if what is None:
        return
    conflict = found.conflicting[0]
    assert conflict.what == what
    assert cut(PASSAGES[conflict.passage], conflict.start, conflict.end) in conflict.what
    assert claim[conflict.claim_start : conflict.claim_end] in conflict.what
    assert found.score < fitted().threshold


def test_a_conflict_is_found_in_every_passage() -> None:
    other = passage("A census said: the population of France is 61 million people.", start=7)
    found = check("The population of France is 999 million people.", [*PASSAGES, other])
    assert {conflict.passage for conflict in found.conflicting} == {2, 4}
    # One passage that states it is enough.
    right = passage("The population of France is 999 million people.")
    assert check("The population of France is 999 million people.", [*PASSAGES, right]).verdict == (
        "supported"
    )


def test_short_answers_with_their_question() -> None:
    checker = Checker(PASSAGES)
    asked = "What is the population of France?"
    right, wrong = (
        checker.check("67 million", question=asked),
        checker.check("999 million", question=asked),
    )
    assert (right.verdict, wrong.verdict) == ("supported", "contradicted")
    assert spans(right) == [("verbatim", "67 million")]
    assert wrong.score < right.score


def test_each_passage_gives_its_own_span() -> None:
    again = passage("All know that Marie\nCurie came.", start=50)
    found = check("Marie Curie", [*PASSAGES, again], question="Who founded the shop?")
    assert {(s.passage, s.kind) for s in found.supporting} == {(1, "verbatim"), (4, "verbatim")}
    # future-agi 1225: what stands in one passage is not said to stand in another.
    assert all("Curie" in text for _, text in spans(found, [*PASSAGES, again]))


def test_an_invented_quotation_is_not_found() -> None:
    # zoharbabin/due-diligence-agents 5
    found = check("“The seller warrants that no litigation is pending.”", PASSAGES)
    assert (found.verdict, found.supporting) == ("unsupported", ())


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        # PyMuPDF 3660, docling PR 3057, pdf_oxide 551
        ("a scientific field", "It is a scientiﬁc ﬁ eld."),
        ("difficult", "a di ﬃ cult one"),
        # tokenizers 663, transformers 12317
        ("wait… 10 000 men", "They wait... 10\u202f000\x10men"),
        ("コト", "ヿ"),
        # docling 1625: a page's foot stands inside the sentence, so it is near, not verbatim.
        (
            "The committee approved the plan in the spring after a long debate",
            "The committee approved the plan in the spring after a long 12 debate",
        ),
    ],
)
def test_text_that_extraction_spoiled(claim: str, text: str) -> None:
    found = check(claim, [passage(text)])
    assert found.supporting
    assert found.supporting[0].kind in ("verbatim", "near")


@pytest.mark.parametrize(
    "claim",
    [
        "",
        "  ",
        "?!",
        "I don't know.",
        "IDK",
        "The passages do not say.",
        "我不知道。",
        "the of and",
    ],
)
def test_what_says_nothing_is_not_supported(claim: str) -> None:
    # vibrantlabsai/ragas 878: "IDK" must not be faithful.
    found = check(claim, PASSAGES)
    assert (found.verdict, found.supporting, found.conflicting) == ("unsupported", (), ())
    assert found.score < fitted().threshold


def test_a_refusal_is_not_supported_by_one() -> None:
    found = check("I don't know.", [passage('"I don\'t know." That was all she said.')])
    assert (found.verdict, found.score) == ("unsupported", 0.0)


def test_verdicts_do_not_drift_as_the_context_grows() -> None:
    # KRLabsOrg/LettuceDetect 11
    generator = random.Random(0)
    vocabulary = [f"filler{i}" for i in range(300)]
    padding = [
        passage(" ".join(" ".join(generator.choices(vocabulary, k=12)) + "." for _ in range(6)))
        for _ in range(40)
    ]
    for claim in (
        "The population of France is 67 million people.",
        "The population of France is 999 million people.",
        "Refunds take thirty days.",
        "The owner bought a yacht in Genoa.",
    ):
        short, long = check(claim, PASSAGES), check(claim, [*padding, *PASSAGES])
        assert long.verdict == short.verdict
        assert long.score == pytest.approx(short.score, abs=0.05)


def test_chinese() -> None:
    text = "本店成立于1990年3月3日。员工共有八百人，营业额为8.9亿元。"
    passages = [passage(text)]
    assert check("本店成立于1990年。", passages).verdict == "supported"
    assert check("营业额为890,000,000元", passages).verdict == "supported"
    wrong = check("本店成立于1991年3月3日。", passages)
    assert wrong.verdict == "contradicted"
    assert "1991年3月3日 against 1990年3月3日" in wrong.conflicting[0].what


def test_without_passages_nothing_is_supported() -> None:
    found = check("The shop opened in 1990.", [])
    assert (found.verdict, found.supporting) == ("unsupported", ())


def test_a_judge_and_a_similarity_are_asked() -> None:
    seen: list[str] = []

    def judge(claim: str, texts: Sequence[str]) -> float:
        seen.append(claim)
        assert 0 < len(texts) <= NUM_COMPARED
        assert "The café serves tea." in texts
        return 0.999 if "tea" in claim else 0.001

    doubtful = "People drink tea at the café all day long."
    plain = check(doubtful, PASSAGES)
    assert check(doubtful, PASSAGES, judge=judge).score > plain.score
    other = doubtful.replace("tea", "beer")
    assert check(other, PASSAGES, judge=judge).score < check(other, PASSAGES).score
    assert seen == [doubtful, other]
    model = Logistic(("similarity",), (0.5,), (0.1,), (2.0,), bias=0.0)
    alike = Checker(PASSAGES, model=model, similarity=lambda _, texts: [0.9] * len(texts))
    assert alike.check(doubtful).score > 0.99
    assert Checker(PASSAGES, model=model).check(doubtful).score == 0.5
    assert "judge" not in check(doubtful, [], judge=judge).features


def test_a_judge_never_decides_alone() -> None:
    assert log_odds(1.0) == pytest.approx(6.0)
    assert log_odds(0.0) == pytest.approx(-6.0)
    assert log_odds(0.5) == 0.0


def test_order_does_not_matter() -> None:
    claim = "Marie Curie founded the shop in 1990."
    one = check(claim, PASSAGES)
    other = check(claim, PASSAGES[::-1])
    assert one.score == pytest.approx(other.score, abs=1e-12)
    assert one.verdict == other.verdict
    assert {(len(PASSAGES) - 1 - s.passage, s.start) for s in other.supporting} == {
        (s.passage, s.start) for s in one.supporting
    }


@given(st.text(max_size=60), st.lists(st.text(max_size=80), max_size=3), st.text(max_size=20))
def test_any_text_can_be_checked(claim: str, texts: list[str], question: str) -> None:
    passages = [passage(text, start=10 * i) for i, text in enumerate(texts)]
    found = check(claim, passages, question=question)
    assert 0.0 <= found.score <= 1.0
    for span in found.supporting:
        assert cut(passages[span.passage], span.start, span.end)
    for conflict in found.conflicting:
        assert cut(passages[conflict.passage], conflict.start, conflict.end)
        assert claim[conflict.claim_start : conflict.claim_end]
