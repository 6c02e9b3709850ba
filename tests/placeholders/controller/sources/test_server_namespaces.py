"""Namespaces of users' servers: which count, and that a stranger's pods make no demand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dra_spawner import names
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.placeholders.controller.sources.server_namespaces import ServerNamespaces
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.kube.failing_api import FailingApi, Failure
from tests.placeholders.controller.objects import Json, user_pod
from tests.service.unstarted_watch import UnstartedWatch, unstarted_controller
from tests.virtual_loop import pass_time, run_in_virtual_time

SETTINGS = ControllerSettings("hub", placeholders=PlaceholderSettings("hub"), user_namespaces=True)


def a_namespace(name: str, hub: str = "") -> Json:
    return {"metadata": {"name": name, "labels": {names.HUB_NAMESPACE: hub} if hub else {}}}


def pod(name: str, namespace: str, node: str = "") -> Json:
    found = user_pod(name, {})
    found["metadata"] |= {"namespace": namespace, "uid": f"{namespace}/{name}", "resourceVersion": "1"}
    return {**found, "spec": {**found["spec"], "nodeName": node}}


def test_servers_count_in_namespaces_with_the_hubs_label() -> None:
    watch = UnstartedWatch()
    controller = unstarted_controller(SETTINGS, watch)
    launches: list[str] = []
    controller.launch_waits.on_launch(lambda bound: launches.append(bound.pod.namespace))
    followed = controller.server_namespaces
    everybody = ("hub-ada", "hub-eve", "stranger")

    def put(node: str = "") -> None:
        for namespace in everybody:
            watch.put(Kind.POD, pod("jupyter", namespace, node))

    def users() -> set[str]:
        return {key.namespace for key in controller.view().users}

    put()
    # A hub of an older version labels nothing: an upgrade of the service loses no server.
    for each in ("hub", *everybody):
        followed.put(a_namespace(each))
    assert users() == {*everybody}
    followed.put(a_namespace("hub-ada", "hub"))
    followed.put(a_namespace("hub-eve", "hub-eve"))
    assert users() == {"hub-ada"}
    view = controller.view()
    assert [each.namespace for each in view.pending_users] == ["hub-ada"]
    assert {each.namespace for each in view.pending_servers_of_others} == {"hub-eve", "stranger"}
    put("node-a")
    assert launches == ["hub-ada"], "no launches of strangers in forecasts"
    followed.put(a_namespace("hub-bob", "hub"))
    followed.remove(ObjectKey("", "hub-ada"))
    assert users() == set()


def test_with_one_namespace_labels_of_namespaces_do_not_matter() -> None:
    controller = unstarted_controller(ControllerSettings("hub", placeholders=PlaceholderSettings("hub")))
    controller.server_namespaces.put(a_namespace("hub-ada", "hub"))
    assert controller.server_namespaces.present.servers == {"hub"}


def test_without_the_right_to_list_namespaces_the_status_says_that_all_count() -> None:
    async def scene() -> None:
        api = FailingApi(Store(lambda: datetime(2026, 3, 2, 9, tzinfo=UTC)))
        api.failures["namespaces"].extend([Failure.FORBIDDEN] * 9)
        controller = unstarted_controller(replace(SETTINGS, replicas={"gpu": ReplicaRange(1, 1)}))
        controller.server_namespaces = ServerNamespaces(api, controller.settings)
        async with controller.server_namespaces:
            (problem,) = (each for each in controller.problems() if each.startswith("Servers: "))
            assert "servers in all namespaces count" in problem
            assert "resources: [namespaces], verbs: [list, watch]" in problem
            await pass_time(300)
            assert not [each for each in controller.problems() if each.startswith("Servers: ")]

    run_in_virtual_time(scene())
