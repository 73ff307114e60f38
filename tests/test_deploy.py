"""What is in deploy/ fits together and fits the server; no container is built here."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from readahead.config import Config
from readahead.server.observability.families import FAMILIES

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana/dashboards/readahead.json").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
SERVERS = ("readahead", "readahead-gpu")
WIDTH = 24  # columns of a dashboard
PROCESS = {"process_resident_memory_bytes": {"job"}}  # from prometheus-client and Prometheus


def exposed() -> dict[str, set[str]]:
    """Return the labels of every series that ``/metrics`` shows, and that Prometheus adds."""
    series = dict(PROCESS)
    for family in FAMILIES:
        labels = {"job", "instance", *family.labels}
        if family.kind == "histogram":
            series[f"{family.full_name}_bucket"] = labels | {"le"}
            series[f"{family.full_name}_sum"] = series[f"{family.full_name}_count"] = labels
        else:
            series[family.full_name] = labels
    return series


def queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def names_in(query: str) -> list[str]:
    return re.findall(r"\b(?:readahead|process)_\w+", query)


def settings_of(name: str) -> dict[str, str]:
    """Return what the file says in which a server's settings stand."""
    (file,) = COMPOSE["services"][name]["env_file"]
    lines = (DEPLOY / file).read_text(encoding="utf-8").splitlines()
    pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {key: value.strip("'") for key, value in pairs}


def test_every_metric_that_the_dashboard_asks_for_is_exposed() -> None:
    for query in queries():
        names = names_in(query)
        assert names, query
        for name in names:
            assert name in exposed(), query


def test_the_dashboard_groups_by_labels_that_there_are() -> None:
    for query in queries():
        known = set().union(*(exposed()[name] for name in names_in(query)))
        for group in re.findall(r"by \(([\w, ]+)\)", query):
            assert set(group.split(", ")) <= known, query
        assert query.count("(") == query.count(")")


def test_the_legends_use_labels_that_the_queries_keep() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                grouped = re.search(rf"by \([^)]*\b{label}\b", target["expr"])
                assert grouped or target["expr"] == "readahead_jobs", target


def test_every_metric_is_on_the_dashboard() -> None:
    asked = {name for query in queries() for name in names_in(query)}
    for family in FAMILIES:
        names = {family.full_name, f"{family.full_name}_bucket", f"{family.full_name}_sum"}
        assert asked & names, family.name


def test_the_dashboards_panels_stand_side_by_side() -> None:
    panels = DASHBOARD["panels"]
    assert DASHBOARD["uid"] and DASHBOARD["title"] and DASHBOARD["schemaVersion"] >= 36
    assert not [id for id, num in Counter(panel["id"] for panel in panels).items() if num > 1]
    taken = Counter[tuple[int, int]]()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        columns = range(place["x"], place["x"] + place["w"])
        rows = range(place["y"], place["y"] + place["h"])
        taken.update((x, y) for x in columns for y in rows)
        refs = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(refs)) == len(refs)
        assert panel["type"] == "row" or (refs and panel["description"] and panel["title"])
    assert max(taken.values()) == 1


def test_the_dashboard_finds_its_data_source() -> None:
    sources = yaml.safe_load(
        (DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text(encoding="utf-8")
    )
    (source,) = sources["datasources"]
    (variable,) = DASHBOARD["templating"]["list"]
    assert variable["current"]["value"] == source["uid"]
    used = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"] if "datasource" in panel}
    assert used == {f"${{{variable['name']}}}"}
    host, _, port = source["url"].removeprefix("http://").partition(":")
    assert COMPOSE["services"][host]["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_grafana_gets_the_files_that_it_is_told_of() -> None:
    provider = yaml.safe_load(
        (DEPLOY / "grafana/provisioning/dashboards/readahead.yml").read_text(encoding="utf-8")
    )
    path = provider["providers"][0]["options"]["path"]
    mounts = COMPOSE["services"]["grafana"]["volumes"]
    assert f"./grafana/dashboards:{path}:ro" in mounts
    for mount in mounts:
        source = mount.split(":")[0]
        assert not source.startswith("./") or (DEPLOY / source).exists()


def test_prometheus_scrapes_the_server_with_its_key() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    (target,) = job["static_configs"][0]["targets"]
    host, _, port = target.partition(":")
    assert int(port) == Config().server.port
    secret = job["authorization"]["credentials_file"].removeprefix("/run/secrets/")
    assert COMPOSE["secrets"][secret] == {"environment": "READAHEAD_API_KEY"}
    assert secret in COMPOSE["services"]["prometheus"]["secrets"]
    for name in SERVERS:
        server = COMPOSE["services"][name]
        assert host in server["networks"]["default"]["aliases"]
        assert host in json.loads(settings_of(name)["READAHEAD_SERVER__ALLOWED_HOSTS"])


def test_nothing_is_published_beyond_this_machine() -> None:
    for service in COMPOSE["services"].values():
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:")


def test_without_a_key_compose_fails_and_says_why() -> None:
    for name in SERVERS:
        key = COMPOSE["services"][name]["environment"]["READAHEAD_API_KEY"]
        assert re.fullmatch(r"\$\{READAHEAD_API_KEY:\?.+}", key)
    assert COMPOSE["services"]["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD"].startswith(
        "${GRAFANA_ADMIN_PASSWORD:?"
    )


def test_every_image_has_a_version() -> None:
    images = [one["image"] for one in COMPOSE["services"].values() if "build" not in one]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(images) == 4
    for image in images:
        assert re.search(r":v?\d+\.\d+\.\d+", image), image


def test_volumes_that_are_used_are_named() -> None:
    used = {
        mount.split(":")[0]
        for service in COMPOSE["services"].values()
        for mount in service["volumes"]
        if not mount.startswith("./")
    }
    assert used == set(COMPOSE["volumes"])


def test_the_image_is_built_from_what_there_is() -> None:
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in line.split():
            assert (ROOT / source).exists()
            ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8")
            assert f"!{source}\n" in ignored
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"\"\.\[([\w,]+)\]\"", DOCKERFILE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert project["readme"] in DOCKERFILE
    assert all(name in DOCKERFILE for name in project["license-files"])


def test_the_image_runs_without_root_and_tells_how_it_is() -> None:
    instructions = re.findall(r"^([A-Z]+) (.+)$", DOCKERFILE, re.MULTILINE)
    last = {name: text for name, text in instructions}
    assert last["USER"] not in ("root", "0")
    assert json.loads(last["ENTRYPOINT"]) == ["readahead"]
    assert json.loads(last["CMD"]) == ["serve"]
    assert "/health" in DOCKERFILE.split("HEALTHCHECK")[1]
    for name in SERVERS:
        mounts = [mount.split(":")[1] for mount in COMPOSE["services"][name]["volumes"]]
        assert json.loads(last["VOLUME"]) == mounts


@pytest.mark.parametrize("name", SERVERS)
def test_what_the_file_of_settings_says_holds(name: str) -> None:
    # What stands in `environment` goes before the file, silently.
    assert set(COMPOSE["services"][name]["environment"]) == {"READAHEAD_API_KEY", "TMPDIR"}
    assert not settings_of(name).keys() & {"READAHEAD_API_KEY", "TMPDIR"}
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    (file,) = COMPOSE["services"][name]["env_file"]
    assert f"`deploy/{file}`" in page


@pytest.mark.parametrize("name", SERVERS)
def test_the_settings_in_the_environment_are_settings(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict(re.findall(r"(READAHEAD_\w+)=(\S+)", DOCKERFILE))
    given |= {
        key: value
        for key, value in COMPOSE["services"][name]["environment"].items()
        if key.startswith("READAHEAD_")
    }
    for key, value in (settings_of(name) | given).items():
        monkeypatch.setenv(key, value)
    config = Config()
    assert config.server.host == "0.0.0.0"
    assert config.kb.is_relative_to("/data")
    assert config.server.allowed_hosts == ("readahead",)


def test_no_secret_is_written_down() -> None:
    for path in DEPLOY.rglob("*"):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found = re.search(r"(?i)(?:password|key|token)[ \t]*[:=][ \t]*[\"']?\w{8,}", text)
        assert not found, path
