import io
import json
import subprocess
import sys

from readahead.documents.wire import read_message, write_frame, write_message
from readahead.documents.worker import _answer

LIMITS = {
    "memory_bytes": 2**30,
    "timeout_s": 10,
    "max_text_chars": 1000,
    "max_file_bytes": 2**20,
    "max_pages": 10,
}
HEAVY = {"torch", "transformers", "numpy", "pydantic", "faiss", "pypdf", "docx"}


def test_it_answers_in_order_until_its_input_ends() -> None:
    requests = io.BytesIO()
    for name, data in (("a.txt", b"text"), ("b.txt", b""), ("c.md", b"# T")):
        write_message(requests, {"name": name})
        write_frame(requests, data)
    done = subprocess.run(
        [sys.executable, "-m", "readahead.documents.worker", json.dumps(LIMITS)],
        input=requests.getvalue(),
        capture_output=True,
        check=True,
    )
    replies = io.BytesIO(done.stdout)
    assert read_message(replies)["documents"][0]["text"] == "text"
    assert read_message(replies) == {"reason": "empty", "remedy": ""}
    assert read_message(replies)["documents"][0]["headings"] == [["T"]]
    assert done.stderr == b""


def test_the_headings_of_blocks_count_as_text() -> None:
    page = f"<h1>{'t' * 99}</h1>" + "<p>a</p>" * 7
    assert "documents" in _answer("a.html", page.encode(), LIMITS)
    page += "<p>a</p>"
    assert _answer("a.html", page.encode(), LIMITS)["reason"] == (
        "more than 1,000 characters of text, with the headings above each part of it"
    )


def test_what_a_parser_prints_does_not_mix_with_replies() -> None:
    code = (
        "from readahead.documents.worker import _claim_stdout; replies = _claim_stdout(); "
        "print('noise', flush=True); replies.write(b'reply'); replies.flush()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"reply", b"noise\n")


def test_it_starts_without_heavy_imports() -> None:
    code = "import readahead.documents.worker, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert not HEAVY & set(done.stdout.split())
