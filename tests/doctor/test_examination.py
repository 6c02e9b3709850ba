"""Each finding appears where it is true, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.examination import ALL_RULES, examine, report_json
from dra_spawner.doctor.facts import Account, DoctorFacts, HttpAnswer, NeededRight, RightAnswer, ServiceSettings, Unseen
from dra_spawner.doctor.findings import Severity
from dra_spawner.dra.model.devices import Taint
from dra_spawner.dra.model.taint_rules import DeviceTaintRule
from dra_spawner.placeholders.planner.targets.published_shapes import RefusedChoice
from dra_spawner.simulator.model.claims import TrackedClaim
from tests.all_of_them import all_of_them
from tests.doctor.objects import (
    HUB_LABELS,
    NAMESPACE,
    PROXY_LABELS,
    SERVICE_LABELS,
    control_plane,
    device_class,
    ending,
    gpu,
    hub_deployment,
    kubelet,
    named,
    node,
    placeholder,
    pod,
    policy,
    reporting,
    resource_slice,
    service_deployment,
    sound,
    workload,
)

NVIDIA = "gpu.nvidia.com"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
PLACEMENT = RightAnswer(
    NeededRight(Account.SERVICE, "", "pods", "create", NAMESPACE), "system:serviceaccount:jupyterhub:s", False
)
PULLER = {"component": "continuous-image-puller"}
SCHEDULER = {"component": "user-scheduler"}
CLAIMS = [{"name": "gpu", "resourceClaimName": "c"}]
BLOCKS = policy("blocks", HUB_LABELS, egress=[{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}])
CNP, ANP = "CiliumNetworkPolicy", "AdminNetworkPolicy"
LABELLED = {names.HUB_NAMESPACE: NAMESPACE, names.POD_SECURITY: "baseline"}
READY = {"ready": True, "role": "leader", "reasons": []}


@dataclass(frozen=True)
class Case:
    """Facts with a finding, and similar facts without it."""

    code: str
    severity: str
    wrong: dict[str, Any]
    right: dict[str, Any]
    says: str
    fix: str = ""


def physical(name: str, **attributes: str) -> JsonObject:
    return gpu(name, attributes={key: {"string": value} for key, value in attributes.items()})


def claim_with(device: str, driver: str = NVIDIA, *users: str) -> TrackedClaim:
    results = [{"request": "gpu", "driver": driver, "pool": "node-a", "device": device}]
    consumers = [{"resource": "pods", "name": user, "uid": user} for user in users]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": consumers}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": driver}}]}}
    return TrackedClaim.from_json(named("ada", spec=spec, status=status))


def with_uid(obj: JsonObject) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "uid": obj["metadata"]["name"]}}


CASES = [
    Case("kubernetes-version", "error", {"kubernetes": (1, 33)}, {"kubernetes": (1, 34)}, "Kubernetes 1.33 is not supported", "Upgrade the cluster"),
    Case("kubernetes-version", "info", {"kubernetes": (1, 38)}, {"kubernetes": None}, "newer than 1.37"),
    Case("kubelet-version", "error", {"nodes": (kubelet("node-a", "v1.33.5+k3s1"),)}, {"nodes": (kubelet("node-a", "v1.34.0-rc.1"), kubelet("node-b", "v1.33.5"))}, "The kubelet of node-a is 1.33", "Upgrade the node"),
    Case("kubernetes-defect", "warning", {"kubernetes": (1, 35), "kubernetes_patch": 0}, {"kubernetes": (1, 35), "kubernetes_patch": 1}, "gives one device to two of them", "1.35.1 or later"),
    Case("kubernetes-defect", "info", {"kubernetes": (1, 37), "slices": tuple(resource_slice(f"node-{number}", NVIDIA, gpu()) for number in range(500))}, {"kubernetes": (1, 36)}, "500 nodes", "client-limits"),
    Case("resource-api", "error", {"versions": frozenset({"v1beta2"})}, {"versions": None}, "it serves only v1beta2", "--runtime-config"),
    Case("feature-gate", "error", {"gates": {"DynamicResourceAllocation": False}}, {"gates": {}}, "cannot be requested", "=true"),
    Case("feature-gate", "warning", {"gates": {"DRAConsumableCapacity": False}}, {"gates": {"DRAConsumableCapacity": True}}, "shared", "DRAConsumableCapacity=true"),
    Case("gate-setting", "warning", {"kubernetes": (1, 37), "gates": {"DRAFractionalCapacityRange": True}}, {"kubernetes": (1, 37), "gates": {"DRAFractionalCapacityRange": True, "DRAConsumableCapacity": True}, "settings": ServiceSettings(feature_gates={"DRAFractionalCapacityRange": True})}, "DRAFractionalCapacityRange of kube-apiserver is on", "DRAFractionalCapacityRange: true"),
    Case("chart-version", "error", {"deployments": (hub_deployment("jupyterhub-3.3.8"), service_deployment())}, {"deployments": (hub_deployment("jupyterhub-4.0.0"), service_deployment())}, "zero-to-jupyterhub 3.3 is not supported", "4.0"),
    Case("chart-version", "info", {"deployments": (hub_deployment(""), service_deployment())}, {"deployments": (hub_deployment("jupyterhub-0.0.1-set.by.chartpress"), service_deployment())}, "no version"),
    Case("hub-version", "error", {"hub": HttpAnswer("u", 200, {"version": "4.1.6"})}, {"hub": HttpAnswer("u", 200, {"version": "5.2.1"})}, "JupyterHub 4.1.6 is not supported", "hub's image"),
    Case("no-device-classes", "error", {"classes": ()}, {"classes": None}, "no DeviceClass", "docs/reference/drivers.md"),
    Case("no-devices", "warning", {"slices": ()}, {"slices": None}, "No driver publishes", "kubectl get pods"),
    Case("class-without-devices", "warning", {"classes": (device_class("gpu.amd.com"),)}, {"classes": (device_class("mine", "strange.example.com"),)}, "gpu.amd.com publishes no devices", "driver's pods"),
    Case("incomplete-pool", "warning", {"slices": (resource_slice("node-a", NVIDIA, gpu(), count=2),)}, {"slices": (resource_slice("node-a", NVIDIA, gpu()),)}, "1 of 2 slices", "the log of the pod of driver gpu.nvidia.com on node node-a"),
    Case("missing-devices", "error", {"claims": (claim_with("gpu-7"),)}, {"claims": (claim_with("gpu-0"), claim_with("eth1", "dra.net"))}, "gpu.nvidia.com/node-a/gpu-7 of claim jupyterhub/ada", "the pod of driver gpu.nvidia.com on node node-a"),
    Case("second-consumer", "error", {"claims": (claim_with("eth1", "dra.net", "a", "b"),)}, {"claims": (claim_with("gpu-0", NVIDIA, "a", "b"), claim_with("eth1", "dra.net", "a", "b")), "hub_namespace_pods": (with_uid(pod("a")), with_uid(pod("b", nodeName="n"))), }, "2 pods use claim jupyterhub/ada: a, b. The driver dra.net", "Stop all but the first"),
    Case("same-hardware-twice", "error", {"slices": (resource_slice("node-a", NVIDIA, physical("gpu-0", uuid="GPU-1"), physical("mig-0", uuid="MIG-1", parentUUID="GPU-1")),)}, {"slices": (resource_slice("node-a", NVIDIA, physical("mig-0", parentUUID="GPU-1", pciBusID="1"), physical("mig-1", parentUUID="GPU-1", pciBusID="1")), resource_slice("node-b", NVIDIA, physical("gpu-0", pciBusID="1")))}, "whole and as its parts (mig-0)", "divide"),
    Case("same-hardware-twice", "error", {"slices": (resource_slice("node-a", NVIDIA, physical("gpu-0", pciBusID="0000:3b:00.0")), resource_slice("node-a", "hami-core-gpu.project-hami.io", physical("hami-0", pciBusID="00000000:3B:00.0")))}, {"slices": (resource_slice("node-a", "dra.net", physical("eth0", pciAddress="0000:3b:00.0", ifName="eth0"), physical("eth1", pciAddress="0000:3b:00.0", ifName="eth1")),)}, "are the same hardware", "one driver"),
    Case("tainted-devices", "warning", {"slices": (resource_slice("node-a", NVIDIA, gpu()),), "rules": (DeviceTaintRule("upkeep", Taint("example.com/upkeep", effect="NoSchedule"), NVIDIA),)}, {"slices": (resource_slice("node-a", NVIDIA, gpu()),), "rules": (DeviceTaintRule("upkeep", Taint("example.com/upkeep", effect="NoSchedule"), "other.example.com"),)}, "DeviceTaintRule upkeep closes 1 device", "kubectl delete devicetaintrule upkeep"),
    Case("tainted-devices", "warning", {"slices": (resource_slice("node-a", NVIDIA, gpu(taints=[{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}])),)}, {"slices": (resource_slice("node-a", NVIDIA, gpu(taints=[{"key": "gpu.nvidia.com/unmonitored", "effect": "None"}])),)}, "gpu.nvidia.com/xid (NoSchedule)", "Repair"),
    Case("device-plugin-beside-driver", "error", {"nodes": (node("node-a", allocatable={"nvidia.com/gpu": "8"}),)}, {"nodes": (node("node-a", allocatable={"nvidia.com/gpu": "0"}), node("node-b", allocatable={"nvidia.com/gpu": "8"}))}, "two servers may be given one GPU", "Disable"),
    Case("node-without-driver", "warning", {"nodes": (node("node-b", labels={"nvidia.com/gpu.present": "true"}),)}, {"nodes": (node("node-b", labels={"nvidia.com/gpu.present": "false"}),)}, "1 node with the label", "spec.nodeName=node-b"),
    Case("stuck-pod", "warning", {"hub_namespace_pods": (ending("a", 1200), ending("b", 700))}, {"hub_namespace_pods": (ending("a", 300), ending("b", 1200, resourceClaims=[]))}, "2 pods with devices should have ended 20 minutes ago: a, b", "kubectl describe pod"),
    Case("driver-trouble", "warning", {"slices": (resource_slice("node-a", "gpu.intel.com", gpu(capacity={"memory": {"value": "0"}})),)}, {"slices": (resource_slice("node-a", "gpu.intel.com", gpu()),)}, "0 bytes of memory", "xpumd"),
    Case("driver-trouble", "info", {"slices": (resource_slice("node-a", NVIDIA, gpu(allowMultipleAllocations=True)),)}, {}, "enforces neither", "docs/reference/drivers.md"),
    Case("missing-right", "error", {"rights": (PLACEMENT,)}, {"rights": (replace(PLACEMENT, is_allowed=True),)}, "may not create pods in namespace jupyterhub", '{apiGroups: [""], resources: [pods], verbs: [create]}'),
    Case("not-seen", "info", {"unseen": (Unseen("The nodes", "this account may not"),)}, {"unseen": ()}, "The nodes could not be seen"),
    Case("base-url", "error", {"deployments": (hub_deployment(base_url="/jupyter/"), service_deployment())}, {"deployments": (hub_deployment(base_url="/jupyter"), service_deployment("/jupyter/"))}, "base URL is /jupyter/", "baseUrl: /jupyter/"),
    Case("hub-address", "error", {"deployments": (hub_deployment(), service_deployment(hub="other-hub"))}, {"deployments": (hub_deployment(), service_deployment(hub="hub.jupyterhub.svc"))}, "no Service of this name", "fullname"),
    Case("hub-unreachable", "error", {"hub": HttpAnswer("http://hub:8081/hub/api/", problem="refused")}, {"hub": None}, "does not answer: refused", "--hub-url"),
    Case("service-unreachable", "error", {"service": HttpAnswer("http://s/readyz", 404)}, {"service": HttpAnswer("http://s/readyz", 200, READY)}, "answers 404", "kubectl logs"),
    Case("service-not-ready", "warning", {"service": HttpAnswer("http://s/readyz", 503, {**READY, "ready": False, "reasons": ["No leader is known."]})}, {"service": None}, "No leader is known.", "page"),
    Case("service-missing", "info", {"deployments": (hub_deployment(),)}, {"deployments": None}, "no Deployment of the service", "helm install"),
    Case("service-missing", "error", {"services": (named("hub"),)}, {"services": None}, "no Service for the service's pods", "helm upgrade"),
    Case("no-leader", "error", {"lease": {}}, {"lease": None}, "No replica of the service leads", "kubectl logs"),
    Case("network-policy", "error", {"network_policies": (policy("hub", HUB_LABELS, egress=[{"to": [{"podSelector": {"matchLabels": PROXY_LABELS}}]}]),)}, {"network_policies": (policy("hub", HUB_LABELS, egress=[{"to": [{"podSelector": {"matchLabels": SERVICE_LABELS}}]}]),)}, "from the hub to the service", "helm get notes"),
    Case("network-policy", "warning", {"network_policies": (BLOCKS,), "has_cilium": True}, {"network_policies": (BLOCKS,)}, "With Cilium", "helm get notes"),
    Case("other-policies", "info", {"other_policies": {CNP: (named("p"),), ANP: (named("a"),)}}, {"other_policies": {CNP: None}}, "not evaluated: CiliumNetworkPolicy p, AdminNetworkPolicy a", "toEntities: [kube-apiserver]"),
    Case("clock-skew", "warning", {"clocks": {"hub": -8.0}, "is_in_cluster": True}, {"clocks": {"hub": 2.0}, "is_in_cluster": True}, "this machine is 8 s ahead of the clock of hub", "chrony"),
    Case("clock-skew", "error", {"clocks": {"hub": 30.0, "API server": -40.0}}, {"clocks": {}}, "hub is 70 s ahead", "chrony"),
    Case("clock-skew", "info", {"clocks": {"API server": 8.0, "hub": 8.0}}, {"clocks": {"API server": 8.0}, "is_in_cluster": True}, "this machine is 8 s behind the API server's"),
    Case("node-clock", "warning", {"nodes": (reporting("a", 17), reporting("b", -30))}, {"nodes": (reporting("a", 4), reporting("b", -14), reporting("c", 40, age=700))}, "b (30 s behind), a (17 s ahead)", "chrony"),
    Case("node-clock", "error", {"nodes": (reporting("a", 90),)}, {"nodes": (reporting("a", -60),)}, "a (90 s ahead)", "chrony"),
    Case("user-scheduler", "error", {"deployments": (hub_deployment(), service_deployment(), workload("user-scheduler", SCHEDULER, image="registry.k8s.io/kube-scheduler:v1.30.8"))}, {}, "user-scheduler (1.30) runs", "userScheduler: {enabled: false}"),
    Case("user-scheduler", "warning", {"deployments": (hub_deployment(), service_deployment(), workload("user-scheduler", SCHEDULER, image="r:5000/kube-scheduler:v1.35.7@sha256:0"))}, {}, "beside kube-scheduler", "userScheduler: {enabled: false}"),
    Case("two-schedulers", "warning", {"hub_namespace_pods": (pod("a", schedulerName="mine", resourceClaims=CLAIMS), pod("b", resourceClaims=CLAIMS))}, {"hub_namespace_pods": (pod("a", schedulerName="mine"), pod("b", resourceClaims=CLAIMS))}, "default-scheduler (pod b), mine (pod a)", "scheduler_name"),
    Case("client-limits", "warning", {"control_plane": (control_plane("kube-controller-manager"), control_plane("kube-scheduler", "--kube-api-qps=100", "--kube-api-burst=200"))}, {}, "kube-controller-manager may send 20 requests a second (burst 30)", "--kube-api-qps=75"),
    Case("limits-not-shown", "info", {"control_plane": ()}, {"control_plane": None}, "managed control planes"),
    Case("neighbour", "info", {"neighbours": frozenset({("kueue.x-k8s.io", "clusterqueues")})}, {}, "Kueue is installed", "docs/how-to/kueue.md"),
    Case("neighbour", "info", {"neighbours": frozenset({("scheduling.k8s.io", "podgroups")})}, {}, "PodGroups", ""),
    Case("puller-skips-nodes", "warning", {"nodes": (node("node-a", TAINT),), "daemon_sets": (workload("continuous-image-puller", PULLER),)}, {"nodes": (node("node-a", TAINT),), "daemon_sets": (workload("continuous-image-puller", PULLER, tolerations=({"key": "nvidia.com/gpu", "operator": "Exists"},)),)}, "nvidia.com/gpu=present:NoSchedule", "extraTolerations"),
    Case("two-placeholders", "warning", {"hub_namespace_pods": (pod("user-placeholder-0", {"component": "user-placeholder"}),)}, {"hub_namespace_pods": (pod("p", {"component": "user-placeholder", "app.kubernetes.io/managed-by": "dra-spawner"}),)}, "The chart's own placeholders", "userPlaceholder: {enabled: false}"),
    Case("placeholder-does-not-run", "error", {"hub_namespace_pods": (placeholder("p", "ErrImagePull", "not found."), placeholder("q", "ImagePullBackOff"))}, {"hub_namespace_pods": (placeholder("p", "ContainerCreating"),)}, "2 placeholders with image r.example.com/pause:1 do not run on node-a: none runs, so each server starts later. The kubelet says: ErrImagePull: not found.", "placeholder_image: …"),
    Case("placeholder-does-not-run", "warning", {"hub_namespace_pods": (placeholder("p", "CreateContainerConfigError"), placeholder("q"))}, {"hub_namespace_pods": (placeholder("q"),)}, "1 placeholder with image", "kubectl describe pod --namespace jupyterhub p"),
    Case("shapes-config-map", "error", {"shapes_config_maps": frozenset({"mine"})}, {"shapes_config_maps": None}, "in ConfigMap mine, and the service reads dra-spawner-shapes", "shapes_config_map: mine"),
    Case("namespace-labels", "warning", {"labels_of_namespaces": {"jupyterhub-ada": {}, "jupyterhub": {}}}, {"labels_of_namespaces": {"jupyterhub": {}, "another-hub": {}, "jupyterhub-ada": LABELLED}}, "1 namespaces have no label of a hub", "hub.jupyter.org/hub-namespace=jupyterhub pod-security.kubernetes.io/enforce=baseline"),
    Case("namespace-labels", "warning", {"labels_of_namespaces": {"of-eve": {names.HUB_NAMESPACE: NAMESPACE}}}, {"labels_of_namespaces": {"jupyterhub-b-ada": {names.HUB_NAMESPACE: "jupyterhub-b"}}}, "have no Pod Security Standard: of-eve", "kubectl label namespaces of-eve pod-security"),
    Case("user-namespaces", "warning", {"server_namespaces": frozenset({"jupyterhub-ada"})}, {"server_namespaces": frozenset({"another-hub"})}, "run in namespace jupyterhub-ada", "userNamespaces: true"),
    Case("choice-refused", "error", {"refused_choices": {"huge": RefusedChoice("profile huge.device_claims.gpu.count", "no node has 9")}}, {"refused_choices": {}}, "Servers of huge cannot start: no node has 9.", "Change this key"),
    Case("setting-without-effect", "warning", {"service_problems": ("Budgets name groups in which the hub has no user, so they limit nobody: maths.",)}, {"service_problems": ()}, "limit nobody: maths.", "turn the setting off"),
    Case("devices-not-packed", "warning", {"gates": {"DRAPrioritizedList": False}, "settings": ServiceSettings(packs_devices=True)}, {"gates": {"DRAPrioritizedList": True}, "settings": ServiceSettings(packs_devices=True)}, "the feature gate DRAPrioritizedList is off", "remove pack_devices"),
    Case("devices-not-packed", "warning", {"kubernetes": (1, 34), "settings": ServiceSettings(packs_devices=True)}, {"kubernetes": (1, 36), "settings": ServiceSettings(packs_devices=True)}, "looks at incomplete pools", "remove pack_devices"),
    Case("priority-class", "error", {"priority_classes": frozenset()}, {"priority_classes": None}, "placeholders does not exist", "priorityClass"),
]  # fmt: skip


def of(facts: DoctorFacts) -> list[tuple[str, str]]:
    return [(each.code, each.severity.value) for each in examine(facts)]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert of(sound()) == []


def test_nothing_is_found_where_nothing_is_seen() -> None:
    assert of(DoctorFacts(NAMESPACE)) == []


@all_of_them("case", CASES)
def test_a_finding_appears_only_where_its_cause_exists(case: Case) -> None:
    found = [each for each in examine(sound(**case.wrong)) if each.code == case.code]
    assert [each.severity for each in found] == [case.severity]
    assert case.says in found[0].sentence
    assert case.fix in found[0].fix
    assert bool(found[0].fix) == (case.severity != "info" or bool(case.fix))
    assert (case.code, case.severity) not in of(sound(**case.right))


def test_each_rule_and_severity_has_its_case() -> None:
    assert {(each.code, each.severity) for each in CASES} == {
        (rule.code, severity) for rule in ALL_RULES for severity in rule.severities
    }
    assert len({rule.code for rule in ALL_RULES}) == len(ALL_RULES)


def test_a_pool_is_no_node_where_no_slice_names_one() -> None:
    (found,) = [each for each in examine(sound(claims=(claim_with("gpu-7"),), slices=())) if "pool" in each.fix]
    assert found.fix.startswith("Look at the pod of driver gpu.nvidia.com that publishes pool node-a.")


def test_a_device_that_is_drained_by_the_service_is_opened_by_it() -> None:
    taint = Taint(names.DRAINED_DEVICE, effect="NoSchedule")
    rules = (DeviceTaintRule("dra-spawner-1", taint, NVIDIA, "node-a", "gpu-0"),)
    (found,) = examine(sound(slices=(resource_slice("node-a", NVIDIA, gpu()),), rules=rules))
    assert found.fix == "When servers may get it again: dra-spawner drain gpu.nvidia.com/node-a/gpu-0 --end"


def test_a_hub_that_is_another_program_is_reported() -> None:
    (found,) = examine(sound(hub=HttpAnswer("http://hub:8081/hub/api/", 200)))
    assert found.code == "hub-unreachable"
    assert "another program" in found.sentence


def test_the_base_url_is_named_where_the_hub_has_another() -> None:
    deployments = (hub_deployment(base_url="/jupyter/"), service_deployment("/jupyter/"))
    (found,) = examine(sound(deployments=deployments, hub=HttpAnswer("http://hub:8081/hub/api/", 404)))
    assert "--hub-url http://…/jupyter/" in found.fix


def test_an_api_url_that_does_not_follow_the_base_url() -> None:
    deployments = (hub_deployment(base_url="/j/"), service_deployment("/j/", path="/hub/api"))
    (found,) = examine(sound(deployments=deployments))
    assert (found.code, found.fix) == ("base-url", "JUPYTERHUB_API_URL must end in /j/hub/api.")


def test_a_lease_that_is_old() -> None:
    facts = sound(now=1798761700.0)
    (found,) = examine(facts)
    assert found.code == "no-leader"
    assert "for 100 s (limit 15 s)" in found.sentence
    assert of(replace(facts, clocks={"API server": -90.0}))[0][0] == "clock-skew"


def test_a_service_that_the_hub_starts_is_not_missed() -> None:
    without = {"deployments": (hub_deployment(),)}
    assert of(sound(**without, own_account=Account.SERVICE)) == []
    assert of(sound(**without, service=HttpAnswer("u", 200, READY))) == []


def test_beside_policies_of_other_kinds_nothing_is_said_to_be_closed() -> None:
    """They are not evaluated: one of them may open the way."""
    hubs = (policy("h", HUB_LABELS, egress=[]),)
    assert ("network-policy", "error") in of(sound(network_policies=hubs))
    assert of(sound(network_policies=hubs, other_policies={CNP: (named("p"),)})) == [("other-policies", "info")]
    assert of(sound(network_policies=hubs, other_policies={CNP: None})) == []


def test_the_age_of_a_lease_is_by_the_clock_of_the_api_server() -> None:
    """The leader's clock is 100 s behind."""
    lease = dict(sound().lease or {})
    lease["metadata"] = {**lease["metadata"], "managedFields": [{"time": "2027-01-01T00:01:40Z"}]}
    assert of(sound(now=1798761700.0, lease=lease)) == []


def test_a_service_that_knows_of_namespaces_and_one_without_placeholders() -> None:
    facts = sound(server_namespaces=frozenset({"jupyterhub-ada"}), settings=ServiceSettings(user_namespaces=True))
    assert of(facts) == []
    without = ServiceSettings(has_placeholders=False, priority_class="missing")
    assert of(sound(settings=without, shapes_config_maps=frozenset())) == []


def test_rights_of_one_resource_are_one_finding() -> None:
    lost = [replace(PLACEMENT, right=replace(PLACEMENT.right, verb=verb)) for verb in ("create", "delete", "patch")]
    (found,) = examine(sound(rights=tuple(lost)))
    assert "may not create, delete or patch pods" in found.sentence
    assert found.fix.endswith('{apiGroups: [""], resources: [pods], verbs: [create, delete, patch]}')


def test_the_report_for_programs_counts() -> None:
    facts = sound(kubernetes=(1, 38), classes=())
    report = report_json(facts, examine(facts))
    assert [report[each] for each in ("errors", "warnings", "infos", "kubernetes")] == [1, 0, 1, "1.38"]
    assert [each["code"] for each in report["findings"]] == ["kubernetes-version", "no-device-classes"]
    assert set(report) == {*(f"{each.value}s" for each in Severity), "namespace", "kubernetes", "findings"}
