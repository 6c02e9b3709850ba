"""DRASpawner for a JupyterHub without Helm.

Load it in ``jupyterhub_config.py``::

    load_subconfig("jupyterhub_config.d/10-dra-spawner.py")

With zero-to-jupyterhub, use helm-values/minimal.yaml instead.
"""

from dra_spawner.hub import setup

# Makes DRASpawner the hub's spawner, and checks all profiles when the hub starts.
setup(c)

# What users may pick. Everything below `kubespawner_override` is KubeSpawner's own; `device_claims` is ours.
c.DRASpawner.profile_list = [
    {
        "display_name": "GPU slice, 10 GiB",
        "description": "A share of a GPU's memory",
        "slug": "gpu-slice",
        "default": True,
        "kubespawner_override": {
            "device_claims": {
                "gpu": {
                    # One of `kubectl get deviceclasses`.
                    "device_class": "gpu-share.example.com",
                    # As the driver publishes it: `kubectl get resourceslices -o yaml`.
                    "capacity": {"memory": "10Gi"},
                }
            }
        },
    },
    {
        "display_name": "Whole GPU",
        "description": "One GPU, shared with nobody",
        "slug": "gpu-whole",
        "kubespawner_override": {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}},
    },
]
