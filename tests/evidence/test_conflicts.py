"""What contradicts a claim, and what only speaks of another year, version or subject."""

import os
import subprocess
import sys

import pytest

from readahead.evidence import Claim, check
from readahead.types import Passage


def checked(claim: str, *texts: str, question: str = "", heading: tuple[str, ...] = ()) -> Claim:
    passages = [Passage("doc", text, 0, len(text), heading=heading) for text in texts]
    return check(claim, passages, question=question)


ELSE = [
    # another year
    ("In 2019 revenue was 5 million dollars.", "In 2021 revenue was 7 million dollars."),
    ("Revenue was 5 million dollars in May 2019.", "Revenue was 7 million dollars in June 2019."),
    ("The town had 3,000 inhabitants in 1900.", "The town had 8,000 inhabitants in 1950."),
    ("2019年公司营收为500万元。", "2021年公司营收为700万元。"),
    ("2019年3月该店卖出30台电脑。", "2020年3月该店卖出45台电脑。"),
    # another version, model or number in a row
    ("Version 2 needs 4 GB of memory.", "Version 3 needs 8 GB of memory."),
    ("Windows 10 needs 2 GB of memory.", "Windows 11 needs 4 GB of memory."),
    ("The iPhone 12 weighs 164 grams.", "The iPhone 13 weighs 174 grams."),
    ("v2 of the program needs 4 GB of memory.", "v3 of the program needs 8 GB of memory."),
    ("Chapter 4 has 30 pages and many pictures.", "Chapter 5 has 45 pages and many pictures."),
    ("The 3rd season of the show has 10 episodes.", "The 4th season of the show has 12 episodes."),
    ("第二版程序需要4GB内存。", "第三版程序需要8GB内存。"),
    ("程序2.0版需要4GB内存。", "程序3.0版需要8GB内存。"),
    ("第一章共有20页。", "第二章共有35页。"),
    ("第三季度利润增长了5%。", "第四季度利润增长了7%。"),
    # another subject
    ("Lake Huron is 229 metres deep.", "Lake Erie is 64 metres deep."),
    ("Refunds are paid within 30 days of the purchase.",
     "Invoices are paid within 14 days of the purchase."),
    ("The basic plan costs 10 dollars a month.", "The premium plan costs 20 dollars a month."),
    ("The first quarter brought 5 million in sales.",
     "The second quarter brought 7 million in sales."),
    ("The price of the small box is 4 euros.", "The price of the large box is 9 euros."),
    ("上海店有30名员工。", "北京店有50名员工。"),
    ("基础版每月收费10元。", "高级版每月收费20元。"),
    # another year, and a "not"
    ("In 2019 the shop did not open on Sundays.", "In 2021 the shop opened on Sundays."),
]  # fmt: skip

AGAINST = [
    ("In 2019 revenue was 5 million dollars.", "In 2019 revenue was 7 million dollars."),
    ("In 2019 revenue was 5 million dollars.",
     "In 2019 revenue was 7 million dollars, after 6 million dollars in 2018."),
    ("The company was founded in 1998 in Basel.", "The company was founded in 1989 in Basel."),
    ("The town had 3,000 inhabitants in 1900.", "The town had 8,000 inhabitants in 1900."),
    ("Version 2 needs 4 GB of memory.", "Version 2 needs 8 GB of memory."),
    ("Windows 10 needs 2 GB of memory.", "Windows 10 needs 4 GB of memory."),
    ("The iPhone 12 weighs 164 grams.", "The iPhone 12 weighs 174 grams."),
    ("Lake Huron is 229 metres deep.", "Lake Huron is 64 metres deep."),
    ("Refunds are paid within 30 days of the purchase.",
     "Refunds are paid within 14 days of the purchase."),
    ("The basic plan costs 10 dollars a month.", "The basic plan costs 20 dollars a month."),
    ("2019年公司营收为500万元。", "2019年公司营收为700万元。"),
    ("第二版程序需要4GB内存。", "第二版程序需要8GB内存。"),
    ("第三季度利润增长了5%。", "第三季度利润增长了7%。"),
    ("上海店有30名员工。", "上海店有50名员工。"),
    ("基础版每月收费10元。", "基础版每月收费20元。"),
    ("Marie Curie was born in 1868.", "Marie Curie was a chemist. She was born in 1867."),
    ("该店周日不开门。", "该店周日开门。"),
]  # fmt: skip

OPPOSITES = [
    ("Sales rose by 85 % in 2021.", "Sales fell by 85 % in 2021."),
    ("Sales have increased by 5 million dollars.", "Sales decreased by 5 million dollars."),
    ("The temperature will climb to 30 degrees.", "The temperature will drop to 30 degrees."),
    ("Basel won the match against Bern.", "Basel lost the match against Bern."),
    ("The museum is open on Mondays.", "The museum is closed on Mondays."),
    ("The council approved the plan in May.", "The council rejected the plan in May."),
    ("Pets are allowed in the rooms.", "Pets are prohibited in the rooms."),
    ("The option is enabled by default.", "The option is disabled by default."),
    ("The fee is due before the exam.", "The fee is due after the exam."),
    ("The harbour lies north of the town.", "The harbour lies south of the town."),
    ("It is the largest lake of the country.", "It is the smallest lake of the country."),
    ("The firm made a profit of 3 million dollars.", "The firm made a loss of 3 million dollars."),
    ("The bank raised its rates by 0.5 %.", "The bank cut its rates by 0.5 %."),
    ("央行上调利率0.5%。", "央行下调利率0.5%。"),
    ("2021年销售额上升了85%。", "2021年销售额下降了85%。"),
    ("公司今年盈利300万元。", "公司今年亏损300万元。"),
    ("价格提高了5元。", "价格降低了5元。"),
    ("委员会同意了这项计划。", "委员会拒绝了这项计划。"),
    ("这是该国最大的湖泊。", "这是该国最小的湖泊。"),
    ("公司的产品主要进口到德国。", "公司的产品主要出口到德国。"),
    ("气温高于30度。", "气温低于30度。"),
]  # fmt: skip

NO_OPPOSITES = [
    # the rest does not agree
    ("Sales rose by 85 % in 2021.", "Sales fell by 85 % in 2020."),
    ("Sales rose by 85 % in 2021.", "Sales fell by 60 % in 2021."),
    ("Sales of bread rose by 85 % in 2021.", "Sales of cakes fell by 85 % in 2021."),
    ("The museum is open on Mondays.", "The library is closed on Mondays."),
    ("Basel won the match against Bern.", "Bern lost the match against Basel."),
    ("The council approved the plan in May.", "The council rejected the budget in May."),
    # both are said, or one is denied
    ("Exports rose while imports fell.", "While imports fell, exports rose."),
    ("Sales rose by 85 % in 2021.", "Sales did not fall, they grew by 85 % in 2021."),
    ("Pets are allowed in the rooms.", "Pets are not prohibited in the rooms."),
    # the same side
    ("Sales rose by 85 % in 2021.", "Sales grew by 85 % in 2021."),
    ("2021年销售额上升了85%。", "2021年利润下降了85%。"),
    ("2021年销售额上升了85%。", "2021年销售额增长了85%。"),
    ("上海店今年盈利300万元。", "北京店今年亏损300万元。"),
    ("出口上升，进口下降。", "进口下降，出口上升。"),
    ("公司的产品东西很多。", "公司的产品很多。"),
    ("未来公司将增加投资。", "公司将增加投资。"),
    ("Not only the tower but the bridge is old.", "The tower but also the bridge is old."),
    # of what the sentence is about
    ("The largest room holds 30 guests.", "The smallest room holds 30 guests."),
    ("Before the war the town was rich.", "After the war the town was rich."),
    ("最大的房间可容纳30人。", "最小的房间可容纳30人。"),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "text"), ELSE + [(text, claim) for claim, text in ELSE])
def test_another_year_version_or_subject_contradicts_nothing(claim: str, text: str) -> None:
    found = checked(claim, text)
    assert found.conflicting == ()
    assert found.verdict != "supported"


@pytest.mark.parametrize(("claim", "text"), AGAINST)
def test_the_same_year_version_and_subject_contradict(claim: str, text: str) -> None:
    assert checked(claim, text).verdict == "contradicted"


@pytest.mark.parametrize(("claim", "text"), OPPOSITES + [(b, a) for a, b in OPPOSITES])
def test_opposites_contradict(claim: str, text: str) -> None:
    found = checked(claim, text)
    assert found.verdict == "contradicted"
    assert found.conflicting[0].what.startswith("opposite: ")


@pytest.mark.parametrize(("claim", "text"), NO_OPPOSITES + [(b, a) for a, b in NO_OPPOSITES])
def test_no_opposites(claim: str, text: str) -> None:
    assert checked(claim, text).conflicting == ()


def test_a_sentence_that_says_it_outweighs_its_opposite() -> None:
    texts = ("Sales fell by 85 % in 2021.", "Sales rose by 85 % in 2021.")
    assert checked("Sales rose by 85 % in 2021.", *texts).verdict == "supported"


def test_an_opposite_names_both_words() -> None:
    conflict = checked("Sales rose by 85 % in 2021.", "Sales fell by 85 % in 2021.").conflicting[0]
    assert conflict.what == "opposite: rose against fell"
    assert (conflict.start, conflict.end, conflict.claim_start, conflict.claim_end) == (
        6,
        10,
        6,
        10,
    )


def test_the_question_and_the_heading_tell_the_year_too() -> None:
    asked = "What was the revenue of the shop in 2021?"
    other = "In 2019 the revenue of the shop was 5 million dollars."
    assert checked("7 million dollars", other, question=asked).conflicting == ()
    same = other.replace("2019", "2021")
    assert checked("7 million dollars", same, question=asked).verdict == "contradicted"
    claim, plain = "In 2021 revenue was 7 million dollars.", "Revenue was 5 million dollars."
    assert checked(claim, plain, heading=("Report 2019",)).conflicting == ()
    assert checked(claim, plain, heading=("Report 2021",)).verdict == "contradicted"


def test_the_question_tells_the_subject_too() -> None:
    asked, text = "What is the population of Spain?", "The population of France is 67 million."
    assert checked("48 million", text, question=asked).conflicting == ()
    asked = asked.replace("Spain", "France")
    assert checked("48 million", text, question=asked).verdict == "contradicted"


def test_the_right_version_contradicts_beside_another() -> None:
    text = "Version 2 needs 4 GB of memory. Version 3 needs 8 GB of memory."
    assert checked("Version 3 needs 8 GB of memory.", text).verdict == "supported"
    wrong = checked("Version 3 needs 4 GB of memory.", text)
    assert "quantity: 4 GB against 8 GB" in [conflict.what for conflict in wrong.conflicting]


LONG_CLAIM = """
import time
from tests.evidence.test_conflicts import checked
text = " ".join(f"item {i} costs {7 * i + 3} dollars in {1900 + i % 150}," for i in range(300))
pages = [text[i : i + 2000] for i in range(0, 10_000, 2000)]
begun = time.process_time()
assert checked(text.replace("item", "part"), *pages).verdict != "supported"
print(time.process_time() - begun)
"""


def test_a_long_claim_is_checked_in_time() -> None:
    # In a process of its own: where coverage is measured, all of it takes several times as long.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    command = [sys.executable, "-c", LONG_CLAIM]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert float(run.stdout) < 2.0
