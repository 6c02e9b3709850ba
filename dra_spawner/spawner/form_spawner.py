"""The part of `DRASpawner` that makes the spawn form: what a user can choose, by what the cluster's devices give.

KubeSpawner makes the form from its ``profile_list``; here this list is completed before KubeSpawner gets to see it, for
the form and for what comes back from it alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from jupyterhub.utils import maybe_future
from kubespawner import KubeSpawner
from traitlets import Bool, default

from dra_spawner.kube.api import KubernetesApi
from dra_spawner.profiles.drivers.registry import share_enforcements
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.form import FormTexts, form_profiles, has_policy_choices
from dra_spawner.profiles.offers import DeviceCatalog
from dra_spawner.spawner.known_devices import KnownDevices

__all__ = ["FormSpawner"]


class FormSpawner(KubeSpawner):
    """KubeSpawner with choices that are made from what devices give, and with what is worth knowing about them."""

    form_shows_amounts = Bool(
        True,
        config=True,
        help="""
        Whether the spawn form says what is really reserved, where devices give shares in steps and more is reserved
        than a choice asks for, such as "15 GiB will be reserved".
        """,
    )
    form_shows_enforcement = Bool(
        True,
        config=True,
        help="""
        Whether the spawn form says how firmly a share of a device is kept to: by the hardware, by a library, by a
        daemon, or not at all. Nothing is said of drivers that this project does not know.
        """,
    )

    #: Read once for all spawners of a hub.
    _devices_by_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, KnownDevices]] = WeakKeyDictionary()
    _configured_device_claims: Mapping[str, Any]

    @property
    def _known_devices(self) -> KnownDevices:
        return self._devices_by_loop.setdefault(asyncio.get_running_loop(), KnownDevices())

    async def _learn_devices(self) -> None:
        api = KubernetesApi(self.api.api_client, timeout_seconds=self.k8s_api_request_timeout)
        await self._known_devices.learn(api)

    @default("options_form")
    def _options_form_default(self) -> Any:
        # Made for each view of the page, as devices come and go.
        return self._render_form if self.profile_list else ""

    async def _render_form(self, spawner: KubeSpawner) -> str:
        await self._learn_devices()
        profiles = self._sorted_dict_values(self.profile_list)
        if callable(profiles):
            profiles = await maybe_future(profiles(spawner))
        return str(self._render_options_form(profiles))

    def _render_options_form(self, profile_list: Any) -> Any:
        return super()._render_options_form(self._completed(profile_list, with_texts=True))

    def _get_initialized_profile_list(self, profile_list: Any) -> Any:
        return super()._get_initialized_profile_list(self._completed(profile_list))

    async def load_user_options(self) -> None:
        """Apply the chosen profile; its choices are those of the form."""
        if callable(self.profile_list) or has_policy_choices(self.profile_list):
            await self._learn_devices()
        await super().load_user_options()

    def _completed(self, profile_list: Any, *, with_texts: bool = False) -> Any:
        """The list with all choices made. Whatever happens, there is a form."""
        try:
            return self._completed_from(profile_list, self._known_devices.catalog, with_texts)
        except Exception:
            self.log.exception("The spawn form is made without what is known of devices")
            return self._completed_from(profile_list, DeviceCatalog(ClusterFacts()), with_texts=False)

    def _completed_from(self, profile_list: Any, catalog: DeviceCatalog, with_texts: bool) -> Any:
        texts = None
        if with_texts:
            facts = catalog.facts if catalog.is_known else None

            def sentences(claim: Any) -> list[str]:
                return [share.sentence for share in share_enforcements(claim, facts).values()]

            texts = FormTexts(self.form_shows_amounts, sentences if self.form_shows_enforcement else None)
        settings = {"device_claims": self._configured_device_claims}
        return form_profiles(profile_list, catalog, settings, picked=self.user_options, texts=texts)
