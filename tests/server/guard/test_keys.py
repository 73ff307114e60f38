import hmac
import json
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.errors import ConfigError, InputError, NotFound, StoreError
from readahead.server.guard.keys import FILE_NAME, Keys


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


def test_a_key_is_found_and_only_its_hash_is_kept(keys: Keys, tmp_path: Path) -> None:
    assert not keys.are_needed()
    secret = keys.add("ann", tenant="blue", tokens_per_day=5, requests_per_minute=2)
    assert len(secret) >= 43  # 256 bits
    found = keys.find(secret)
    assert found is not None
    assert (found.name, found.tenant) == ("ann", "blue")
    assert (found.tokens_per_day, found.requests_per_minute) == (5, 2)
    assert keys.are_needed()
    for wrong in ("", secret[:-1], secret + "a", found.sha256, "\udc80é"):
        assert keys.find(wrong) is None
    assert secret not in repr(keys.all()) + (tmp_path / FILE_NAME).read_text()
    assert found.sha256 not in repr(found)


def test_each_key_is_another(keys: Keys) -> None:
    assert len({keys.add(f"key{i}") for i in range(5)}) == 5


def test_only_its_owner_may_read_the_file(keys: Keys, tmp_path: Path) -> None:
    keys.add("ann")
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    (tmp_path / FILE_NAME).chmod(0o620)
    with pytest.raises(StoreError, match="Others may write to"):
        Keys(tmp_path).all()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_every_key_is_compared_whichever_it_is(
    keys: Keys, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = [keys.add(f"key{i}") for i in range(3)]
    compared = []
    compare = hmac.compare_digest

    def watched(a: str, b: str) -> bool:
        compared.append(a)
        return compare(a, b)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    found = keys.find(secrets[which])
    assert found is not None and found.name == f"key{which}"
    assert len(compared) == 3


def test_what_another_process_changes_holds_at_once(keys: Keys, tmp_path: Path) -> None:
    command_line = Keys(tmp_path)
    first = command_line.add("ann")
    second = command_line.add("bob")
    assert keys.find(first) and keys.find(second)
    command_line.remove("ann")
    assert keys.find(first) is None
    assert keys.find(second)


def test_without_its_last_key_a_server_lets_nobody_in(keys: Keys, tmp_path: Path) -> None:
    secret = keys.add("ann")
    assert keys.are_needed()
    keys.remove("ann")
    assert keys.are_needed() and keys.find(secret) is None
    (tmp_path / FILE_NAME).unlink()
    assert keys.are_needed()
    assert not Keys(tmp_path).are_needed()


def test_the_environment_may_have_a_key(tmp_path: Path) -> None:
    secret = "correct horse battery"
    keys = Keys.of(tmp_path, {"READAHEAD_API_KEY": secret})
    found = keys.find(secret)
    assert found is not None and (found.name, found.tenant) == ("environment", "")
    assert secret not in repr(vars(keys))
    assert list(tmp_path.iterdir()) == []
    assert not Keys.of(tmp_path, {"READAHEAD_API_KEY": ""}).are_needed()


@pytest.mark.parametrize("secret", ["short", "x" * 15, "x" * 20 + "\n", "é" * 20])
def test_a_key_that_is_too_simple_is_refused_and_not_shown(tmp_path: Path, secret: str) -> None:
    with pytest.raises(ConfigError, match="needs 16 or more") as caught:
        Keys(tmp_path, secret)
    assert secret not in str(caught.value)


@pytest.mark.parametrize("name", ["", ".a", "a b", "a/b", "a\n", "é", "x" * 65, "environment"])
def test_names_of_keys_are_checked(keys: Keys, name: str) -> None:
    with pytest.raises(InputError, match="cannot be called"):
        keys.add(name)


@pytest.mark.parametrize("tenant", ["..", "a/b", "A", "-a", "a.b", "a\n", "é", "x" * 64, "a\0"])
def test_names_of_tenants_are_names_of_folders(keys: Keys, tenant: str) -> None:
    with pytest.raises(InputError, match="cannot be called"):
        keys.add("ann", tenant=tenant)
    assert keys.all() == []


def test_a_name_is_used_once_and_a_limit_is_one_or_more(keys: Keys) -> None:
    keys.add("ann")
    with pytest.raises(InputError, match="There is a key 'ann' already"):
        keys.add("ann")
    for limit in (0, -1):
        with pytest.raises(InputError, match="is no limit"):
            keys.add("bob", tokens_per_day=limit)
        with pytest.raises(InputError, match="is no limit"):
            keys.add("bob", requests_per_minute=limit)
    with pytest.raises(NotFound, match="There is no key 'bob'"):
        keys.remove("bob")


def test_no_key_is_lost_when_many_are_made_at_once(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=lambda i=i: Keys(tmp_path).add(f"key{i}")) for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Keys(tmp_path).all()) == 12


@pytest.mark.parametrize(
    "change",
    [{"tenant": "../x"}, {"name": "a/b"}, {"sha256": "0"}, {"tokens_per_day": 0}, {"expires": "x"}],
)
def test_a_record_that_is_not_understood_opens_nothing(
    keys: Keys, tmp_path: Path, change: dict[str, object]
) -> None:
    secret = keys.add("ann")
    path = tmp_path / FILE_NAME
    path.write_text(json.dumps([json.loads(path.read_text())[0] | change]))
    with pytest.raises(StoreError, match=r"keys\.json is damaged"):
        keys.find(secret)


@given(st.binary(max_size=60))
def test_a_damaged_file_never_opens_anything(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("kb")
    (folder / FILE_NAME).write_bytes(data)
    try:
        assert Keys(folder).all() == []
    except StoreError as error:
        assert "\n" not in str(error)
