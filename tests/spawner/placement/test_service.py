"""A service with a certificate of an authority that the system does not know, as inside of a cluster."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from certipy import Certipy
from jupyterhub.app import JupyterHub

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.spawner.availability.client import availability_client
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub
from dra_spawner.spawner.placement.service import ask_for_placement, service_of_hub
from dra_spawner.spawner.placement.standing import own_budget_sentences
from tests.presence import present
from tests.spawner.service_stand_in import ServiceStandIn, profile_items, service_of_the_hub

LOG = logging.getLogger(__name__)


def made_by(authority: str, directory: Path) -> dict[str, str]:
    """Files of an authority, and of a certificate for this machine that it has signed."""
    store = Certipy(store_dir=str(directory))
    ca = store.create_ca(authority)["files"]
    own = store.create_signed_pair(f"{authority}-service", authority, alt_names=["IP:127.0.0.1"])["files"]
    return {"ca": ca["cert"], "key": own["key"], "cert": own["cert"]}


async def answers(ca_file: str) -> tuple[bool, bool, bool]:
    """Whether a start, the form and a page of budgets have an answer of the service."""
    forget_hub()  # what is remembered of earlier answers
    address = present(service_of_hub("dra-spawner", ca_file))
    question = {"shape": "0" * 16, "pod": "jupyter-ada", "namespace": "hub"}
    placement = await ask_for_placement(address, question, lambda: "{}", (), 20, LOG)
    view = await availability_client("dra-spawner", LOG, ca_file).latest(20)
    sentences = await own_budget_sentences("dra-spawner", "ada", (), LOG, ca_file)
    return placement is not None, view.of("gpu").state is AvailabilityState.FREE, bool(sentences)


async def test_a_service_with_a_certificate_of_an_authority_of_ones_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours, others = (made_by(each, tmp_path / each) for each in ("ours", "others"))
    of_service = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    of_service.load_cert_chain(ours["cert"], ours["key"])
    replaced = tmp_path / "replaced.crt"
    replaced.write_text(Path(others["ca"]).read_text())
    stand_in = ServiceStandIn()
    sentences = {"isEnforced": True, "sentences": ["You have used 1 device-hour."]}

    async def answer(question: Any) -> Any:
        return sentences if "shape" not in question else {"state": "free", "node": "node-a"}

    async def profiles(_: Any) -> Any:
        return profile_items(gpu="free")

    stand_in.answer, stand_in.profiles = answer, profiles
    async with stand_in.listening(of_service):
        with service_of_the_hub(stand_in.url):
            hub = JupyterHub.instance()
            assert await answers(ours["ca"]) == (True, True, True)
            assert await answers("") == (False, False, False)
            assert "certificate verify failed" in caplog.text
            assert await answers(str(replaced)) == (False, False, False)
            replaced.write_text(Path(ours["ca"]).read_text())
            assert await answers(str(replaced)) == (True, True, True)
            for wrong in (tmp_path / "missing", Path(ours["key"])):
                assert await answers(str(wrong)) == (False, False, False)
            hub.internal_ssl = True
            hub.internal_ssl_ca, hub.internal_ssl_key, hub.internal_ssl_cert = ours["ca"], ours["key"], ours["cert"]
            assert await answers("") == (True, True, True)
    forget_hub()
