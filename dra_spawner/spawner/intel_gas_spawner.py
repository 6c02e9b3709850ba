"""The part of `DRASpawner` that gives servers Intel GPUs in the form of the device-plugin age."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

from kubespawner import KubeSpawner
from traitlets import Dict, Integer

from dra_spawner.kube.api import KubernetesApi
from dra_spawner.profiles.intel_gas import GpuWish, parse_intel_gas
from dra_spawner.profiles.intel_gas.findings import intel_gas_problems
from dra_spawner.profiles.problems import Problem, ProfileError
from dra_spawner.spawner.intel_gas_start import IntelGpuStart
from dra_spawner.spawner.spawn_refusal import OptionsRefused, RefusalReason, SpawnRefused

__all__ = ["IntelGasSpawner"]


class IntelGasSpawner(KubeSpawner):
    """KubeSpawner with ``intel_gas``."""

    intel_gas = Dict(
        config=True,
        help="""
        Intel GPUs, or parts of them, for clusters with Intel's GPU plugin up to release 0.33 (newer ones give whole
        GPUs only; parts of GPUs by DRA are ``device_claims``).

        Usually set by a profile's ``kubespawner_override``; empty for none. Amounts are those of each card::

            c.DRASpawner.intel_gas = {
                "resource": "i915",   # or xe: the kernel driver
                "count": 1,           # different cards
                "millicores": 500,    # thousandths of a card
                "memory": "4Gi",
                "tiles": 1,
            }

        The pod gets the limits ``gpu.intel.com/…``. Where GPU Aware Scheduling runs, it chooses the cards; elsewhere
        the hub does, and pins the pod to their node. docs/intel-gas.md has all there is.
        """,
    )

    intel_gas_cleanup_interval_seconds = Integer(
        1200,
        min=10,
        config=True,
        help="""
        How often, about, in seconds, the hub looks for cards that were given to servers which are gone: after half of
        this time and up to the whole of it more, by chance. Only once ``intel_gas`` was used.
        """,
    )

    _gpu_wish: GpuWish | None = None
    _gpu_start: IntelGpuStart | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._configured_intel_gas = copy.deepcopy(self.intel_gas)

    def clear_state(self) -> None:
        """Forget what the last start's profile merged into the configured GPUs."""
        super().clear_state()
        self.intel_gas = copy.deepcopy(self._configured_intel_gas)

    def intel_gas_problems(self) -> list[Problem]:
        """What is wrong in the static configuration of ``intel_gas``."""
        return intel_gas_problems(self.profile_list, self.intel_gas)

    async def load_user_options(self) -> None:
        """Apply the chosen profile, and read which GPUs it asks for."""
        await super().load_user_options()
        slug = (self.user_options or {}).get("profile")
        try:
            self._gpu_wish = parse_intel_gas(self.intel_gas, f"profile {slug}, intel_gas" if slug else "intel_gas")
        except ProfileError as error:
            self.log.error("Profile refused: %s", error)
            problem = error.problems[0]
            if any(key.endswith("--unlisted-choice") and value for key, value in (self.user_options or {}).items()):
                raise OptionsRefused(
                    f"The value you typed cannot be used: found {problem.found}, allowed: {problem.allowed}."
                ) from error
            raise SpawnRefused(
                f"This profile is misconfigured. Please tell your administrator. {problem}", RefusalReason.PROFILE
            ) from error

    async def get_pod_manifest(self) -> Any:
        """KubeSpawner's pod, with GPUs."""
        pod = await super().get_pod_manifest()
        self._gpu_start = None
        if self._gpu_wish is not None:
            self._gpu_start = IntelGpuStart(
                self._gpu_wish,
                KubernetesApi(self.api.api_client, timeout_seconds=self.k8s_api_request_timeout),
                self.namespace,
                None if self.enable_user_namespaces else self.namespace,
                self.log,
                lifetime=timedelta(seconds=self.start_timeout),
                cleaning_interval=timedelta(seconds=self.intel_gas_cleanup_interval_seconds),
            )
            await self._gpu_start.give_to(pod, self.api.api_client)
        return pod

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        if self._gpu_start is not None:
            self._gpu_start.annotate(pod)
        return bool(await super()._make_create_pod_request(pod, request_timeout))

    async def _start(self) -> Any:
        try:
            return await super()._start()
        except BaseException:
            if self._gpu_start is not None:
                self._gpu_start.give_back()
            raise
