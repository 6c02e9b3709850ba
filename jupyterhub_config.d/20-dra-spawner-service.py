"""The dra-spawner service beside a JupyterHub without Helm, started and watched by the hub.

Load it in ``jupyterhub_config.py`` after ``10-dra-spawner.py``, and after the lines that set the hub's own services and
roles. It adds to them; a service or a role of the same name that is there stays as it is::

    load_subconfig("jupyterhub_config.d/20-dra-spawner-service.py")

It shows who uses which device at ``/services/dra-spawner/`` (in the hub's menu), and answers programs below that:
``api/nodes``, ``api/decisions``, ``api/status`` and ``metrics``. What it may do in the cluster is in
docs/explanation/security.md; the chart helm-values/chart has the roles (`helm template`).

With zero-to-jupyterhub, use the chart and helm-values/full.yaml instead.
"""

import os
import sys

from dra_spawner.hub import add_named

# What a managed service is to know of the hub's environment; JupyterHub passes nothing on by itself.
_PASSED_ON = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "POD_NAMESPACE", "HOME")

c.JupyterHub.custom_scopes.update(
    {
        "custom:dra-spawner:announce": {"description": "Announce classes, so that servers are prepared for them"},
        "custom:dra-spawner:read": {"description": "See who uses which device, and what was decided about them"},
        "custom:dra-spawner:operate": {
            "description": "Override what placeholders and nodes do, for a time",
            "subscopes": ["custom:dra-spawner:read", "custom:dra-spawner:announce"],
        },
        "custom:dra-spawner:admin": {
            "description": "Change everything that the dra-spawner service can change",
            "subscopes": ["custom:dra-spawner:operate"],
        },
    }
)

add_named(
    c.JupyterHub,
    "services",
    [
        {
            "name": "dra-spawner",
            "display": True,
            "url": "http://127.0.0.1:8181",
            "command": [sys.executable, "-m", "dra_spawner.service"],
            "environment": {name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            # The service belongs to the hub, so users need not confirm the login.
            "oauth_no_confirm": True,
            # The most that a browser's login lets it do, within the user's own rights; `admin-ui` tells an
            # administrator of the hub. With `delete:servers` people stop servers from the page; the service itself has
            # no such right.
            "oauth_client_allowed_scopes": [
                "custom:dra-spawner:announce",
                "custom:dra-spawner:read",
                "custom:dra-spawner:operate",
                "custom:dra-spawner:admin",
                "admin-ui",
                "delete:servers",
            ],
        }
    ],
)

# Administrators of the hub may look without more ado. Others need a role: here the members of four groups.
add_named(
    c.JupyterHub,
    "load_roles",
    [
        {
            "name": "dra-spawner-reader",
            "description": "See who uses which device",
            "scopes": ["custom:dra-spawner:read", "access:services!service=dra-spawner"],
            "groups": ["gpu-watchers"],
        },
        {
            "name": "dra-spawner-operator",
            "description": "Override what placeholders and nodes do, for a time",
            "scopes": ["custom:dra-spawner:operate", "access:services!service=dra-spawner"],
            "groups": ["gpu-operators"],
        },
        {
            "name": "dra-spawner-admin",
            "description": "Change everything that the dra-spawner service can change",
            # Without `delete:servers` they change all else, and stop no server.
            "scopes": ["custom:dra-spawner:admin", "access:services!service=dra-spawner", "delete:servers"],
            "groups": ["gpu-admins"],
        },
        {
            "name": "dra-spawner-teacher",
            "description": "Announce classes, so that servers are prepared for them",
            "scopes": ["custom:dra-spawner:announce", "access:services!service=dra-spawner"],
            "groups": ["gpu-teachers"],
        },
        # Every user may open the page Classes, and ask for a class. Without this role, only people with one of the
        # roles above may.
        {
            "name": "user",
            "description": "Standard user privileges, and asking for classes",
            "scopes": ["self", "access:services!service=dra-spawner"],
        },
        # The service itself. Without this role it counts servers that the hub is starting only when they have a pod.
        {
            "name": "dra-spawner-service",
            "description": "Count the servers that the hub is starting",
            "scopes": ["list:users", "read:servers"],
            "services": ["dra-spawner"],
        },
    ],
)
