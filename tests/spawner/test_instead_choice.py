"""What a start takes in place of a choice that is not free."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tornado.web import HTTPError

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import TicketEvent
from dra_spawner.spawner.availability.shown import ShownAvailability
from dra_spawner.spawner.free_choices import other_choices
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub, this_hub
from dra_spawner.spawner.instead_choice import first_available, taken_instead
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.ticket_access import queue_hub
from dra_spawner.ticket_store.ticket_store import TicketStore
from tests.all_of_them import all_of_them
from tests.spawner.hub_side import HubSide
from tests.spawner.service_stand_in import ServiceStandIn, profile_items, service_of_the_hub
from tests.ticket_store.hubs import Hubs

STATE = AvailabilityState


def shown(state: AvailabilityState, *wait: int) -> ShownAvailability:
    return ShownAvailability(state, "", (wait[0], wait[1]) if wait else None)


FREE, FULL = shown(STATE.FREE), shown(STATE.WHEN_STOPPED, 600, 1200)


@all_of_them(
    "states, taken",
    {
        "the own one is free": ({"own": FREE, "a": FREE}, "own"),
        "nothing is known of the own one": ({"a": FREE}, "own"),
        "the service does not know the own one": ({"own": shown(STATE.UNKNOWN), "a": FREE}, "own"),
        "the first that is free": ({"own": FULL, "a": FULL, "b": FREE, "c": shown(STATE.READY)}, "b"),
        "none is free: the shortest wait": (
            {"own": FULL, "a": shown(STATE.NEEDS_NODE, 240, 360), "b": shown(STATE.WHEN_STOPPED, 60, 120)},
            "b",
        ),
        "no wait is surely shorter": ({"own": FULL, "a": shown(STATE.NEEDS_NODE, 60, 601)}, "own"),
        "the own wait is not known": ({"own": shown(STATE.WAITS), "a": shown(STATE.NEEDS_NODE, 1, 2)}, "own"),
        "another that can never start": ({"own": FULL, "a": shown(STATE.NEVER)}, "own"),
        "the own one can never start": ({"own": shown(STATE.NEVER), "a": FULL, "b": FREE}, "b"),
        "nothing is known of the others": ({"own": FULL}, "own"),
    },
)
def test_what_is_taken(states: dict[str, ShownAvailability], taken: str) -> None:
    assert first_available("own", ["a", "b", "c"], states) == taken


def profiles(**override: Any) -> list[dict[str, Any]]:
    def claims(memory: str) -> dict[str, Any]:
        return {"device_claims": {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": memory}}}}

    tick = {"yes": {"display_name": "yes", "kubespawner_override": {"take_instead": True}}, "no": {"default": True}}
    return [
        {
            "display_name": "Large <b>GPU</b>",
            "slug": "large",
            "kubespawner_override": {
                **claims("40Gi"),
                "instead": ["other", "large", "gone", "slice/memory=5Gi"],
                **override,
            },
            "profile_options": {"smaller": {"display_name": "Take a smaller one", "choices": tick}},
        },
        {
            "display_name": "Slice",
            "slug": "slice",
            "kubespawner_override": claims("10Gi"),
            "profile_options": {
                "memory": {
                    "choices": {
                        "10Gi": {"display_name": "10", "default": True},
                        "5Gi": {"display_name": "5 GiB", "kubespawner_override": claims("5Gi")},
                    }
                }
            },
        },
        {"display_name": "Other", "slug": "other", "kubespawner_override": claims("40Gi")},
    ]


async def test_an_administrator_or_the_users_tick_lets_a_start_take_another_choice(nowhere: HubSide) -> None:
    full = {"state": "when-stopped", "node": "", "reason": "", "sentence": "", "wait": None}
    rows: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = [
        ({}, {}, {"large": full, "other": "free"}, ""),
        ({"take_instead": True}, {}, {"large": full, "other": "free"}, "other"),
        ({}, {"smaller": "yes"}, {"large": full, "large/smaller=yes": full, "slice/memory=5Gi": "ready"}, "slice"),
        ({"take_instead": True}, {names.TRIAL_OPTION: "true"}, {"large": full, "other": "free"}, ""),
        ({"take_instead": True}, {"smaller": "no"}, {"large": "free", "other": "free"}, ""),
        ({"take_instead": True}, {}, {"large": full, "other": full}, ""),
        ({"take_instead": "yes"}, {}, {"large": full, "other": "free"}, ""),
    ]
    for override, picks, states, taken in rows:
        nowhere.spawner_config.profile_list = profiles(**override)
        spawner = nowhere.user("ada", "").spawner
        spawner.user_options = {"profile": "large", "course": "x", **picks}
        parts = parts_of(spawner)

        async def answer(query: dict[str, Any], states: dict[str, Any] = states) -> Any:
            return profile_items(**{name: each for name, each in states.items() if query.get("name", name) == name})

        async with ServiceStandIn().listening() as service:
            service.profiles = answer
            with service_of_the_hub(service.url):
                forget_hub()  # which asks once a second
                found = await taken_instead(parts.server, parts.form.availability)
        assert (found.options["profile"] if found is not None else "") == taken, (override, picks)
        if found is not None:
            assert found.options["course"] == "x", "options of other code stay"
            assert "smaller" not in found.options
            words = "Slice, 5 GiB" if taken == "slice" else "Other"
            own = "Large GPU, yes" if picks else "Large GPU"
            assert found.sentence == f"“{own}” is not free now. You get “{words}” instead, which is free."
            assert found.lasting == f"This is “{words}” instead of “{own}”, which was not free."
    assert await taken_instead(parts.server, None) is None


async def test_a_device_that_is_held_for_the_user_is_what_the_user_gets(nowhere: HubSide) -> None:
    """For all others it is in use, so something else seems to be better."""
    nowhere.spawner_config.profile_list = profiles(take_instead=True)
    nowhere.spawner_config.tickets, nowhere.spawner_config.tickets_namespace = True, "queue"
    parts = parts_of(nowhere.user("ada").spawner)
    parts.server.spawner.user_options = {"profile": "large"}
    hubs = Hubs()
    hubs.now = datetime.now(UTC)

    async def answer(query: dict[str, Any]) -> dict[str, Any]:
        return profile_items(**{"large": "waits", "other": "free", query.get("name", "slice"): "free"})

    async def taken() -> bool:
        forget_hub()  # which asks once a second
        store = TicketStore(hubs.api, "queue", queue_hub(parts.server), now=lambda: hubs.now)
        this_hub().shared(("tickets", "queue"), lambda: store)
        return await taken_instead(parts.server, parts.form.availability) is not None

    async with ServiceStandIn().listening() as service:
        service.profiles = answer
        with service_of_the_hub(service.url):
            assert await taken(), "without a ticket"
            store = TicketStore(hubs.api, "queue", queue_hub(parts.server), now=lambda: hubs.now)
            ticket = (await store.join("ada", "large")).ticket
            assert await taken(), "others are first"
            until = hubs.now + timedelta(minutes=5)
            await store.change(lambda book: (None, book.after(ticket.id, TicketEvent.HOLD, hubs.now, until=until)))
            assert not await taken()
            hubs.api.is_away = True
            assert not await taken(), "not known"
            hubs.api.is_away = False
            hubs.now = until
            assert await taken(), "it is held no longer"


async def test_what_is_named_is_offered_first(nowhere: HubSide) -> None:
    nowhere.spawner_config.profile_list = profiles()
    spawner = nowhere.user("ada").spawner
    spawner.user_options = {"profile": "large"}
    parts = parts_of(spawner)
    exactly = {"deviceClassName": "gpu-share.example.com", "capacity": {"requests": {"memory": "40Gi"}}}
    waits_for = {"gpu": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    others = await other_choices(parts.server, waits_for)
    assert [each.choice.name for each in others.candidates][:2] == ["other", "slice/memory=5Gi"]


async def test_the_users_own_choice_comes_back_with_the_end_of_the_start(nowhere: HubSide) -> None:
    spawner = nowhere.user("ada").spawner
    spawner.user_options = {"profile": "large"}
    parts_of(spawner).server.replace_options({"profile": "other"})
    assert spawner.user_options == {"profile": "other"}
    spawner.clear_state()
    assert spawner.user_options == {"profile": "large"}
    parts_of(spawner).server.replace_options({"profile": "other"})
    spawner.user_options = {"profile": "slice"}  # a new start of the user's
    spawner.clear_state()
    assert spawner.user_options == {"profile": "slice"}


async def test_a_function_of_profiles_that_refuses_a_user_is_no_error_of_the_hub(
    nowhere: HubSide, caplog: pytest.LogCaptureFixture
) -> None:
    def profiles(spawner: Any) -> list[dict[str, Any]]:
        raise HTTPError(403, "Ask your teacher.")

    nowhere.spawner_config.profile_list = profiles
    spawner = nowhere.user("ada").spawner
    start = parts_of(spawner).start

    async def apply() -> None:
        profiles(spawner)

    async def load() -> str:
        await start.load(apply)
        return ""

    async with ServiceStandIn().listening() as service:
        with service_of_the_hub(service.url), pytest.raises(HTTPError, match="Ask your teacher"):
            await start.run(load)
    assert "No other choice can be taken" not in caplog.text


async def test_the_form_says_what_a_user_may_get(nowhere: HubSide) -> None:
    for taken, verb in ((True, "you get"), (False, "you are offered")):
        nowhere.spawner_config.profile_list = profiles(take_instead=taken)
        form = parts_of(nowhere.user("ada", "").spawner).form
        large, slice_, _ = form.completed(nowhere.spawner_config.profile_list, with_texts=True)
        names = "“Other” or “Slice, 5 GiB”"
        assert f"While it is not free, {verb} {names} instead." in large["description"]
        assert "instead" not in slice_.get("description", "")
