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
    waits = [{**span("wait", 2.0), "start_s": at_s} for at_s in (0.5, 2.5)]  # ahead, and after
    busy = {**trace, "attributes": {"asked_s": 1.0}, "spans": [*trace["spans"], *waits]}
    behind = page.evaluate(PLAIN, [busy, {"method": "prefetch", "numWritten": 11}])
    assert abs(behind["ttft"] - 10.1) < 1e-9  # plain RAG would have waited, too
    nothing = {**trace, "spans": []}
    assert page.evaluate(PLAIN, [nothing, {"method": "prefetch", "numWritten": 11}]) is None


LANES = """async ([trace, strokes]) => {
    const { lanesOf } = await import("/static/lanes.js");
    const { timelinePanel } = await import("/static/timeline.js");
    const answer = { method: "plain", timing: {} };
    const panel = timelinePanel(trace, answer, strokes);
    document.getElementById("turn-list").replaceChildren(panel);
    await new Promise((resolve) => { setTimeout(resolve, 100); });
    const canvas = panel.querySelector("svg").getBoundingClientRect();
    const boxes = [...panel.querySelectorAll(".item .shape")].map((node) => {
        const { left, right } = node.getBoundingClientRect();
        return [left - canvas.left, right - canvas.left];
    });
    const labels = [...panel.querySelectorAll(".break text")].map((node) => node.textContent);
    return [boxes, canvas.width, labels];
}"""
POLLS = """([steps]) => new Promise((resolve) => {
    import("/static/strip.js").then(({ Strip }) => {
        const asked = [];
        const status = () => {
            asked.push(performance.now());
            return Promise.resolve(steps[Math.min(asked.length, steps.length) - 1]);
        };
        window.strip = new Strip({ type: status, status }, (told) => { window.told = told; });
        window.asked = asked;
        resolve();
    });
})"""


def test_the_timeline_shortens_waiting_and_keeps_all_bars_on_the_card(page: Page) -> None:
    def span(name: str, start_s: float, end_s: float) -> dict[str, object]:
        busy_s = end_s - start_s
        at = {"name": name, "start_s": start_s, "end_s": end_s}
        return {**at, "busy_s": busy_s, "count": 1, "attributes": {}}

    for wait_s in (0.0, 12.0, 28.0, 3600.0):
        asked_s = 5.0 + wait_s
        trace = {
            "attributes": {"asked_s": asked_s, "e2e_s": 2.0},
            "counters": {},
            "spans": [
                span("prefill", 2.0, 5.0),
                span("wait", asked_s, asked_s + 0.001),
                span("decode", asked_s, asked_s + 2.0),
            ],
        }
        strokes = [[asked_s - at, 1] for at in (1.0, 1.5, 2.0)]
        boxes, width, labels = page.evaluate(LANES, [trace, strokes])
        assert len(boxes) == 5
        assert all(-1 <= left <= right <= width + 1 for left, right in boxes)
        longest = max(right - left for left, right in boxes)
        assert longest > width / 4
        assert len(labels) == (1 if wait_s else 0)


def told(num_tokens: int, *, fetching: list[str], suggestions: list[str]) -> dict[str, object]:
    status = {"passages": [], "num_answer_tokens": 0, "probability": 0, "reason": ""}
    return status | {"num_tokens": num_tokens, "fetching": fetching, "suggestions": suggestions}


def test_the_strip_asks_on_while_work_goes_on(page: Page) -> None:
    page.clock.install()
    busy = told(0, fetching=["Lake"], suggestions=[])
    page.evaluate(POLLS, [[*[busy] * 100, told(431, fetching=[], suggestions=[])]])
    page.evaluate("strip.typed('How deep is it?')")
    page.clock.run_for(120_000)
    assert page.locator("#strip").get_attribute("data-tokens") == "431"
    page.clock.run_for(120_000)
    num_asked = page.evaluate("asked.length")
    page.clock.run_for(60_000)
    assert page.evaluate("asked.length") == num_asked  # a line that stands for long is left alone


def test_suggestions_are_waited_for_gently(page: Page) -> None:
    page.clock.install()
    nothing = told(0, fetching=[], suggestions=[])
    page.evaluate(POLLS, [[*[nothing] * 20, told(0, fetching=[], suggestions=["Why?"])]])
    page.evaluate("strip.watch()")
    page.clock.run_for(45_000)
    assert page.evaluate("window.told.suggestions") == ["Why?"]
    assert page.evaluate("asked.length") == 21
    page.evaluate(POLLS, [[nothing]])
    page.evaluate("strip.watch()")
    page.clock.run_for(200_000)
    assert 20 <= page.evaluate("asked.length") <= 60


FAILS = """() => import("/static/strip.js").then(({ Strip }) => {
    window.typed = [];
    const type = (text) => {
        typed.push(text);
        return window.works ? Promise.resolve(null) : Promise.reject(new Error("No."));
    };
    window.strip = new Strip({ type, status: () => Promise.resolve(null) }, () => {});
})"""


def test_a_guess_that_fails_is_not_tried_again_and_further_ones_wait(page: Page) -> None:
    page.clock.install(time=0)
    page.clock.pause_at(1)  # only what it is told to run for passes
    page.evaluate(FAILS)
    page.evaluate("strip.typed('How deep')")
    page.clock.run_for(30_000)
    assert page.evaluate("typed") == ["How deep"]
    for stroke in range(200):  # 1 + 2 + 4 + 8 + 16 + 30 s of waiting, and more
        page.evaluate("text => strip.typed(text)", f"How deep is {stroke}")
        page.clock.run_for(500)
    assert 6 <= page.evaluate("typed.length") <= 9
    page.evaluate("works = true")
    page.clock.run_for(30_000)
    page.evaluate("strip.typed('Why')")
    page.clock.run_for(100)
    page.evaluate("strip.typed('Why so')")
    page.clock.run_for(100)
    assert page.evaluate("typed.slice(-2)") == ["Why", "Why so"]


def test_what_failed_is_tried_again_at_once_after_another_choice(page: Page) -> None:
    page.clock.install()
    page.evaluate(FAILS)
    for stroke in range(20):
        page.evaluate("text => strip.typed(text)", f"How deep is {stroke}")
        page.clock.run_for(1000)
    page.evaluate("works = true; document.dispatchEvent(new CustomEvent('choice'))")
    page.evaluate("strip.typed('Why')")
    page.clock.run_for(100)
    assert page.evaluate("typed.at(-1)") == "Why"


CHOICES = """(choices) => import("/static/preferences.js").then(({ choose }) => {
    let numHeard = 0;
    document.addEventListener("choice", () => numHeard += 1);
    return choices.map((part) => (choose(part), numHeard));
})"""


def test_a_choice_that_is_the_same_again_is_none(page: Page) -> None:
    page.wait_for_load_state("networkidle")  # what the page chooses by itself as it begins
    parts = [{"document": ""}, {"method": "plain"}, {"method": "plain"}, {"settings": {}}]
    assert page.evaluate(CHOICES, parts) == [0, 1, 1, 1]
