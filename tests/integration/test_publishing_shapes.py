"""The shapes that the hub writes for the service, and its message where it may not."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from dra_spawner import names
from dra_spawner.hub import settings_spawner
from dra_spawner.kube.client.api_errors import KubernetesError
from dra_spawner.placeholders.planner.targets.published_shapes import read_config_map
from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub
from dra_spawner.spawner.hub_start import shape_publication
from dra_spawner.spawner.hub_start.sample_users import SampleSpawners
from dra_spawner.spawner.hub_start.shape_publication import ShapePublication, published_shapes
from tests.cluster.fault_proxy import Fault
from tests.integration.devices import classes, node_with, shareable
from tests.polling import eventually
from tests.running import running
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

CONFIG_MAPS = "configmaps"


@pytest.fixture
def cluster(embedded_cluster):
    """Rights that are missing are injected, so the control plane has no part in it."""
    return embedded_cluster


@pytest.fixture
async def hub(cluster):
    """A hub's side whose requests go through a proxy, and the hub of its spawners."""
    async with cluster.fault_proxy() as proxy:
        kubeconfig = cluster.hub_kubeconfig_for(proxy.url)
        with kubernetes_of(kubeconfig):
            side = HubSide(kubeconfig, cluster.namespace)
            side.spawner_config.profile_list = [profile("gpu", "10Gi")]
            hub = SimpleNamespace(base_url="/", config=side.config, spawner_class=DRASpawner)
            yield SimpleNamespace(
                side=side,
                proxy=proxy,
                new_spawner=SampleSpawners(side.settings).new,
                publication=lambda: ShapePublication(settings_spawner(hub), SampleSpawners(side.settings).new),
                path=cluster.path(CONFIG_MAPS),
                log=settings_spawner(hub).log,
            )
            await end_hub_side()


def profile(slug, memory, **more):
    claims = {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": memory}}}
    return {"display_name": slug, "slug": slug, "kubespawner_override": {"device_claims": claims}, **more}


@pytest.mark.promise("The hub publishes what its choices need, and writes only changes.")
async def test_shapes_are_written_only_if_they_have_changed(cluster, hub):
    publication = hub.publication()
    first = await published_shapes(hub.new_spawner)
    assert await publication.publish(first)
    assert not await publication.publish(await published_shapes(hub.new_spawner))
    assert [f"{each.verb} {each.name}" for each in hub.proxy.requests if each.resource == CONFIG_MAPS] == [
        f"get {names.SHAPES_CONFIG_MAP}",
        f"create {names.SHAPES_CONFIG_MAP}",
        f"get {names.SHAPES_CONFIG_MAP}",
    ]
    hub.side.spawner_config.profile_list = [profile("gpu", "20Gi")]
    second = await published_shapes(hub.new_spawner)
    assert await publication.publish(second)
    written = await cluster.admin.get(cluster.path(CONFIG_MAPS, names.SHAPES_CONFIG_MAP))
    assert read_config_map(written) == second != first
    assert written["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "dra-spawner"}


async def test_two_hubs_that_share_a_name_are_reported_and_do_not_take_turns(cluster, hub, caplog):
    ours = hub.publication()
    first = await published_shapes(hub.new_spawner)
    assert await ours.publish(first)
    hub.side.spawner_config.profile_list = [profile("gpu", "20Gi")]
    theirs = hub.publication()
    second = await published_shapes(hub.new_spawner)
    # A hub that starts adopts the published shapes: as a rule, it published them itself.
    assert await theirs.publish(second)
    path = cluster.path(CONFIG_MAPS, names.SHAPES_CONFIG_MAP)
    assert read_config_map(await cluster.admin.get(path)) == second
    hub.side.spawner_config.profile_list = [profile("gpu", "10Gi")]
    hub.log.addHandler(caplog.handler)
    async with running(ours.run()):
        await eventually(
            lambda: [each for each in caplog.records if "another hub writes" in each.getMessage()], "the hub warns"
        )
    hub.log.removeHandler(caplog.handler)
    (message,) = {each.getMessage() for each in caplog.records if "another hub writes" in each.getMessage()}
    assert f"ConfigMap {names.SHAPES_CONFIG_MAP}, too" in message
    assert "c.DRASpawner.shapes_config_map" in message
    with pytest.raises(shape_publication.AnotherHub):
        await ours.publish(first)
    assert read_config_map(await cluster.admin.get(path)) == second
    # It goes on: unchanged shapes are not written, changed shapes are.
    assert not await theirs.publish(second)
    assert await theirs.publish(first)
    # And as soon as both agree, or nothing is there, there is no trouble.
    assert not await ours.publish(first)
    await cluster.admin.delete(path)
    assert await ours.publish(second)


async def test_another_name_can_be_given(cluster, hub):
    """For which the hub needs the right, too."""
    hub.side.spawner_config.shapes_config_map = "shapes-of-ada"
    publication = hub.publication()
    hub.proxy.fail(Fault.answer(403, "Forbidden", "no"), verb="get", resource=CONFIG_MAPS)
    with pytest.raises(KubernetesError) as refused:
        await publication.publish(await published_shapes(hub.new_spawner))
    assert hub.proxy.requests[-1].name == "shapes-of-ada"
    rule = 'apiGroups: [""], resources: [configmaps], resourceNames: [shapes-of-ada], verbs: [get]'
    assert rule in shape_publication.publication_problem(refused.value, "shapes-of-ada")


async def test_choices_that_devices_give(cluster, hub):
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    sizes = {"memory": {"display_name": "Memory", "choices": "from_policy"}}
    hub.side.spawner_config.profile_list = [profile("gpu", "10Gi", profile_options=sizes)]
    found = await published_shapes(hub.new_spawner)
    assert set(found.shapes) == {"gpu", *(f"gpu/memory={size}Gi" for size in (5, 15, 20, 25, 30, 35, 40))}
    assert found.skipped == {}


async def test_choices_that_devices_give_appear_soon_after_devices_could_not_be_read(cluster, hub):
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    sizes = {"memory": {"display_name": "Memory", "choices": "from_policy"}}
    hub.side.spawner_config.profile_list = [profile("gpu", "10Gi", profile_options=sizes)]
    hub.proxy.fail(Fault.answer(500, "InternalError"), verb="list", resource="resourceslices", times=None)
    path = cluster.path(CONFIG_MAPS, names.SHAPES_CONFIG_MAP)
    async with running(hub.publication().run()):
        first = read_config_map(await cluster.wait_for(path))
        assert "gpu/memory=40Gi" not in first.shapes
        hub.proxy.heal()
        await cluster.wait_for(path, lambda found: "gpu/memory=40Gi" in read_config_map(found).shapes)


@pytest.mark.parametrize("status", [500, 404])
async def test_a_hub_that_begins_without_devices_leaves_what_an_earlier_one_published(cluster, hub, status):
    """The service deletes the placeholders of choices that are missing."""
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    sizes = {"memory": {"display_name": "Memory", "choices": "from_policy"}}
    hub.side.spawner_config.profile_list = [profile("gpu", "10Gi", profile_options=sizes)]
    complete = await published_shapes(hub.new_spawner)
    await hub.publication().publish(complete)
    forget_hub()
    hub.proxy.fail(Fault.answer(status), verb="list", resource="resourceslices", times=None)
    path = cluster.path(CONFIG_MAPS, names.SHAPES_CONFIG_MAP)
    async with running(hub.publication().run()):
        await eventually(lambda: hub.proxy.count("get", CONFIG_MAPS) > 1, "it has read what is published")
        assert set(read_config_map(await cluster.admin.get(path)).shapes) == set(complete.shapes)
        hub.side.spawner_config.profile_list = [profile("other", "10Gi", profile_options=sizes)]
        hub.proxy.heal()
        await cluster.wait_for(path, lambda found: "other/memory=40Gi" in read_config_map(found).shapes)


@pytest.mark.parametrize(
    ("verb", "rule"),
    [
        ("get", f'apiGroups: [""], resources: [configmaps], resourceNames: [{names.SHAPES_CONFIG_MAP}], verbs: [get]'),
        ("create", 'apiGroups: [""], resources: [configmaps], verbs: [create]'),
        (
            "update",
            f'apiGroups: [""], resources: [configmaps], resourceNames: [{names.SHAPES_CONFIG_MAP}], verbs: [update]',
        ),
    ],
)
async def test_a_right_that_is_missing_is_named_once(cluster, hub, monkeypatch, caplog, verb, rule):
    monkeypatch.setattr(shape_publication, "AGAIN_SECONDS", 0.1)
    publication = hub.publication()
    if verb == "update":
        await publication.publish(await published_shapes(hub.new_spawner))
        hub.side.spawner_config.profile_list = [profile("gpu", "20Gi")]
    hub.proxy.fail(Fault.answer(403, "Forbidden", "no"), verb=verb, resource=CONFIG_MAPS, times=None)
    caplog.set_level(logging.WARNING)
    # The hub's own logger does not propagate.
    hub.log.addHandler(caplog.handler)
    async with running(publication.run()):
        before = hub.proxy.count(verb, CONFIG_MAPS)
        await eventually(lambda: hub.proxy.count(verb, CONFIG_MAPS) >= before + 3, "the hub tries three times")
        said = {record.getMessage() for record in caplog.records if "are not published" in record.getMessage()}
        (sentence,) = said
        assert f"the hub's Role lacks the rule {rule} (helm-values/rbac.yaml)" in sentence
        times = [record for record in caplog.records if record.getMessage() == sentence]
        assert len({id(record) for record in times}) == 1
        hub.proxy.heal()
        await cluster.wait_for(cluster.path(CONFIG_MAPS, names.SHAPES_CONFIG_MAP))
    hub.log.removeHandler(caplog.handler)
