"""The audit of drafts, shown from what the choice among real drafts came to."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from readahead.speculation.answers.audit import audit
from readahead.speculation.answers.choose import choose, rate
from readahead.speculation.answers.hops import Hop
from readahead.speculation.answers.outcome import Outcome
from readahead.speculation.answers.pool import pool
from tests.speculation.answers.test_choose import HITS, PASSAGES, QUESTION, draft

SHOW = """async (audit) => {
    const { auditPanel } = await import("/static/audit.js");
    document.getElementById("turn-list").replaceChildren(auditPanel(audit, () => {}));
}"""
DRAFTS = (draft("1885", 0), draft("1885", 1), draft("1902", 2))


def made(*, threshold: float, also: float | None) -> dict[str, object]:
    rated = rate(QUESTION, pool(QUESTION, DRAFTS, PASSAGES), DRAFTS, HITS)
    choice = choose(rated, threshold=threshold, also=also)
    return audit(Hop(QUESTION, Outcome(DRAFTS, choice, hits=tuple(HITS), threshold=threshold)))


def test_a_further_answer_is_measured_by_its_own_bar(
    page: Page, shoot: Callable[[Page, str], None]
) -> None:
    page.evaluate(SHOW, made(threshold=0.01, also=0.99))
    expect(page.locator(".audit .legend")).to_contain_text(
        "an answer is given from probability 1% on, one beside a better answer from 99% on"
    )
    shoot(page, "audit-bars")
    best, other = page.locator(".candidate").all()
    expect(best.locator(".bound")).to_have_attribute("title", "This answer is given from 1% on.")
    expect(other.locator(".bound")).to_have_attribute("title", "This answer is given from 99% on.")
    expect(other).to_contain_text("below 0.99: too unlikely to be given beside a better answer")


@pytest.mark.parametrize(
    ("also", "told"),
    [
        (None, "from probability 1% on, one beside a better answer where it adds more"),
        ("unknown", "an answer is given from probability 1% on"),
    ],
)
def test_what_a_further_answer_takes_is_told_as_far_as_it_is_known(
    page: Page, also: str | None, told: str
) -> None:
    shown = made(threshold=0.01, also=None)
    if also == "unknown":  # as in chats that were kept before it was told
        del shown["also"]
    page.evaluate(SHOW, shown)
    expect(page.locator(".audit .legend")).to_contain_text(told)


def test_where_none_is_given_all_miss_the_same_bar(page: Page) -> None:
    page.evaluate(SHOW, made(threshold=1.0, also=1.0))
    bounds = page.locator(".candidate .bound")
    titles = [one.get_attribute("title") for one in bounds.all()]
    assert set(titles) == {"This answer is given from 100% on."}
    for one in page.locator(".candidate").all():
        expect(one).to_contain_text("too unlikely to be given")
        expect(one).not_to_contain_text("beside")
