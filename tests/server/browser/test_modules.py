"""What the page's modules compute, run by the browser that they are for."""

from playwright.sync_api import Page

SPLIT = """async (pieces) => {
    const { eventSplitter } = await import("/static/api.js");
    const split = eventSplitter();
    return pieces.flatMap((piece) => split(piece));
}"""
CITED = """async ([pieces, markers]) => {
    const { CitedText } = await import("/static/citations.js");
    const text = new CitedText(() => {});
    for (const marker of markers) text.cite({ marker, document: "d", heading: [], text: "" });
    for (const piece of pieces) text.push(piece);
    text.finish();
    return [text.node.textContent, text.node.querySelectorAll("button").length];
}"""
PLAIN = """async ([trace, answer]) => {
    const { plainEstimate } = await import("/static/plain.js");
    return plainEstimate(trace, answer);
}"""


def test_events_are_read_however_they_are_cut(page: Page) -> None:
    stream = 'data: {"a": 1}\n\n: comment\n\ndata: x\r\ndata: y\r\n\r\ndata: [DONE]\n\n'
    whole = ['{"a": 1}', "x\ny", "[DONE]"]
    assert page.evaluate(SPLIT, [stream.replace("\r", "")]) == whole
    assert page.evaluate(SPLIT, list(stream)) == whole


def test_markers_are_buttons_only_where_something_is_cited(page: Page) -> None:
    text = "One [1] and [2], a[3] list[0], [12"
    for pieces in ([text], list(text)):
        shown, num_buttons = page.evaluate(CITED, [pieces, [1, 2]])
        assert (shown, num_buttons) == (text.replace("[1]", "1").replace("[2]", "2"), 2)


def test_plain_rag_is_estimated_from_measured_rates(page: Page) -> None:
    def span(name: str, busy_s: float, count: int = 1, **attributes: object) -> dict[str, object]:
        return {"name": name, "busy_s": busy_s, "count": count, "attributes": attributes}

    trace = {
        "attributes": {},
        "counters": {"prompt_tokens": 400},
        "spans": [
            span("search", 0.1),
            span("prefill", 1.0, num_tokens=100),
            span("prefill", 3.0, num_tokens=100),
            span("decode", 2.0, 20),
        ],
    }
    estimate = page.evaluate(PLAIN, [trace, {"method": "prefetch", "numWritten": 11}])
    assert abs(estimate["ttft"] - 8.1) < 1e-9
    assert abs(estimate["e2e"] - 9.1) < 1e-9
    assert page.evaluate(PLAIN, [trace, {"method": "plain", "numWritten": 11}]) is None
    nothing = {**trace, "spans": []}
    assert page.evaluate(PLAIN, [nothing, {"method": "prefetch", "numWritten": 11}]) is None
