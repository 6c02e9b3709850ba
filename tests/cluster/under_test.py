"""A test's ``cluster``: the same interface on the embedded cluster and on the real control plane."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.kubelet.container_runtime import ProcessRuntime
from dra_spawner.devcluster.kubelet.kubelet import Kubelet
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.taint_rules import PLURAL as TAINT_RULES
from dra_spawner.kube.taint_rules import served_rules_api
from dra_spawner.versions import KUBERNETES, MinorVersion, minor_version
from tests.cluster.fake_runtime import FakeRuntime
from tests.polling import PATIENCE_SECONDS, eventually

from .background import BackgroundLoop
from .control_plane import write_kubeconfig
from .fault_proxy import FaultProxy
from .harness_binary import chosen_release
from .object_paths import path_of
from .scheduler_words import in_common_words

T = TypeVar("T")

RESOURCE_API = "resource.k8s.io/v1"


@dataclass(kw_only=True, eq=False)
class ClusterUnderTest:
    """A namespace of its own in a cluster, with its paths, accounts and kubelet.

    The methods may be awaited in any event loop; a synchronous test calls ``cluster.run(cluster.method(…))``.
    """

    kind: str
    """``embedded`` or ``real``."""
    namespace: str
    """Of this test alone."""
    url: str
    """Of the API server."""
    admin: KubernetesApi
    """The API as an administrator, for the test's own event loop (asynchronous tests only)."""
    admin_kubeconfig: Path
    admin_token: str
    hub_kubeconfig: Path
    """Of an account that may do what the chart and this project's rules let a hub do; on the embedded cluster, which has
    no access control, of the administrator."""
    hub_token: str
    directory: Path
    """For the test's files."""
    loop: BackgroundLoop
    background_admin: KubernetesApi
    certificate_authority: Path | None = None
    """Of the API server's certificate; None if it speaks plain HTTP."""
    on_kubelet: Callable[[Kubelet], None] = lambda kubelet: None
    keeps_nodes: bool = False
    """Whether nodes and slices belong to others than this test, and stay after it."""
    fake_runtime: FakeRuntime | None = None
    kubelet: Kubelet | None = None

    @property
    def kubernetes(self) -> MinorVersion:
        """Its release of Kubernetes."""
        release = minor_version(chosen_release()) if self.kind == "real" else KUBERNETES.tested
        assert release is not None
        return release

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a method of this object from a synchronous test."""
        return self.loop.run(work)

    def path(self, plural: str, name: str | None = None, subresource: str | None = None) -> str:
        """Of core resources or resource claims in this test's namespace."""
        group = RESOURCE_API if plural.startswith("resourceclaim") else "v1"
        return resource_path(group, plural, self.namespace, name, subresource)

    def kubeconfig_with(self, token: str, name: str, server: str = "") -> Path:
        """A kubeconfig with another token, at the API server or at another address."""
        real = {"server": self.url, "certificate-authority": str(self.certificate_authority)}
        path = self.directory / f"{name}.kubeconfig"
        return write_kubeconfig(path, {"server": server} if server else real, token, self.namespace)

    def hub_kubeconfig_for(self, server: str) -> Path:
        """The hub's kubeconfig with another address of the API server, such as a `FaultProxy`'s."""
        return self._kubeconfig("hub", server, self.hub_token)

    def admin_kubeconfig_for(self, server: str) -> Path:
        """The administrator's, likewise."""
        return self._kubeconfig("admin", server, self.admin_token)

    def _kubeconfig(self, account: str, server: str, token: str) -> Path:
        return self.kubeconfig_with(token, f"{account}-at-{server.rpartition(':')[2]}", server)

    @property
    def users_labels(self) -> dict[str, str]:
        """Labels that a hub in this test's namespace gives the namespaces of its users."""
        return {names.HUB_NAMESPACE: self.namespace, names.POD_SECURITY: "baseline"}

    @contextlib.asynccontextmanager
    async def another_namespace(self, suffix: str, labels: dict[str, str] | None = None) -> AsyncIterator[str]:
        """A further namespace; that of a user of the hub in this one has the labels of `users_labels`."""
        path, name = resource_path("v1", "namespaces"), f"{self.namespace}-{suffix}"
        await self.admin.create(path, {"metadata": {"name": name, "labels": labels or {}}})
        try:
            yield name
        finally:
            await self.admin.delete(f"{path}/{name}", missing_ok=True)

    def fault_proxy(self) -> FaultProxy:
        """A proxy before the API server, to be entered with ``async with``; for `hub_kubeconfig_for`."""
        return FaultProxy(self.url, self.certificate_authority)

    # --- nodes and devices ------------------------------------------------------------------------------------

    async def start_kubelet(self, *, fake: bool = False, **options: Any) -> Kubelet:
        """Start the kubelet stand-in otherwise than `publish_nodes` would; before it.

        Parameters
        ----------
        fake
            Whether pods only pretend to run.
        options
            Of `Kubelet`.
        """
        assert self.kubelet is None, "this test's kubelet is running already"
        runtime = FakeRuntime() if fake else ProcessRuntime()
        self.fake_runtime = runtime if isinstance(runtime, FakeRuntime) else None

        async def start() -> Kubelet:
            directory = self.directory / "kubelet"
            kubelet = Kubelet(self.background_admin, runtime=runtime, **{"directory": directory, **options})
            self.on_kubelet(kubelet)
            await kubelet.start()
            return kubelet

        self.kubelet = await self._there(start())
        return self.kubelet

    async def stop_kubelet(self) -> None:
        """End all of the test's pods' processes; the objects stay."""
        if self.kubelet is not None:
            await self._there(self.kubelet.stop())
            self.kubelet = None

    async def publish_nodes(self, *nodes: JsonObject) -> None:
        """Register nodes and serve them; returns when pods can be scheduled there."""
        kubelet = self.kubelet or await self.start_kubelet()

        async def publish() -> None:
            for node in nodes:
                await kubelet.add_node(node)
            await kubelet.wait_schedulable(PATIENCE_SECONDS)

        await self._there(publish())

    async def pull_image(self, node: str, image: str) -> None:
        """Let a node have an image. The kubelet does it, as it writes the whole list of its images."""
        assert self.kubelet is not None
        await self._there(self.kubelet.add_image(node, image))

    async def remove_node(self, name: str) -> None:
        """Switch a node off."""
        assert self.kubelet is not None
        await self._there(self.kubelet.remove_node(name))

    async def publish(self, *objects: JsonObject) -> list[JsonObject]:
        """Create objects in order: nodes are registered and served, the others go into this test's namespace.

        Returns
        -------
        list
            The objects other than nodes, as the API server has them.
        """
        created = []
        nodes = [obj for obj in objects if obj["kind"] == "Node"]
        if nodes:
            await self.publish_nodes(*nodes)
        for obj in objects:
            if obj["kind"] != "Node":
                created.append(await self._there(self.background_admin.create(path_of(obj, self.namespace), obj)))
        return created

    # --- waiting ----------------------------------------------------------------------------------------------

    async def wait_for(
        self,
        path: str,
        condition: Callable[[JsonObject], bool] = bool,
        *,
        timeout_seconds: float = PATIENCE_SECONDS,
    ) -> JsonObject:
        """Wait until the object at `path` is there and fulfils `condition`; the object.

        Raises
        ------
        AssertionError
            If it did not in time; shows its last state.
        """

        async def wait() -> JsonObject:
            last: JsonObject = {}

            async def is_as_expected() -> bool:
                nonlocal last
                try:
                    last = await self.background_admin.get(path)
                except KubernetesError as error:
                    if not error.not_found:
                        raise
                    return False
                return condition(last)

            await eventually(
                is_as_expected, f"{path} is as expected", timeout_seconds, shows=lambda: last or "nothing there"
            )
            return last

        return await self._there(wait())

    async def wait_gone(self, path: str, *, timeout_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until there is nothing at `path`; for a collection, until it is empty."""
        last: JsonObject = {}

        async def is_gone() -> bool:
            nonlocal last
            try:
                last = await self.background_admin.get(path)
            except KubernetesError as error:
                if not error.not_found:
                    raise
                return True
            return last.get("items") == []

        await self._there(eventually(is_gone, f"{path} is gone", timeout_seconds, shows=lambda: last))

    async def wait_running(self, pod: str, *, timeout_seconds: float = PATIENCE_SECONDS) -> JsonObject:
        """Wait until a pod of this namespace runs and is ready; the pod."""

        def is_running(obj: JsonObject) -> bool:
            conditions = obj.get("status", {}).get("conditions") or []
            return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

        return await self.wait_for(self.path("pods", pod), is_running, timeout_seconds=timeout_seconds)

    async def events(self, name: str) -> list[JsonObject]:
        """The events about an object of this namespace."""
        selector = f"involvedObject.name={name}"
        answer = await self._there(self.background_admin.list(self.path("events"), field_selector=selector))
        items: list[JsonObject] = answer["items"]
        return items

    async def wait_event(
        self, name: str, reason: str, *, text: str = "", timeout_seconds: float = PATIENCE_SECONDS
    ) -> JsonObject:
        """Wait for an event about an object of this namespace, with `text` in its message."""
        found: list[JsonObject] = []

        def happened(answer: JsonObject) -> bool:
            found[:] = [
                event
                for event in answer["items"]
                if (event["involvedObject"]["name"], event["reason"]) == (name, reason)
                and any(text in each for each in (event["message"], in_common_words(event["message"])))
            ]
            return bool(found)

        await self.wait_for(self.path("events"), happened, timeout_seconds=timeout_seconds)
        return found[0]

    # --- the fixture's own --------------------------------------------------------------------------------------

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await self.loop.await_(work)

    async def clear(self) -> None:
        """Leave nothing that the next test could see."""

        async def clear() -> None:
            await self._clear_namespaces()
            if self.kubelet is not None:
                for name in self.kubelet.node_names:
                    await self.kubelet.remove_node(name)
                await self.kubelet.stop()
            kinds = [(RESOURCE_API, "deviceclasses")]
            if rules := await served_rules_api(self.background_admin):
                kinds.append((rules, TAINT_RULES))
            if not self.keeps_nodes:
                kinds = [(RESOURCE_API, "resourceslices"), *kinds, ("v1", "nodes")]
            for group, plural in kinds:
                await self.background_admin.delete(resource_path(group, plural), missing_ok=True)
            classes = await self.background_admin.list(resource_path("scheduling.k8s.io/v1", "priorityclasses"))
            for each in classes["items"]:
                name = each["metadata"]["name"]
                if not name.startswith("system-"):
                    await self.background_admin.delete(
                        resource_path("scheduling.k8s.io/v1", "priorityclasses", name=name)
                    )

        await self._there(clear())

    async def _clear_namespaces(self) -> None:
        """Delete pods first and at once; else a pending pod would be scheduled to the next test's nodes."""
        api = self.background_admin
        for each in (await api.list(resource_path("v1", "namespaces")))["items"]:
            name = each["metadata"]["name"]
            if not name.startswith(self.namespace):
                continue
            await api.delete(resource_path("v1", "namespaces", name=name), missing_ok=True)
            # It goes seconds later, and a Lease in it would be a service that leads.
            await api.delete(resource_path("coordination.k8s.io/v1", "leases", name))
            # A real kubelet ends containers, and unprepares claims, before it lets go of a pod.
            await api.delete(resource_path("v1", "pods", name), grace_period_seconds=1 if self.keeps_nodes else 0)
            await api.delete(resource_path(RESOURCE_API, "resourceclaims", name))
        # A claim that is still allocated would use devices of the next test's nodes.
        left: list[JsonObject] = []

        async def is_empty() -> bool:
            left[:] = [
                each
                for group, plural in (("v1", "pods"), (RESOURCE_API, "resourceclaims"))
                for each in (await api.list(resource_path(group, plural)))["items"]
                if each["metadata"]["namespace"].startswith(self.namespace)
            ]
            return not left

        await eventually(is_empty, "pods and claims of the test go", PATIENCE_SECONDS, shows=lambda: left)
