import errno
import sys
from pathlib import Path

import gguf as gguf_package
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readahead.errors import BackendError, ConfigError, InputError
from readahead.lm import gguf
from readahead.lm.progress import Silent
from tests.conftest import make_tokenizer
from tests.lm.recorder import Recorder
from tests.lm.tiny_gguf import Types, write_gguf

HEADER = gguf.GgufHeader("llama", "mit", "float16", 10**9, (7,))


@pytest.mark.parametrize(
    ("qtype", "dtype", "item_bytes"),
    [
        (Types.F32, "float32", 4),
        (Types.BF16, "bfloat16", 2),
        (Types.F16, "float16", 2),
        (Types.Q8_0, "float16", 2),
    ],
)
def test_the_header_tells_what_will_be_stored(
    tmp_path: Path, qtype: gguf_package.GGMLQuantizationType, dtype: str, item_bytes: int
) -> None:
    fields = {"padding_token_id": 257, "eot_token_id": 258, "eom_token_id": 256}
    header = gguf.read_header(write_gguf(tmp_path / "a.gguf", qtype=qtype, fields=fields))
    assert header.architecture == "llama"
    assert header.licence == "mit"
    assert header.dtype == dtype
    assert header.converted_bytes % item_bytes == 0
    assert 30_000 < header.converted_bytes / item_bytes < 60_000
    assert make_tokenizer().eos_token_id == 256
    assert header.end_token_ids == (256, 258, 257)


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"

    @settings(
        max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.integers(0, len(whole) - 64))
    def check(length: int) -> None:
        cut.write_bytes(whole[:length])
        with pytest.raises(InputError, match="not a whole GGUF file"):
            gguf.read_header(cut)

    check()


def test_one_part_of_several_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "part.gguf"
    writer = gguf_package.GGUFWriter(path, "llama")
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(InputError, match="one of 3 parts.*--merge"):
        gguf.read_header(path)


def test_without_the_extra_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ConfigError, match=r"readahead\[gguf\]"):
        gguf.read_header(tmp_path / "a.gguf")
    monkeypatch.setattr(gguf, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"accelerate.*readahead\[gguf\]"):
        gguf.convert(tmp_path / "a.gguf", HEADER, tmp_path / "out", Silent())


def test_an_unknown_architecture_is_one_clear_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_gguf(tmp_path / "a.gguf", architecture="rwkv6")
    progress = Recorder()
    with pytest.raises(InputError) as caught:
        gguf.convert(path, gguf.read_header(path), tmp_path / "out", progress)
    assert "rwkv6" in str(caught.value)
    assert "not supported" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert progress.tasks == ["Converting rwkv6 weights to safetensors"]
    assert progress.num_running == 0


def test_a_child_that_dies_is_told_from_one_that_refuses() -> None:
    killed = gguf._conversion_error(-9, "", HEADER)
    assert isinstance(killed, BackendError)
    assert "2.0 GB of free memory" in str(killed)
    refused = gguf._conversion_error(1, "no tokenizer", HEADER)
    assert isinstance(refused, InputError)
    assert "no tokenizer" in str(refused)
    full = gguf._conversion_error(1, "I/O error: No space left on device (os error 28)", HEADER)
    assert isinstance(full, OSError)
    assert full.errno == errno.ENOSPC
