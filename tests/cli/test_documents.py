import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.conftest import TIDES, Cli
from tests.retrieval.support import HashingEmbedder


def test_add_counts_what_it_did(cli: Cli, kb: Path, place: Path) -> None:
    (place / "docs" / "lamps.txt").write_text("A lamp burns gas.\n", encoding="utf-8")
    (place / "docs" / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (place / "docs" / "new.md").write_text("# New\n\nNothing yet.\n", encoding="utf-8")
    outcome = cli("add", "docs", "missing.md", "--lexical-only", "--json")
    assert outcome.status == 1
    report = outcome.json
    assert list(report) == [
        *("added", "unchanged", "replaced", "failed", "passages", "too_long", "seconds"),
    ]
    assert (report["added"], report["unchanged"], report["replaced"]) == (1, 1, 1)
    failed = {failure["path"]: failure["reason"] for failure in report["failed"]}
    assert set(failed) == {"docs/broken.pdf", "missing.md"}
    assert failed["missing.md"] == "no such file"
    assert "  failed: missing.md: no such file\n" in outcome.err


def test_add_tells_how_many_passages_are_not_embedded_to_their_end(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("readahead.knowledge.load_embedder", lambda models: HashingEmbedder())
    (place / "short.md").write_text("The dome opens at nine.\n", encoding="utf-8")
    assert "longer than" not in cli("add", "short.md").err
    (place / "long.md").write_text("A word of many. " * 15, encoding="utf-8")
    outcome = cli("add", "long.md", "--json")
    assert outcome.json["too_long"] == 1
    assert "  1 of the passages are longer than the embedder reads: their ends" in outcome.err


def test_add_tells_people_in_one_line(cli: Cli, place: Path) -> None:
    (place / "a.md").write_text(TIDES, encoding="utf-8")
    outcome = cli("add", "a.md", "--lexical-only")
    assert (outcome.status, outcome.err) == (0, "")
    assert re.fullmatch(
        r"1 added, 0 unchanged, 0 replaced, 0 failed; 2 passages in \d+\.\d s\n", outcome.out
    )


def test_verbose_shows_what_cleaning_removed_from_each_file(cli: Cli, place: Path) -> None:
    (place / "page.html").write_text(
        "<nav>Home</nav><p>The tide turns.</p><script>x</script>", encoding="utf-8"
    )
    lines = [json.dumps({"text": f"Line {n}.\u200b"}) for n in range(30)]
    (place / "many.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (place / "plain.txt").write_text("Nothing to remove.", encoding="utf-8")
    outcome = cli("add", ".", "--lexical-only", "--verbose", "--json")
    assert outcome.json["added"] == 3
    assert outcome.err.splitlines() == [
        "  removed from many.jsonl: 30 invisible",
        "  removed from page.html: 1 navigation, 1 script",
        "  removed from plain.txt: nothing",
    ]


def test_add_reads_stdin(cli: Cli) -> None:
    outcome = cli("add", "-", "--name", "notes.md", "--lexical-only", stdin=TIDES.encode())
    assert outcome.status == 0
    assert cli("show", "notes.md", "--json").json["blocks"][0]["kind"] == "title"


def test_add_reads_no_more_of_stdin_than_the_limit(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READAHEAD_DOCUMENTS__MAX_FILE_BYTES", "1048576")
    outcome = cli("add", "-", "--lexical-only", "--json", stdin=b"tide " * 300_000)
    assert outcome.status == 1
    assert outcome.json["failed"] == [{"path": "-", "reason": "larger than 1 MiB"}]


def test_a_name_without_stdin_is_refused(cli: Cli) -> None:
    outcome = cli("add", "docs", "--name", "a.md")
    assert outcome.status == 2
    assert outcome.error == "--name 'a.md' names stdin. Give - among the paths."


def test_include_and_exclude_choose_files(cli: Cli, kb: Path) -> None:
    outcome = cli("--kb", "other", "add", "docs", "--include", "*.txt", "--lexical-only", "--json")
    assert (outcome.json["added"], outcome.json["failed"]) == (1, [])
    outcome = cli("--kb", "third", "add", "docs", "--exclude", "*.txt", "--lexical-only", "--json")
    assert cli("--kb", "third", "ls", "--json").json["documents"][0]["name"] == "docs/tides.md"


def test_ls_lists_documents(cli: Cli, kb: Path) -> None:
    heading, *rows = cli("ls").out.splitlines()
    assert heading.split() == ["id", "passages", "characters", "version", "name"]
    assert len({len(line) - len(line.split()[-1]) for line in (heading, *rows)}) == 1
    assert [row.split()[-1] for row in rows] == ["docs/lamps.txt", "docs/tides.md"]
    assert len({row.index("docs/") for row in rows}) == 1
    documents = cli("ls", "--json").json["documents"]
    assert documents[1] | {"added_at": 0} == {
        "id": 2,
        "name": "docs/tides.md",
        "source": "docs/tides.md",
        "version": 1,
        "num_chars": len(cli("show", "docs/tides.md", "--json").json["text"]),
        "num_passages": 2,
        "added_at": 0,
        "removed": {},
    }


def test_an_empty_knowledge_base_says_so(cli: Cli, kb: Path) -> None:
    assert cli("rm", "docs").status == 0
    outcome = cli("ls")
    assert (outcome.status, outcome.out) == (0, "")
    assert "readahead add" in outcome.err
    assert cli("ls", "--json").json == {"documents": []}


def test_show_gives_the_stored_text_and_its_blocks(cli: Cli, kb: Path) -> None:
    shown = cli("show", "docs/tides.md", "--json").json
    assert list(shown) == ["document", "text", "blocks", "removed"]
    assert shown["document"] == "docs/tides.md"
    assert {tuple(block) for block in shown["blocks"]} == {
        ("kind", "heading", "page", "start", "end")
    }
    texts = [shown["text"][block["start"] : block["end"]] for block in shown["blocks"]]
    assert texts == [
        "Tides",
        "The tide turns twice a day.",
        "Moon",
        "The moon pulls the water.",
    ]
    assert shown["blocks"][3]["heading"] == ["Tides", "Moon"]
    assert cli("show", "docs/tides.md").out == shown["text"] + "\n"
    assert cli("show", "2").out == cli("show", "./docs//tides.md").out == shown["text"] + "\n"


def test_show_gives_the_passage_that_a_citation_names(cli: Cli, kb: Path) -> None:
    hit = cli("search", "moon", "-k", "1", "--json").json["hits"][0]
    passage = cli("show", hit["passage_id"], "--json").json
    assert passage == {key: value for key, value in hit.items() if key != "score"}
    assert cli("show", hit["passage_id"]).out == hit["text"] + "\n"
    assert cli("show", "2.1.99").status == 2


def test_show_names_one_of_many_documents(cli: Cli, place: Path) -> None:
    (place / "many.jsonl").write_text('{"text": "One."}\n{"text": "Two."}\n', encoding="utf-8")
    cli("add", "many.jsonl", "--lexical-only")
    assert cli("show", "many.jsonl").error == (
        "'many.jsonl' holds 2 documents. Name one of them, for instance 'many.jsonl#1'."
    )
    assert cli("show", "many.jsonl#2").out == "Two.\n"


def test_rm_deletes_for_good(cli: Cli, kb: Path) -> None:
    assert cli("rm", "2", "--json").json == {"removed": ["docs/tides.md"]}
    assert cli("search", "moon", "--json").json == {"hits": []}
    assert cli("rm", "docs/lamps.txt").out == "removed docs/lamps.txt\n"


def test_rm_of_a_folder_deletes_what_is_below_it(cli: Cli, kb: Path, place: Path) -> None:
    (place / "docs2.md").write_text("Not below docs.", encoding="utf-8")
    cli("add", "docs2.md", "--lexical-only")
    removed = cli("rm", "./docs/", "docs/tides.md", "--json").json["removed"]
    assert removed == ["docs/lamps.txt", "docs/tides.md"]
    assert [row["name"] for row in cli("ls", "--json").json["documents"]] == ["docs2.md"]


def test_rm_of_an_unknown_document_deletes_nothing(cli: Cli, kb: Path) -> None:
    outcome = cli("rm", "docs/tides.md", "nothing.md")
    assert outcome.status == 2
    assert outcome.error == "There is no document 'nothing.md'. List them: readahead ls"
    assert len(cli("ls", "--json").json["documents"]) == 2


def test_names_cannot_break_lines_or_drive_the_terminal(cli: Cli, place: Path) -> None:
    hostile = "a\nb\x1b[31m\u202e.txt"
    (place / hostile).write_text("The tide turns.", encoding="utf-8")
    undecodable = os.fsdecode(b"c\xe4\xb8.txt")
    (place / undecodable).write_text("The moon pulls.", encoding="utf-8")
    (place / "bad\n\x1b.pdf").write_bytes(b"%PDF-1.4 nothing")
    outcome = cli("add", ".", "--lexical-only", "--verbose")
    assert "\x1b" not in outcome.out + outcome.err
    assert outcome.err.count("\n") == 3
    _, *rows = cli("ls").out.splitlines()
    assert [row.split(maxsplit=4)[-1] for row in rows] == [
        "a\ufffdb\ufffd[31m\ufffd.txt",
        r"c\xe4\xb8.txt",
    ]
    assert cli("ls", "--json").out.isascii()
    assert "\x1b" not in cli("ls", "--json").out + cli("search", "tide").out
    assert cli("rm", hostile, undecodable).out.count("\n") == 2


def test_reembed_needs_a_model_and_says_which(cli: Cli, kb: Path) -> None:
    outcome = cli("reembed")
    assert outcome.status == 2
    assert "readahead pull all-minilm-l6-v2" in outcome.error
