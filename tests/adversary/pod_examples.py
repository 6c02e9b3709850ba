"""Pods with all the fields that hub or service read."""

from __future__ import annotations

from dra_spawner import names
from dra_spawner.profiles.intel_gas import names as intel
from tests.adversary.example_parts import (
    NODE_SELECTOR,
    NODE_TERM,
    SELECTOR,
    STAMP,
    TOLERATION,
    Json,
    example_object,
    terminating,
)
from tests.placeholders.planner.objects import GPU, NAMESPACE, user_manifest


def user_pod() -> Json:
    """A user's pending pod with each kind of requirement, and with annotations of its hub and of Intel's scheduler."""
    term = {
        "labelSelector": SELECTOR,
        "topologyKey": "kubernetes.io/hostname",
        "namespaces": ["n"],
        "namespaceSelector": SELECTOR,
        "matchLabelKeys": ["a"],
        "mismatchLabelKeys": ["c"],
    }
    required, preferred = (
        f"{each}IgnoredDuringExecution" for each in ("requiredDuringScheduling", "preferredDuringScheduling")
    )
    among_pods = {required: [term], preferred: [{"weight": 1, "podAffinityTerm": term}]}
    after = {**term, "labelSelector": {"matchLabels": {names.PLACEHOLDER_NAME: "placeholder-1"}}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "z",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
        "matchLabelKeys": ["a"],
        "minDomains": 1,
        "nodeAffinityPolicy": "Honor",
        "nodeTaintsPolicy": "Honor",
    }
    port = {"hostPort": 80, "containerPort": 80, "hostIP": "10.0.0.1", "protocol": "TCP"}
    pod = user_manifest(
        "u",
        ("gpu",),
        tolerations=[TOLERATION],
        nodeSelector={"a": "b"},
        priority=5,
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "s", "resourceClaimName": "c"}],
        topologySpreadConstraints=[spread],
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        initContainers=[
            {
                "name": "i",
                "image": "i",
                "restartPolicy": "Always",
                "ports": [port],
                "resources": {
                    "requests": {"cpu": "1"},
                    "limits": {"cpu": "1"},
                    "claims": [{"name": "gpu", "request": "gpu"}],
                },
            }
        ],
        overhead={"cpu": "1m"},
        resources={"requests": {"cpu": "1"}},
        schedulerName="default-scheduler",
        runtimeClassName="r",
        preemptionPolicy="Never",
        priorityClassName="p",
        imagePullSecrets=[{"name": "registry"}],
        schedulingGates=[{"name": "example.com/g"}],
        affinity={
            "nodeAffinity": {required: NODE_SELECTOR, preferred: [{"weight": 1, "preference": NODE_TERM}]},
            "podAffinity": among_pods,
            "podAntiAffinity": {**among_pods, required: [term, after]},
        },
    )
    (container,) = pod["spec"]["containers"]
    container["ports"], container["restartPolicy"] = [port], "Always"
    container["command"], container["args"] = ["c", "--config=x"], ["a"]
    intel_amounts = {
        "gpu.intel.com/i915": "1",
        "gpu.intel.com/xe": "0",
        "gpu.intel.com/millicores": "100",
        "gpu.intel.com/memory.max": "1Gi",
        "gpu.intel.com/tiles": "1",
    }
    container["resources"]["requests"] |= {**intel_amounts, "a/b": "1"}
    container["resources"]["limits"] = {**intel_amounts, "a/b": "1"}
    found = example_object("Pod", "u", NAMESPACE)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "m",
        "lastTransitionTime": STAMP,
    }
    found["spec"] |= pod["spec"]
    found["metadata"]["labels"] |= {
        **pod["metadata"]["labels"],
        names.SHAPE: GPU.id,
        names.VLAN: "100",
        names.APPLICATION: "a",
    }
    found["metadata"]["annotations"] |= {
        names.START: "nonce",
        names.VLAN_OWNER: "user:ada",
        names.VLAN_LEASE: "nonce",
        names.DEFINITION: "{}",
        names.REASON: "because",
        intel.CARDS_ANNOTATION: "card0",
        intel.TILES_ANNOTATION: "card0:gt0",
        intel.TIME_ANNOTATION: "1",
        names.INTEL_GAS: "1",
    }
    found["status"] = {
        "phase": "Pending",
        "startTime": STAMP,
        "podIP": "10.0.0.1",
        "initContainerStatuses": [
            {"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}, "allocatedResourcesStatus": []}
        ],
        "containerStatuses": [
            {
                "name": "notebook",
                "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}},
                "allocatedResourcesStatus": [
                    {"name": "claim:gpu/main", "resources": [{"resourceID": "n0/gpu-0", "health": "Unhealthy"}]},
                    {
                        "name": "claim:gpu/gpu",
                        "resources": [{"resourceID": "x", "health": "Unhealthy", "message": "m"}],
                    },
                ],
            }
        ],
        "extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []},
        "nominatedNodeName": "n0",
        "conditions": [condition],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}],
        "nodeAllocatableResourceClaimStatuses": [{"resources": {"cpu": "1"}}],
    }
    return found


def pods() -> list[Json]:
    pending = user_pod()
    placed = user_pod()
    placed["metadata"]["name"] = "placed"
    placed["spec"] |= {"nodeName": "n0", "hostNetwork": True, "schedulingGroup": {"podGroupName": "g"}}
    placed["status"]["phase"] = "Running"
    return [pending, placed, terminating(pending)]
