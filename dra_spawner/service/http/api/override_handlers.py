"""Handlers of overrides, which people set for a time: each is stored in the cluster, with who, when and until when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from tornado.web import HTTPError

from dra_spawner.placeholders.controller.sources.override_store import OverrideStore, OverridesUnavailable
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.device_drains import device_of
from dra_spawner.placeholders.planner.targets.overrides import (
    MAX_OVERRIDES,
    WHOLE_SERVICE,
    AuditEntry,
    Override,
    OverrideKind,
    Overrides,
)
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS, ReplicaRange
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode
from dra_spawner.service.http.api.placeholder_handlers import PlaceholderHandler
from dra_spawner.service.http.requests.endpoints import CONTINUE, LIMIT_OR_ALL, Access, endpoint
from dra_spawner.service.http.requests.guarded_handler import etag_of
from dra_spawner.service.http.requests.json_body import json_object
from dra_spawner.service.http.schemas.override_schemas import AUDIT, DEVICE_MARK, MARK, NUMBERS, SETTING, SETTINGS

_LONGEST_REASON: Final = 200
_LONGEST_TIME: Final = 40
_LONGEST_SETTING: Final = timedelta(days=366)
#: Users get at least this warning before their servers are ended.
_SHORTEST_WARNING: Final = timedelta(minutes=5)
_MARK_KEYS: Final = ("until", "reason")
_PUT: Final[Mapping[str, Any]] = {"problems": (409,), "precondition": True}
_DELETE: Final[Mapping[str, Any]] = {"status": 204, "problems": (409,), "precondition": True}


class OverrideHandler(PlaceholderHandler):
    """Base of the handlers of settings and orders."""

    @property
    def store(self) -> OverrideStore:
        """The store, to write; 409 without placeholders, which all settings are about."""
        self.require_placeholders()
        return self.controller.overrides

    @property
    def present(self) -> Overrides:
        """The present settings; 503 if they are not known."""
        self.require_known()
        return self.controller.overrides.present

    def require_placeholders(self) -> None:
        """Refuse with 409 without placeholders."""
        if not self.controller.is_on:
            raise HTTPError(409, "There is nothing to set: the service has no placeholders (setting placeholders).")

    def require_known(self) -> None:
        """Refuse with 503 if the stored settings are not known."""
        if because := self.controller.overrides.unknown_because:
            raise HTTPError(503, "The settings are not known: %s.", because)

    def require_match(self, present: Mapping[str, Any] | None) -> None:
        """Refuse with 412 if `If-Match` names another version than the present answer to a ``GET``."""
        wanted = self.request.headers.get("If-Match")
        if wanted is None:
            return
        tag = etag_of(present) if present is not None else None
        known = {each.strip().removeprefix("W/") for each in wanted.split(",")}
        if tag is None or not known & {"*", tag}:
            raise HTTPError(412, "Somebody has changed it since you read it. Read it again.")

    @property
    def caller(self) -> str:
        """Who asks."""
        return f"{self.hub_user.get('kind', 'user')} {self.hub_user['name']}"

    async def note(self, change: str, subject: str, details: str = "") -> None:
        """Write an order into the audit trail, before it is done, or why it was not."""
        entry = AuditEntry(self.controller.now(), self.caller, change, subject, details)
        try:
            await self.store.change(lambda settings: settings.audited(entry))
        except OverridesUnavailable as error:
            raise HTTPError(503, "%s", error) from None


class SettingsHandler(OverrideHandler):
    """``GET api/settings``: everything that is set at present.

    The hub sends the service's own token, to tell users who wait when a node is back.
    """

    @endpoint(
        "Everything that people have set, with who, when and until when.",
        Access.READ,
        answer=SETTINGS,
        query=(LIMIT_OR_ALL, CONTINUE),
        hub=True,
    )
    async def get(self) -> None:
        found = [setting_json(each) for _, each in sorted(self.present.settings.items())]
        self.write_json(self.page(found, lambda each: f"{each['kind']}\0{each['name']}"))


class AuditHandler(OverrideHandler):
    """``GET api/audit``: the latest changes by people, newest first."""

    @endpoint(
        "The audit trail: the latest changes by people, newest first.",
        Access.READ,
        answer=AUDIT,
        query=(LIMIT_OR_ALL, CONTINUE),
    )
    async def get(self) -> None:
        numbered = [(f"{number:08}", each) for number, each in enumerate(reversed(self.present.audit))]
        found = self.page(numbered, lambda each: each[0])
        self.write_json({**found, "items": [audit_json(each) for _, each in found["items"]]})


class _SettingHandler(OverrideHandler):
    """Base of the handlers of one setting."""

    kind: ClassVar[OverrideKind]

    def read(self, name: str) -> None:
        """Answer the setting."""
        setting = self.present.settings.get((self.kind, self._stored_name(name)))
        if setting is None:
            raise HTTPError(404, "Nothing is set here.")
        self.write_json(setting_json(setting))

    async def save(self, name: str, keys: tuple[str, ...] = _MARK_KEYS) -> None:
        """Set it, and answer it."""
        body = json_object(bytes(self.body), keys)
        now = self.controller.now()
        until = _moment(body, "until", now)
        setting = Override(
            self.kind,
            self.known_name(name),
            self.caller,
            now,
            until,
            _reason(body),
            _replicas(body) if "min" in keys else None,
            _evict_at(body, now, until),
        )

        def change(present: Overrides) -> Overrides:
            before = present.settings.get(setting.key)
            self.require_match(setting_json(before) if before is not None else None)
            if setting.key not in present.settings and len(present.settings) >= MAX_OVERRIDES:
                raise HTTPError(409, "Too much is set already (%d settings). Delete some.", MAX_OVERRIDES)
            return present.with_setting(setting)

        await self._change(change)
        self.write_version(setting_json(setting))

    async def remove(self, name: str) -> None:
        """End it."""
        key = self.kind, self._stored_name(name, must_exist=False)

        def change(present: Overrides) -> Overrides:
            found = present.settings.get(key)
            if found is None:
                raise HTTPError(404, "Nothing is set here.")
            self.require_match(setting_json(found))
            return present.without(key, self.caller, self.controller.now())

        await self._change(change)
        self.set_status(204)

    def known_name(self, name: str, *, must_exist: bool = True) -> str:
        """The name as it is stored; 404 if there is no such thing in the cluster."""
        found = find_choice(name, self.controller.published.shapes)
        if found is None and must_exist:
            raise HTTPError(404, "The hub publishes no choice of this name.")
        return found or name

    def _stored_name(self, name: str, *, must_exist: bool = True) -> str:
        """The name of a setting: the hub may since have published the choice with its options in another order."""
        return name if (self.kind, name) in self.present.settings else self.known_name(name, must_exist=must_exist)

    async def _change(self, change: Any) -> None:
        try:
            await self.store.change(change)
        except OverridesUnavailable as error:
            raise HTTPError(503, "%s", error) from None


class PlaceholderSettingHandler(_SettingHandler):
    """``api/settings/placeholders/<choice>``: other numbers of placeholders than the configured ones."""

    kind = OverrideKind.PLACEHOLDERS

    @endpoint("Numbers of placeholders of a choice, as they are set.", Access.READ, answer=SETTING)
    async def get(self, name: str) -> None:
        self.read(name)

    @endpoint("Set numbers of placeholders of a choice.", Access.OPERATE, body=NUMBERS, answer=SETTING, **_PUT)
    async def put(self, name: str) -> None:
        await self.save(name, ("min", "max", *_MARK_KEYS))

    @endpoint("Return to the configured numbers of placeholders.", Access.OPERATE, **_DELETE)
    async def delete(self, name: str) -> None:
        await self.remove(name)


class PausedHandler(_SettingHandler):
    """``api/settings/paused/<choice>``: no placeholder is created or deleted for the target of a choice."""

    kind = OverrideKind.PAUSED

    @endpoint("Whether placeholders of a choice are paused.", Access.READ, answer=SETTING)
    async def get(self, name: str) -> None:
        self.read(name)

    @endpoint(
        "Pause: create and delete no placeholder for the target of a choice.",
        Access.OPERATE,
        body=MARK,
        answer=SETTING,
        **_PUT,
    )
    async def put(self, name: str) -> None:
        await self.save(name)

    @endpoint("Resume placeholders of a choice.", Access.OPERATE, **_DELETE)
    async def delete(self, name: str) -> None:
        await self.remove(name)


class DrainingHandler(_SettingHandler):
    """``api/settings/draining/<node>``: placeholders leave a node, and no placeholder and no new server comes."""

    kind = OverrideKind.DRAINING

    @endpoint("Whether a node is drained by order.", Access.READ, answer=SETTING)
    async def get(self, name: str) -> None:
        self.read(name)

    @endpoint(
        "Drain a node: placeholders leave it, no server comes.", Access.OPERATE, body=MARK, answer=SETTING, **_PUT
    )
    async def put(self, name: str) -> None:
        await self.save(name)

    @endpoint("End the draining of a node.", Access.OPERATE, **_DELETE)
    async def delete(self, name: str) -> None:
        await self.remove(name)

    def known_name(self, name: str, *, must_exist: bool = True) -> str:
        if must_exist and name not in self.controller.watch.snapshot.nodes:
            raise HTTPError(404, "There is no node of this name.")
        return name


class DeviceDrainHandler(_SettingHandler):
    """``api/devices/<driver/pool/device>/drain``: no new server gets a device; the name is one part of the address."""

    kind = OverrideKind.DEVICES

    @endpoint("Whether a device is drained.", Access.READ, answer=SETTING)
    async def get(self, device: str) -> None:
        self.read(device)

    @endpoint(
        "Drain a device: its placeholders go, no new server gets it; at evict_at its servers are ended.",
        Access.OPERATE,
        body=DEVICE_MARK,
        answer=SETTING,
        **_PUT,
    )
    async def put(self, device: str) -> None:
        self.require_placeholders()
        if self.controller.watch.rules_api is None:
            raise HTTPError(
                409,
                "A single device cannot be drained here: the cluster serves no DeviceTaintRules, or the service may "
                "not list them. Kubernetes has them from 1.37 on.",
            )
        await self.save(device, (*_MARK_KEYS, "evict_at"))

    @endpoint("End the draining of a device.", Access.OPERATE, **_DELETE)
    async def delete(self, device: str) -> None:
        await self.remove(device)

    def known_name(self, name: str, *, must_exist: bool = True) -> str:
        device = device_of(name)
        slices = self.controller.watch.snapshot.slices.values()
        is_published = device is not None and any(
            device.device in item.device_names for item in slices if item.pool_id == (device.driver, device.pool)
        )
        if must_exist and not is_published:
            raise HTTPError(404, "There is no device of this name: a name is driver/pool/device.")
        return name


class _ServiceHandler(_SettingHandler):
    """Base of the settings about everything that the service does."""

    def known_name(self, name: str, *, must_exist: bool = True) -> str:
        return name


class ActingHandler(_ServiceHandler):
    """``api/settings/acting``: forecasts are the targets for a time, although the service is set up to advise."""

    kind = OverrideKind.ACTING

    @endpoint("Whether forecasts are the targets by order.", Access.READ, answer=SETTING, problems=(404,))
    async def get(self) -> None:
        self.read(WHOLE_SERVICE)

    @endpoint(
        "Let forecasts be the targets, although scale_ahead is not act.",
        Access.ADMIN,
        body=MARK,
        answer=SETTING,
        **_PUT,
    )
    async def put(self) -> None:
        if self.controller.scale_ahead.settings.mode is ScaleAheadMode.ACT:
            raise HTTPError(409, "Forecasts are the targets already: the setting scale_ahead is act.")
        await self.save(WHOLE_SERVICE)

    @endpoint("Return to the setting scale_ahead.", Access.ADMIN, **{**_DELETE, "problems": (404, 409)})
    async def delete(self) -> None:
        await self.remove(WHOLE_SERVICE)


class ObservingHandler(_ServiceHandler):
    """``api/settings/observing``: the service shows everything, and decides nothing."""

    kind = OverrideKind.OBSERVING

    @endpoint("Whether the service only observes.", Access.READ, answer=SETTING, problems=(404,))
    async def get(self) -> None:
        self.read(WHOLE_SERVICE)

    @endpoint("Observe only: decide nothing, reserve nothing.", Access.ADMIN, body=MARK, answer=SETTING, **_PUT)
    async def put(self) -> None:
        await self.save(WHOLE_SERVICE)

    @endpoint("Decide again.", Access.ADMIN, **{**_DELETE, "problems": (404, 409)})
    async def delete(self) -> None:
        await self.remove(WHOLE_SERVICE)


def audit_json(entry: AuditEntry) -> dict[str, Any]:
    """An entry of the audit trail as JSON."""
    return {
        "at": entry.at.isoformat(),
        "by": entry.by,
        "change": entry.change,
        "subject": entry.subject,
        "details": entry.details,
    }


def setting_json(setting: Override) -> dict[str, Any]:
    """A setting as JSON."""
    numbers = setting.replicas
    return {
        "kind": setting.kind,
        "name": setting.name,
        "by": setting.by,
        "at": setting.at.isoformat(),
        "until": setting.until.isoformat() if setting.until is not None else None,
        "reason": setting.reason,
        **({"min": numbers.min, "max": numbers.max} if numbers is not None else {}),
        **({"evict_at": setting.evict_at.isoformat()} if setting.evict_at is not None else {}),
    }


def _evict_at(body: Mapping[str, Any], now: datetime, until: datetime | None) -> datetime | None:
    found = _moment(body, "evict_at", now)
    if found is not None and found < now + _SHORTEST_WARNING:
        minutes = _SHORTEST_WARNING.total_seconds() / 60
        raise HTTPError(400, "evict_at: allowed: at least %d minutes from now, so that users are warned.", minutes)
    if found is not None and until is not None and found >= until:
        raise HTTPError(400, "evict_at: allowed: before until, at which the device is not drained any more.")
    return found


def _moment(body: Mapping[str, Any], key: str, now: datetime) -> datetime | None:
    if key not in body:
        return None
    found, allowed = body[key], "a time with its zone within the next 366 days, like 2027-01-31T18:00:00+01:00"
    try:
        if not isinstance(found, str) or len(found) > _LONGEST_TIME:
            raise ValueError
        until = datetime.fromisoformat(found)
        if until.tzinfo is None or not now < until <= now + _LONGEST_SETTING:
            raise ValueError
        return until.astimezone(UTC)
    except (ValueError, OverflowError):
        raise HTTPError(400, "%s: found %s; allowed: %s.", key, f"{found!r:.60}", allowed) from None


def _reason(body: Mapping[str, Any]) -> str:
    found = body.get("reason", "")
    if not isinstance(found, str) or len(found) > _LONGEST_REASON or not found.isprintable():
        raise HTTPError(400, "reason: allowed: text of at most %d characters.", _LONGEST_REASON)
    return found


def _replicas(body: Mapping[str, Any]) -> ReplicaRange:
    for key in ("min", "max"):
        found = body.get(key)
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MAX_PLACEHOLDERS:
            told = f"found {found!r:.60}" if key in body else "nothing found"
            raise HTTPError(400, "%s: %s; allowed: a whole number from 0 to %d.", key, told, MAX_PLACEHOLDERS)
    if body["min"] > body["max"]:
        raise HTTPError(400, "min: found %d; allowed: at most max, which is %d.", body["min"], body["max"])
    return ReplicaRange(body["min"], body["max"])
