"""Refusals speak of the passages or of the speaker; facts about the world are none."""

import time

import pytest

from readahead.evidence import is_refusal

REFUSALS = """
The passages do not contain information about the CEO.
The provided passages do not contain information about the population of Mars.
I don't know.
I don’t know.
I'm sorry, but I cannot answer this question.
Sorry. I cannot find that.
The passage does not mention who built it.
There is no information in the passages about that.
There is no mention of a café in the text.
The passages make no mention of a café.
The answer is not in the passages.
The given context doesn't provide the exact date.
Based on the provided passages, there is no information about the price.
Unknown.
Not mentioned in the passages.
The information is not provided in the given passages.
None of the passages mention the CEO.
I am unable to answer.
It is not possible to determine the answer from the passages.
The question cannot be answered from the given passages.
The passages provided do not specify the number of employees.
The text does not explicitly state when it opened.
The passages mention a café, but they do not mention its hours, so I cannot answer.
No information is available about that.
As an AI language model, I cannot browse.
I do not have enough information to answer.
The passages don’t say.
Insufficient information.
资料中没有关于退款的信息。
根据提供的资料,没有提到首席执行官是谁。
根据提供的资料，没有提到首席执行官是谁。
无法回答。
我不知道。
很抱歉，我无法回答这个问题。
抱歉。提供的资料中没有相关信息。
文中未提及具体日期。
提供的段落没有包含有关该问题的信息。
根据上下文，无法确定答案。
没有找到相关信息。
根据所提供的信息，无法得知他的年龄。
未提及。
该问题无法从资料中得到回答。
我无法从提供的资料中找到答案。
这些资料中并未说明退货期限。
对不起，我不知道。
抱歉。
No passage mentions the CEO.
No relevant documents were found.
The documents do not mention the CEO.
The data provided does not include 2020.
There is no information.
The information is not available.
No information on the CEO is given.
提供的信息不包括退款期限。
上下文信息没有提到首席执行官。
n/a
"""

FACTS = """
The museum does not contain a café.
Paris is the capital.
The warranty does not cover water damage.
There is no evidence that it works.
You do not have to pay.
I know that Paris is the capital.
It cannot be returned after 30 days.
The contract was not signed in 1990.
Scientists do not know the cause.
He said "I don't know" and left.
No passengers were hurt.
I don't know the day, but it was in May.
The passages do not give the day, but the museum opened in 1990.
The refund is not available in the sale.
He could not find a job in Vienna.
This document provides an overview.
30 days.
博物馆没有咖啡馆。
五天。
该酒店不提供早餐。
科学家无法确定其年代。
公司未提供保险。
他不知道自己的父亲是谁。
合同没有规定期限。
该公司无法提供服务。
根据资料，公司未提供保险。
资料不齐的申请会被退回。
他说“我不知道”，然后走了。
No data is shared with third parties.
The information is not provided to third parties.
No documents are required for domestic flights.
The documents are not included in the price.
The content is not available in Germany.
None of the documents need a stamp.
Your data does not include passwords.
The text is not included in the JSON reply.
No content is stored on the device.
该套餐内容不包括早餐。
个人信息不提供给第三方。
申请材料不包括照片。
Na
"""


@pytest.mark.parametrize("text", REFUSALS.strip().splitlines())
def test_refusals(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize("text", ["", " ", *FACTS.strip().splitlines()])
def test_facts(text: str) -> None:
    assert not is_refusal(text)


def test_the_first_sentence_decides() -> None:
    assert is_refusal("I don't know. Paris is the capital of France.")
    assert not is_refusal("Paris is the capital. The passages do not say since when.")


@pytest.mark.parametrize(
    "repeated", ["没有在资料", "answer ", "I don't know, ", "“", "no data is "]
)
def test_a_long_text_is_read_in_no_time(repeated: str) -> None:
    started = time.perf_counter()
    is_refusal(repeated * 1000)
    assert time.perf_counter() - started < 1.0
