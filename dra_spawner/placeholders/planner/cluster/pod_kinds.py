"""Which pods are users' servers, which of these are demand, and of which hub a placeholder is."""

from __future__ import annotations

from dra_spawner import names
from dra_spawner.simulator.model.pods import Pod


def hub_of(pod: Pod) -> str:
    """Name of the hub whose service made a placeholder: namespace and installation."""
    return "/".join(filter(None, (pod.namespace, pod.labels.get(names.INSTALLATION, ""))))


def is_server(pod: Pod) -> bool:
    """Whether a pod is a user's server, of any hub."""
    return pod.labels.get(names.COMPONENT) == names.USER_SERVER and not pod.is_finished


def is_demand(pod: Pod) -> bool:
    """Whether a server is for a user who came, and not for a look by ``dra-spawner try``."""
    return names.TRIAL not in pod.labels
