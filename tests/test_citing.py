from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.citing import Citing
from readahead.config import PassagesConfig
from readahead.evidence.terms import read_terms
from readahead.retrieval.chunk import chunk
from readahead.types import Citation, Document, Passage

HOURS = "The observatory opens at 19:00 on Fridays. It closes at 23:00. Admission is 9 euros."
TELESCOPE = "The main telescope has a mirror of 60 cm. It was built in Jena in 1987."
RULES = "圆顶内禁止使用闪光灯。参观者须提前十五分钟到达。"
PASSAGES = [
    Passage("visit.md", HOURS, 100, 100 + len(HOURS), id="1.1.0", heading=("Visit",)),
    Passage("manual.md", TELESCOPE, 0, len(TELESCOPE), id="2.1.0"),
    Passage("须知.md", RULES, 7, 7 + len(RULES), id="3.1.0"),
]


def cite(pieces: Iterable[str], question: str = "") -> tuple[str, Citing]:
    """Return the text that came out, and what was cited."""
    citing = Citing(PASSAGES, question, threshold=0.5)
    events = [event for piece in pieces for event in citing.push(piece)]
    events += citing.finish()
    assert [event for event in events if isinstance(event, Citation)] == citing.citations
    return "".join(event for event in events if isinstance(event, str)), citing


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("It opens at 19:00 on Fridays.", "It opens at 19:00 on Fridays. [1]"),
        (
            "The mirror measures 60 cm. Admission is 9 euros!",
            "The mirror measures 60 cm. [1] Admission is 9 euros! [2]",
        ),
        (
            "Admission is 9 euros. Yes, admission: 9 euros.",
            "Admission is 9 euros. [1] Yes, admission: 9 euros. [1]",
        ),
        ("圆顶内禁止使用闪光灯。", "圆顶内禁止使用闪光灯。[1]"),
        ("It sells ice cream.", "It sells ice cream."),
        (
            "- Admission is 9 euros\n- Built in Jena",
            "- Admission is 9 euros [1]\n- Built in Jena [2]",
        ),
        ("The passages do not say.", "The passages do not say."),
        ("", ""),
        ("\n\n", "\n\n"),
    ],
)
def test_markers_stand_behind_supported_sentences(answer: str, cited: str) -> None:
    assert cite([answer])[0] == cited


def test_a_citation_is_an_exact_span_of_the_document() -> None:
    _, citing = cite(["It closes at 23:00."])
    [citation] = citing.citations
    assert citation == Citation(
        marker=1,
        passage_id="1.1.0",
        document="visit.md",
        heading=("Visit",),
        page=None,
        start=100 + HOURS.index("It closes"),
        end=100 + HOURS.index(" Admission"),
        text="It closes at 23:00.",
    )


@pytest.mark.parametrize(
    "answer",
    [
        "Admission is 9 euros [1].",
        "Admission is 9 euros. [1]",
        "Admission is 9 euros.[1]",
        "Admission is 9 euros. [1][1]",
        "Admission is 9 euros【1】.",
    ],
)
def test_markers_of_the_model_are_replaced_by_ours(answer: str) -> None:
    text, citing = cite([answer])
    assert text == "Admission is 9 euros. [1]"
    assert citing.citations[0].document == "visit.md"
    assert citing.tally.notes == []


def test_a_marker_between_sentences_belongs_to_the_one_before_it() -> None:
    text, citing = cite(["Admission is 9 euros. [1] The mirror measures 60 cm. [2]"])
    assert text == "Admission is 9 euros. [1] The mirror measures 60 cm. [2]"
    assert citing.tally.notes == []


@pytest.mark.parametrize("number", [2, 7])
def test_a_marker_without_support_is_removed_and_reported(number: int) -> None:
    text, citing = cite([f"Admission is 9 euros [{number}]."])
    assert text == "Admission is 9 euros. [1]"
    assert citing.citations[0].document == "visit.md"
    assert citing.tally.notes == [
        f"The model cited [{number}], which does not support: Admission is 9 euros."
    ]


def test_brackets_that_are_no_marker_stay() -> None:
    for answer in ("Use `a[1]` for it.", "See [the manual] for it.", "A list [1, 2", "x[0] is ice"):
        assert cite([answer])[0] == answer


@given(st.data())
def test_pieces_do_not_matter(data: st.DataObject) -> None:
    answer = data.draw(
        st.text(alphabet="19 :.[]\n。！ab", max_size=40)
        | st.just("Admission is 9 euros [1]. It costs 3.14 e.g. today.\n\n1. 闪光灯禁止。[3] Fin")
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=12)))
    edges = [0, *cuts, len(answer)]
    pieces = [answer[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    assert cite(pieces)[0] == cite([answer])[0]


@given(st.text(alphabet="aeiou 1.!?。\n-", max_size=60))
def test_nothing_is_lost(answer: str) -> None:
    """Without support and without markers, text passes through as it is."""
    citing = Citing([], "", threshold=0.5)
    events = [*(e for char in answer for e in citing.push(char)), *citing.finish()]
    assert "".join(str(event) for event in events) == answer


def test_text_does_not_wait_for_the_end_of_its_sentence() -> None:
    citing = Citing(PASSAGES, "", threshold=0.5)
    assert "".join(map(str, citing.push("Admission is 9 eu"))) == "Admission is 9 eu"
    assert "".join(map(str, citing.push("ros."))) == "ros"
    assert list(citing.push(" It")) == []  # the next word may be longer
    assert [e for e in citing.push(" is") if isinstance(e, str)] == [".", " [1]", " It is"]


@given(
    st.lists(
        st.lists(
            st.sampled_from(["Dome", "opens", "at", "19:00", "🔭", "圆顶", "é", "7 km"]), min_size=2
        ),
        min_size=1,
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_a_citation_is_a_span_of_the_stored_text(claims: list[list[str]], random: Random) -> None:
    """Whatever is said of whatever document: cited text stands there, to the character."""
    said = [" ".join(words) + "." for words in claims]
    texts = [f"# {said[0]}\n\n" + "\n\n".join(random.sample(said, len(said))) for _ in "ab"]
    documents = [Document(str(number), text) for number, text in enumerate(texts)]
    passages = [
        replace(passage, id=f"{document.name}.{number}")
        for document in documents
        for number, passage in enumerate(chunk(document, PassagesConfig(max_words=20)))
    ]
    citing = Citing(passages, "", threshold=0.5)
    events = [*citing.push(" ".join(random.sample(said, len(said)))), *citing.finish()]
    assert [event for event in events if isinstance(event, Citation)] == citing.citations
    for citation in citing.citations:
        assert texts[int(citation.document)][citation.start : citation.end] == citation.text
    assert citing.citations or not any(read_terms(claim).content for claim in said)


def test_the_tally_counts_claims() -> None:
    _, citing = cite(["Yes. Admission is 9 euros. It sells ice cream."])
    assert (citing.tally.num_claims, citing.tally.num_supported) == (2, 1)
    assert citing.tally.confidence == 0.5
    assert not citing.tally.abstained


def test_a_refusal_is_an_abstention_and_no_claim() -> None:
    _, citing = cite(["The passages do not contain the answer."])
    assert citing.tally.abstained
    assert citing.tally.num_claims == 0
    assert citing.tally.confidence == 0.0


@pytest.mark.parametrize(
    "answer",
    [
        "Do this:\n- Open the dome\n- Close the dome",
        "The steps are:\n1. Switch on\n2. Close it\n3. Turn off the light.\n\nDone.",
        "| a | b |\n|---|---|\n| 1 | 2 |\nAfter.",
        "Paris (passage 1) is the capital of France.",
        "Paris is the capital of France. (Source 1) It is nice.",
        "Paris is the capital [passages 1, 2, 3, 4, 5, 6, 7, 8] of France.",
        "Use `x [1] y` now and then. Or ``a`b [1]`` so. A `b [1] c.",
        "It was built by Smith Inc. The firm is gone. I met J. Doe, e.g. in May. Ok",
        "圆顶内禁止使用闪光灯。（段落3）参观者须提前十五分钟到达[3]。好",
        "Why?! Because… it is. (See [the manual].) Next [2] one. [2]",
        "Title\n\nThe text follows [1]\n\n[2] starts. And (unclosed [3] stays",
    ],
)
def test_one_character_at_a_time_says_the_same(answer: str) -> None:
    assert cite(answer)[0] == cite([answer])[0]
    for size in (2, 3, 7):
        assert (
            cite(answer[i : i + size] for i in range(0, len(answer), size))[0] == cite([answer])[0]
        )


TRICKY = (
    *"a The It. Inc. 1. - [1] [ ] ( ) ` `` | 。 （ 】 【1】 euros 9 ! … 圆".split(),
    *("\n", "\n\n", "(passage 2)"),
)


@given(
    st.lists(st.sampled_from(TRICKY), max_size=14),
    st.lists(st.booleans(), min_size=14, max_size=14),
)
def test_any_stream_says_what_the_whole_says(parts: list[str], spaced: list[bool]) -> None:
    answer = "".join(part + " " * space for part, space in zip(parts, spaced, strict=False))
    assert cite(answer)[0] == cite([answer])[0]


def test_passages_that_came_during_the_answer_are_cited_like_the_others() -> None:
    citing = Citing(PASSAGES[:1], "", threshold=0.5)
    events = list(citing.push("Admission is 9 euros. The mirror measures 60 cm. "))
    events += citing.push("The dome")
    citing.extend(PASSAGES[1:2])
    events += citing.push(" is old. It was built in Jena in 1987 [2].")
    events += citing.finish()
    text = "".join(event for event in events if isinstance(event, str))
    assert text == (
        "Admission is 9 euros. [1] The mirror measures 60 cm. The dome is old. "
        "It was built in Jena in 1987. [2]"
    )
    assert [citation.passage_id for citation in citing.citations] == ["1.1.0", "2.1.0"]


def test_passages_that_came_before_the_answer_have_the_first_numbers() -> None:
    citing = Citing(PASSAGES[1:2], "", threshold=0.5)
    citing.extend(PASSAGES[:1], in_front=True)
    events = [*citing.push("Admission is 9 euros [1]."), *citing.finish()]
    assert citing.tally.notes == []
    assert events[-1] == " [1]"
    assert citing.citations[0].passage_id == "1.1.0"
