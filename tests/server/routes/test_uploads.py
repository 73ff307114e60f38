import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from readahead.config import ServerConfig
from readahead.server.problems import Problem
from readahead.server.routes.uploads import MAX_NAME_CHARS, receive, shown_name

LIMITS = ServerConfig(max_upload_bytes=1000, max_upload_files=3)
TYPE = "multipart/form-data; boundary=b0und"


def body(*files: tuple[str, bytes], field: str = "files", end: bytes = b"--b0und--\r\n") -> bytes:
    parts = [
        b"--b0und\r\nContent-Disposition: form-data; "
        + f'name="{field}"; filename="{name}"'.encode()
        + b"\r\nContent-Type: application/pdf\r\n\r\n"
        + content
        + b"\r\n"
        for name, content in files
    ]
    return b"".join(parts) + end


def take(
    folder: Path, content: bytes, *, content_type: str = TYPE, piece_bytes: int = 7
) -> list[str]:
    pieces = [content[at : at + piece_bytes] for at in range(0, len(content), piece_bytes)]
    return asyncio.run(receive(request(pieces, content_type), folder, LIMITS))


def request(pieces: Iterable[bytes], content_type: str) -> Request:
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def next_message() -> dict[str, object]:
        return messages.pop(0)

    headers = [(b"content-type", content_type.encode("latin-1"))]
    return Request({"type": "http", "method": "POST", "headers": headers}, next_message)


@pytest.mark.parametrize("piece_bytes", [1, 7, 10_000])
def test_files_are_written_under_numbers(tmp_path: Path, piece_bytes: int) -> None:
    content = bytes(range(256)) + b"\r\n--b0un"  # looks like the boundary for a while
    sent = body(("../../水.md", content), (r"C:\tmp\b.PDF", b""))
    assert take(tmp_path, sent, piece_bytes=piece_bytes) == ["水.md", "b.PDF"]
    assert (tmp_path / "0").read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("a.md", "a.md"),
        ("/etc/passwd/../a.md", "a.md"),
        ("..\\..\\a.txt", "a.txt"),
        ("a\x00\x1b[31m\u202efdp.\u200bmd", "a[31mfdp.md"),
        ("  a \t b.md ", "a b.md"),
        ("e\u0301.md", "é.md"),
        ("<img src=x onerror=alert(1)>.html", "<img src=x onerror=alert(1)>.html"),
        ("-.md", "-.md"),
    ],
)
def test_what_is_shown_of_a_name(given_name: str, name: str) -> None:
    assert shown_name(given_name) == name


@pytest.mark.parametrize(
    ("given_name", "status"),
    [
        ("", 400),
        ("dir/", 400),
        ("\u202e\x00", 400),
        ("..", 400),
        ("a" * MAX_NAME_CHARS + ".md", 400),
        ("virus.exe", 415),
        ("noending", 415),
        (".md", 415),
        ("a.md.gz", 415),
        ("a.jsonl#3", 415),
    ],
)
def test_names_that_are_refused(given_name: str, status: int) -> None:
    with pytest.raises(Problem) as caught:
        shown_name(given_name)
    assert (caught.value.status, caught.value.param) == (status, "files")


@given(st.text())
def test_a_name_is_no_path_and_drives_no_terminal(given_name: str) -> None:
    try:
        name = shown_name(given_name + ".md")
    except Problem:
        return
    assert name.isprintable() and "/" not in name and "\\" not in name
    assert 0 < len(name) <= MAX_NAME_CHARS
    assert shown_name(name) == name


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        (body(), 400, "There is no file"),
        (b"", 400, "ends in the middle"),
        (body(("a.md", b"x"), end=b""), 400, "ends in the middle"),
        (body(("a.md", b"x"), end=b"--b0un"), 400, "ends in the middle"),
        (b"nonsense", 400, "not multipart"),
        (body(("a.md", b"x"), field="file"), 400, "'file' is not known"),
        (body(("a.md", b"x"), ("b.md", b""), ("c.md", b""), ("d.md", b"")), 400, "more than 3"),
        (body(*[("a.md", b"x")] * 4), 400, "more than 3"),
        (body(("a.md", b"x" * 600), ("b.md", b"x" * 600)), 413, "longer than 1000 bytes"),
        (body(("x/a.md", b"1"), ("y/a.md", b"2")), 400, "Two different files"),
        (body(("a.exe", b"MZ")), 415, r"\.docx, \.htm, .*\.pdf"),
        (b'--b0und\r\nContent-Disposition: form-data; name="files"\r\n\r\nx', 400, "text where"),
        (b"--b0und\r\nX: y\r\n\r\nx\r\n--b0und--", 400, "'' is not known"),
        (b"--b0und\r\n" + b"X: y\r\n" * 1000, 400, "not multipart"),
        (b"--b0und\r\nX: " + b"y" * 100_000, 400, "not multipart"),
    ],
)
def test_bodies_that_are_refused(tmp_path: Path, sent: bytes, status: int, message: str) -> None:
    with pytest.raises(Problem, match=message) as caught:
        take(tmp_path, sent)
    assert caught.value.status == status


@pytest.mark.parametrize(
    "content_type",
    ["", "application/json", "multipart/form-data", "multipart/mixed; boundary=b0und", "\xff;="],
)
def test_other_kinds_of_bodies_are_refused(tmp_path: Path, content_type: str) -> None:
    with pytest.raises(Problem, match="multipart/form-data") as caught:
        take(tmp_path, body(("a.md", b"x")), content_type=content_type)
    assert caught.value.status == 415
    with pytest.raises(Problem, match="Boundary length"):
        take(tmp_path, b"x", content_type=f"multipart/form-data; boundary={'x' * 1000}")


def disposed(parameters: str) -> bytes:
    """Return a body whose one file has these parameters for its name."""
    disposition = f'Content-Disposition: form-data; name="files"; {parameters}'
    return f"--b0und\r\n{disposition}\r\n\r\nx\r\n--b0und--\r\n".encode()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ("filename*=UTF-8''%E6%B0%B4.md", "水.md"),
        ("FileName* = utf-8'zh-CN'%e6%b0%b4.md ", "水.md"),
        ("filename*=iso-8859-1'en'caf%E9.md", "café.md"),
        ("filename=\"??.md\"; filename*=UTF-8''%E6%B0%B4.md", "水.md"),
        ("filename*=UTF-8''%E6%B0%B4.md; filename=\"??.md\"", "水.md"),
        ("filename*=UTF-8''..%2F..%5C%00%E2%80%AE%1b%5Ba.md", "[a.md"),
        ("filename=\"a; filename*=UTF-8''b.md\"", "a; filename*=UTF-8''b.md"),
        ('filename="a\\"; filename*=UTF-8\'\'b.md"', "a\"; filename*=UTF-8''b.md"),
        ("filename=a.md; xfilename*=UTF-8''b.md", "a.md"),
    ],
)
def test_a_name_may_be_extended(tmp_path: Path, parameters: str, name: str) -> None:
    assert take(tmp_path, disposed(parameters)) == [name]


@pytest.mark.parametrize(
    "value",
    ["", "a.md", "''a.md", "UTF-8'a.md", "utf-16''a.md", "UTF-8''%zz.md", "UTF-8''%ff.md"]
    + ["UTF-8''", "UTF-8''a b.md", "UTF-8''水.md", "\"UTF-8''a.md\"", "UTF-8''%2.md"],
)
def test_an_extended_name_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    sent = disposed(f"filename=a.md; filename*={value}")
    with pytest.raises(Problem, match=r"filename\* is not") as caught:
        take(tmp_path, sent)
    assert (caught.value.status, caught.value.param) == (400, "files")


def test_a_file_that_comes_twice_is_kept_once(tmp_path: Path) -> None:
    sent = body(("a.md", b"same"), ("dir/a.md", b"same"), ("b.md", b"other"))
    assert take(tmp_path, sent) == ["a.md", "b.md"]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "0": b"same",
        "1": b"other",
    }


def test_nothing_is_read_beyond_the_limit(tmp_path: Path) -> None:
    taken = 0

    async def check() -> None:
        async def endless() -> AsyncIterator[bytes]:
            nonlocal taken
            yield body(("a.md", b""), end=b"")[:-2]
            while True:
                taken += 1
                yield b"x" * 100

        pieces = endless()

        async def next_message() -> dict[str, object]:
            return {"type": "http.request", "body": await anext(pieces), "more_body": True}

        headers = [(b"content-type", TYPE.encode())]
        scope = {"type": "http", "method": "POST", "headers": headers}
        await receive(Request(scope, next_message), tmp_path, LIMITS)

    with pytest.raises(Problem) as caught:
        asyncio.run(check())
    assert (caught.value.status, taken) == (413, 11)
    assert (tmp_path / "0").stat().st_size <= 1000


@given(st.lists(st.binary(max_size=60)), st.booleans())
def test_no_body_does_more_than_be_refused(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], begins_well: bool
) -> None:
    folder = tmp_path_factory.mktemp("any")
    start = body(("a.md", b"x"), end=b"--b0und\r\n") if begins_well else b""
    try:
        asyncio.run(receive(request([start, *pieces], TYPE), folder, LIMITS))
    except Problem as problem:
        assert problem.status in (400, 413, 415)
