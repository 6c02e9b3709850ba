"""A hub of zero-to-jupyterhub with this project's chart beside it, as `helm install` makes both from the documented values."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import resource_path
from tests.chart.applied import delete_object
from tests.chart.browser_session import BrowserSession
from tests.chart.rendering import IMAGE, hub_values, of_kind, rendered
from tests.chart.whole_cluster import SERVER_IMAGE, WholeCluster
from tests.chart.z2jh import merged, z2jh_objects
from tests.integration.hub_process import QUICK_SERVER
from tests.polling import eventually

SLICE: Final[JsonObject] = {
    "display_name": "GPU slice, 10 GiB",
    "slug": "gpu-slice",
    "default": True,
    "kubespawner_override": {
        "device_claims": {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "10Gi"}}}
    },
}
#: Without placeholders.
SMALL_SLICE: Final[JsonObject] = {
    "display_name": "GPU slice, 5 GiB",
    "slug": "small",
    "kubespawner_override": {
        "device_claims": {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "5Gi"}}}
    },
}
#: Without devices.
PLAIN: Final[JsonObject] = {"display_name": "CPU only", "slug": "plain"}
#: Parts that a test cluster lacks: volumes, programs in images, pullers of images.
_HERE: Final[JsonObject] = {
    "cull": {"enabled": False},
    "prePuller": {"hook": {"enabled": False}, "continuous": {"enabled": False}},
    "hub": {
        "db": {"type": "sqlite-memory"},
        "config": {"Authenticator": {"allow_all": True, "admin_users": ["admin"]}},
        # This machine may be busy with other things.
        "extraConfig": {
            "99-test": "c.DRASpawner.placement_wait_seconds = 20\nc.DRASpawner.k8s_api_request_timeout = 20\n"
        },
    },
    "singleuser": {
        "image": {"name": SERVER_IMAGE.partition(":")[0], "tag": SERVER_IMAGE.partition(":")[2]},
        "cmd": [sys.executable, str(QUICK_SERVER)],
        "storage": {"type": "none"},
        "cloudMetadata": {"blockWithIptables": False},
        "cpu": {"guarantee": 0.05},
        "memory": {"guarantee": "64M"},
        "profileList": [SLICE, SMALL_SLICE],
    },
}
#: An upgrade without this project; the scheduler is a program of another image.
_WITHOUT_OURS: Final[JsonObject] = {
    "hub": {"extraConfig": {"99-test": ""}},
    "scheduling": {"userScheduler": {"enabled": False}, "userPlaceholder": {"enabled": False}},
    "singleuser": {"profileList": [PLAIN]},
}
#: Values of this project's chart that every hub has.
CHART_VALUES: Final[JsonObject] = {
    **IMAGE,
    "placeholders": {"enabled": True, "targets": {"gpu-slice": {"min": 1, "max": 2}}},
    # Short, as a test waits for its end; not so short that a busy machine costs a replica its Lease.
    "service": {"config": {"lease_seconds": 15}},
}


@dataclass
class HubRelease:
    """One hub.

    Attributes
    ----------
    release
        Of this project's chart.
    hub_release
        Of zero-to-jupyterhub.
    version
        Of zero-to-jupyterhub's chart.
    values, hub_values
        Values of both charts besides those that every test has.
    """

    cluster: WholeCluster
    namespace: str
    release: str = "dra-spawner"
    hub_release: str = "jupyterhub"
    version: str = "main"
    values: JsonObject = field(default_factory=dict)
    hub_values: JsonObject = field(default_factory=dict)
    objects: list[JsonObject] = field(default_factory=list)
    base_url: str = "/"

    async def install(self) -> None:
        """Install both charts; the namespace is there."""
        values = merged(CHART_VALUES, self.values)
        printed = hub_values(values, release=self.release, namespace=self.namespace)
        theirs = merged(_HERE, printed, self.hub_values)
        self.objects = rendered(values, release=self.release, namespace=self.namespace)
        self.base_url = theirs["hub"].get("baseUrl", "/")
        await self.cluster.install(self.objects, self.namespace)
        hub = z2jh_objects(self.version, theirs, release=self.hub_release, namespace=self.namespace)
        await self.cluster.install(hub, self.namespace)

    async def remove_from_hub(self) -> None:
        """Upgrade zero-to-jupyterhub without this project's values."""
        (before,) = await self._pods(component="hub", release=self.hub_release)
        theirs = merged(_HERE, self.hub_values, _WITHOUT_OURS)
        objects = z2jh_objects(self.version, theirs, release=self.hub_release, namespace=self.namespace)
        await self.cluster.upgrade(objects, self.namespace)

        async def is_restarted() -> bool:
            pods = await self._pods(component="hub", release=self.hub_release)
            return any(
                each["type"] == "Ready" and each["status"] == "True"
                for pod in pods
                if pod["metadata"]["uid"] != before["metadata"]["uid"]
                for each in pod["status"].get("conditions", ())
            )

        await eventually(is_restarted, "the hub runs again", shows=self.cluster.logs)
        await eventually(self.lets_log_in, "the hub answers again", shows=self.cluster.logs)

    async def lets_log_in(self) -> bool:
        """Whether the proxy has a route to a hub that answers."""
        # No probe of the pod is made: it is ready as soon as its program has begun.
        with contextlib.suppress(aiohttp.ClientConnectionError):
            async with aiohttp.ClientSession() as session, session.get(f"{await self.url()}/hub/login") as answer:
                return answer.status == 200
        return False

    async def uninstall_chart(self) -> None:
        """Delete this project's objects as `helm uninstall` does, and wait for the end of the service."""
        for obj in self.objects:
            assert obj["metadata"].get("annotations", {}).get("helm.sh/resource-policy") != "keep"
            await delete_object(self.cluster.api, obj)
        labels = of_kind(self.objects, "Deployment")["spec"]["selector"]["matchLabels"]

        async def has_ended() -> bool:
            return not await self._pods(**labels)

        await eventually(has_ended, "the service has ended", shows=self.cluster.logs)

    async def url(self) -> str:
        """Of the proxy, once the hub answers there; with the base URL."""

        async def find() -> str:
            pods = await self._pods(component="proxy", release=self.hub_release)
            address = pods[0].get("status", {}).get("podIP") if pods else None
            return f"http://{address}:8000{self.base_url.rstrip('/')}" if address else ""

        return await eventually(find, "the proxy has an address")

    async def browser(self, user: str) -> BrowserSession:
        """Of a user who is not logged in yet."""
        return BrowserSession(await self.url(), user)

    @property
    def service_name(self) -> str:
        """In the hub's addresses."""
        return str(self.values.get("hub", {}).get("serviceName", names.HUB_SERVICE))

    @property
    def wanted_placeholders(self) -> int:
        """Number of placeholders by its targets, while nobody asks for more."""
        return sum(each["min"] for each in merged(CHART_VALUES, self.values)["placeholders"]["targets"].values())

    async def placeholders(self) -> list[JsonObject]:
        """Pods of its warm placeholders."""
        lease = of_kind(self.objects, "Deployment")["metadata"]["name"]
        pods = await self._pods(**{names.COMPONENT: names.PLACEHOLDER, names.INSTALLATION: lease})
        return [each for each in pods if each["status"].get("phase") == "Running" and not _ends(each)]

    async def answers(self) -> bool:
        """Whether the Service of this project finds a replica that is ready."""
        selector = of_kind(self.objects, "Service", "dra-spawner")["spec"]["selector"]
        conditions = [each for pod in await self._pods(**selector) for each in pod["status"].get("conditions", ())]
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    async def server_of(self, user: str) -> JsonObject | None:
        """A user's pod, in the hub's namespace or in the user's."""
        labels = {names.COMPONENT: names.USER_SERVER, names.USERNAME: user, "release": self.hub_release}
        for namespace in (self.namespace, f"{self.namespace}-{user}"):
            if pods := await self._pods(namespace, **labels):
                return pods[0]
        return None

    async def remove(self) -> None:
        """End the pods of both charts, and give back the devices of placeholders."""
        path = resource_path("v1", "namespaces", name=self.namespace)
        await self.cluster.api.delete(path)
        for obj in self.objects:
            if "namespace" not in obj["metadata"]:
                await delete_object(self.cluster.api, obj)
        await eventually(self._is_empty, "the namespace is empty")

    async def _is_empty(self) -> bool:
        return not await self._pods() and not await self.cluster.items("resourceclaims", self.namespace)

    async def _pods(self, namespace: str = "", **labels: str) -> list[JsonObject]:
        wanted = ",".join(f"{key}={value}" for key, value in labels.items())
        path = resource_path("v1", "pods", namespace or self.namespace)
        found = await self.cluster.api.list(path, label_selector=wanted)
        items: list[JsonObject] = found["items"]
        return items

    def accounts(self) -> Iterator[str]:
        """Hub's and service's, as ``namespace:name``."""
        for obj in self.objects:
            for subject in obj.get("subjects", ()):
                yield f"{subject['namespace']}:{subject['name']}"


def _ends(pod: JsonObject) -> bool:
    return "deletionTimestamp" in pod["metadata"]
