"""Prometheus and Grafana: metrics, rules and the dashboard fit together, by promtool and a service at work."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from dra_spawner.service.http.requests.page_frame import PAGES
from dra_spawner.spawner.spawn_refusal import FAILED_STARTS
from dra_spawner.spawner.steps.second_pod import PODS_RECREATED
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.promtool import RULES, promtool
from tests.service.replica import replica, server_objects, set_up

ROOT = Path(__file__).parents[1]
DASHBOARD = json.loads((ROOT / "helm-values" / "chart" / "files" / "dashboard.json").read_text())
DOCUMENTS = "".join(
    (ROOT / "docs" / name).read_text()
    for name in ("reference/service.md", "reference/placeholder-decisions.md", "explanation/how-a-start-works.md")
)
OF_THE_HUB = {"dra_spawner_pods_recreated_total", "dra_spawner_failed_starts_total"}
RUNBOOKS = "docs/how-to/paged-at-night.md"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}

needs_promtool = pytest.mark.needs_program("promtool")


def runbook_of(alert: str) -> str:
    return f"{RUNBOOKS}#{alert.lower()}"


def alerts() -> dict[str, Any]:
    rules = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in rules for rule in group["rules"] if "alert" in rule}


def panel_queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def queries() -> list[str]:
    rules = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    return [*rules, *panel_queries()]


@needs_promtool
def test_rules_alert_when_they_should_and_only_then(tmp_path: Path) -> None:
    promtool("check", "rules", str(RULES))
    cases = yaml.safe_load((ROOT / "tests" / "alert_cases.yaml").read_text().replace("RULES", str(RULES)))
    for case in cases["tests"]:
        for each in case.get("alert_rule_test", ()):
            for expected in each["exp_alerts"]:
                expected["exp_annotations"]["runbook_url"] = runbook_of(each["alertname"])
    file = tmp_path / "cases.yaml"
    file.write_text(yaml.safe_dump(cases))
    promtool("test", "rules", str(file))


@needs_promtool
def test_queries_of_the_dashboard_can_be_read(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": expr.replace("$__rate_interval", "5m")}
        for number, expr in enumerate(panel_queries())
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", str(file))


def test_each_alert_has_a_case_and_is_documented() -> None:
    cases = (ROOT / "tests" / "alert_cases.yaml").read_text()
    document = (ROOT / "docs" / "how-to" / "monitoring.md").read_text()
    sections = dict(each.split("\n", 1) for each in (ROOT / RUNBOOKS).read_text().split("\n## ")[1:])
    for name, rule in alerts().items():
        assert f"alertname: {name}" in cases, name
        assert f"| [`{name}`](paged-at-night.md#{name.lower()}) |" in document, name
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == runbook_of(name)
        for part in ("**Users feel**", "**Look at**", "**Do**"):
            assert part in sections[name], (name, part)
    assert [each for each in sections if each.startswith("DRASpawner")] == list(alerts()), "in the order of the rules"


def test_panels_have_descriptions_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert taken.isdisjoint(cells), panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith(".")
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    pages = [each["url"].removeprefix("${pages}/") for each in DASHBOARD["links"]]
    assert set(pages) <= set(PAGES), "each link leads to a page of the service"


async def published(cluster: ClusterUnderTest, tmp_path: Path) -> str:
    """Metrics of a service that leads, with a calendar, a placeholder and a pending server."""
    calendar = tmp_path / "labs.ics"
    calendar.write_text("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nEND:VCALENDAR\r\n")
    gpu = shape(WHOLE)
    await set_up(cluster, {"gpu-whole": gpu}, *node("node-a", whole("gpu-0")))
    calendars = {"labs": str(calendar)}
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}, calendars=calendars) as service:
        await service.until_warm(gpu, 1)
        await cluster.publish(*server_objects("ada", gpu, cpu="1000"))
        await service.until(lambda: bool(service.controller.view().pending_users), "the server is seen")
        (source,) = service.controller.scale_ahead.calendars.sources
        await service.until(lambda: source.read_at is not None, "the calendar is read")
        return await service.get("metrics")


async def test_metrics_are_sound_documented_and_all_that_queries_ask_for(
    embedded_cluster: ClusterUnderTest, tmp_path: Path
) -> None:
    text = await published(embedded_cluster, tmp_path)
    if shutil.which("promtool"):
        promtool("check", "metrics", text=text)
    families = [
        each for each in text_string_to_metric_families(text) if re.match(r"dra_spawner_(?!.*_created$)", each.name)
    ]
    known = {each.name + suffix for each in families for suffix in SUFFIXES.get(each.type, ("",))} | OF_THE_HUB
    assert {each.name + "_total" for own in (PODS_RECREATED, FAILED_STARTS) for each in own.collect()} == OF_THE_HUB
    asked = {name for query in queries() for name in re.findall(r"(?<![\w:])dra_spawner_\w+(?!:)", query)}
    assert asked - known == set()
    documented = set(re.findall(r"dra_spawner_\w+", DOCUMENTS))
    assert {each.name + ("_total" if each.type == "counter" else "") for each in families} - documented == set()
    assert 'dra_spawner_pending_servers{profile="gpu-whole"} 1.0' in text
    assert re.search(r"^dra_spawner_longest_pending_server_seconds \d", text, re.M)
    assert re.search(r'^dra_spawner_calendar_age_seconds{calendar="labs"} \d', text, re.M)
    assert 'dra_spawner_calendar_entries{verdict="no"} 0.0' in text
    assert "dra_spawner_pool_hit_target_ratio 0.99" in text
    assert 'dra_spawner_choice_starts_now{profile="gpu-whole"} 1.0' in text
    assert 'dra_spawner_nodes_with_devices{driver="gpu.example.com"} 1.0' in text
