"""The profile language: ``device_claims`` as an administrator writes it, parsed and validated.

Everything is refused here that the API server would refuse later (``resource.k8s.io/v1`` validation), and
all that could only fail in silence: a quantity that is none, a capacity that is negative, a misspelt key.
What keys there are stands in `keys`, what single values may be in `rules`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from dra_spawner.profiles.compiler.claim_parts import ClaimPartsReader, Pairs
from dra_spawner.profiles.compiler.claims import (
    ContainerRequests,
    DeviceClaim,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
)
from dra_spawner.profiles.syntax import rules
from dra_spawner.profiles.syntax.keys import (
    CONFIG_KEYS,
    CONSTRAINT_KEYS,
    FORMS,
    LONG_FORM_KEYS,
    MAX_CLAIMS,
    MAX_CONFIGS,
    MAX_CONSTRAINTS,
    MAX_PARAMETER_BYTES,
    MAX_REQUESTS,
    OWN_CLAIM_KEYS,
)
from dra_spawner.profiles.syntax.problems import AdminAccessRefused, Problem, shown
from dra_spawner.profiles.syntax.raw_spec import read_spec, spec_request_names, spec_requests
from dra_spawner.profiles.syntax.rules import ALL, MAX_DEVICES_PER_CLAIM
from dra_spawner.profiles.syntax.templates import template_problems

#: The container in which KubeSpawner starts the notebook server.
NOTEBOOK = "notebook"

_LONG_FORMS = ("requests", "pairs")
_FOREIGN_FORMS = ("template", "claim")
_NO_PAIRS = Pairs()
_CLAIM_EXAMPLE = "a mapping, for example {device_class: gpu.example.com, capacity: {memory: 10Gi}}"
_CONSTRAINT_EXAMPLE = "a mapping such as {match_attribute: resource.kubernetes.io/pcieRoot}"
_CONFIG_EXAMPLE = "a mapping with at least driver and parameters"


def parse_device_claims(
    value: object, path: str = "device_claims", *, admin_access: bool = False, list_attributes: bool = False
) -> tuple[DeviceClaim, ...]:
    """Parse and validate ``device_claims``.

    Parameters
    ----------
    value
        The trait's value: claim name -> claim in short form (one request), long form (``requests``), or one of
        ``template``, ``claim`` and ``spec``.
    path
        Where the value stands, for messages.
    admin_access
        Whether ``admin_access`` (and ``adminAccess`` in a ``spec``) may be true: for administrators of the hub.
    list_attributes
        Whether attributes of devices may be lists on the cluster (`may_be_lists`): then words look into them.

    Raises
    ------
    ProfileError
        With every problem found.
    AdminAccessRefused
        A ProfileError too: nothing else is wrong than that access for administration is asked for.
    """
    parser = _ClaimReader(list_attributes=list_attributes)
    claims = parser.accepted(parser.claims(value, path))
    if parser.admin_access_paths and not admin_access:
        raise AdminAccessRefused(
            Problem(where, shown(True), "access for administration for administrators of the hub only")
            for where in parser.admin_access_paths
        )
    return claims


class _ClaimReader(ClaimPartsReader):
    def claims(self, value: object, path: str) -> tuple[DeviceClaim, ...]:
        claims = self.with_interfaces(self.named(value, path, "a claim", MAX_CLAIMS, self._claim), path)
        named: set[str] = set()
        for claim in claims:
            # kube-scheduler never gets such a pod to run.
            if claim.claim and claim.claim in named:
                self.refuse(f"{path}.{claim.name}.claim", claim.claim, "a claim that no other entry names")
            named.add(claim.claim)
        return claims

    def _claim(self, name: str, value: object, path: str) -> DeviceClaim | None:
        entry = self.mapping(value, path, _CLAIM_EXAMPLE)
        if entry is None:
            return None
        form = next((key for key in FORMS if key in entry), None)
        if form is None:
            claim = self._short_form(name, entry, path)
        else:
            what = "keys of a claim in long form" if form in _LONG_FORMS else f"keys of a claim with {form}"
            self.known_keys(entry, path, FORMS[form], what)
            if form in _LONG_FORMS:
                claim = self._long_form(name, entry, path)
            elif form == "spec":
                claim = self._spec_form(name, entry, path)
            else:
                claim = self._foreign_form(name, form, entry, path)
        companions = self.companions(entry.get("companions"), f"{path}.companions")
        if claim is None:
            return None
        shared = None if form in _FOREIGN_FORMS else entry.get("shared")
        sharing = self.sharing(shared, f"{path}.shared")
        return replace(claim, sharing=sharing, companions=companions) if sharing or companions else claim

    def _foreign_form(self, name: str, form: str, entry: Mapping[str, object], path: str) -> DeviceClaim:
        found = self.text(rules.OBJECT_NAME, entry[form], f"{path}.{form}")
        containers = self._containers(entry.get("containers"), f"{path}.containers", None)
        if form == "template":
            return DeviceClaim(name, containers, template=found)
        return DeviceClaim(name, containers, claim=found)

    def _short_form(self, name: str, entry: Mapping[str, object], path: str) -> DeviceClaim | None:
        for key in LONG_FORM_KEYS:
            if key in entry and key not in OWN_CLAIM_KEYS:
                self.refuse(f"{path}.{key}", entry[key], f"{key} beside requests (the long form) only")
                return None
        request = self.request(name, entry, path, OWN_CLAIM_KEYS)
        return DeviceClaim(name, ((NOTEBOOK, (name,)),), (request,)) if request is not None else None

    def _long_form(self, name: str, entry: Mapping[str, object], path: str) -> DeviceClaim:
        pairs = self.pairs(entry.get("pairs"), f"{path}.pairs")
        requests, names = self._requests(entry, path, pairs)
        known = (*_reference_names(names, requests), *pairs.names)
        constraints = self.listed(
            entry.get("constraints"),
            f"{path}.constraints",
            "constraints",
            MAX_CONSTRAINTS - len(pairs.constraints),
            lambda value, where: self._constraint(value, where, known),
        )
        config = self.listed(
            entry.get("config"),
            f"{path}.config",
            "configurations",
            MAX_CONFIGS,
            lambda value, where: self._config(value, where, known),
        )
        return DeviceClaim(
            name,
            self._containers(entry.get("containers"), f"{path}.containers", names, pairs),
            requests,
            (*pairs.constraints, *(replace(each, requests=pairs.expand(each.requests)) for each in constraints)),
            tuple(replace(each, requests=pairs.expand(each.requests)) for each in config),
        )

    def _requests(
        self, entry: Mapping[str, object], path: str, pairs: Pairs
    ) -> tuple[tuple[DeviceRequest, ...], tuple[str, ...]]:
        """The requests of a claim in long form, and the names of all, including unreadable ones."""
        requests_path = f"{path}.requests"
        written = entry.get("requests")
        if written is None and pairs.requests:
            written = {}
        requests = self.named(written, requests_path, "a request", MAX_REQUESTS, self.request)
        names = tuple(map(str, written)) if isinstance(written, Mapping) else ()
        twice = set(names) & {*pairs.names, *(each.name for each in pairs.requests)}
        if twice:
            self.refuse(requests_path, sorted(twice), "names that pairs do not have")
        requests = (*requests, *pairs.requests)
        names = (*names, *(each.name for each in pairs.requests))
        if isinstance(written, Mapping) and not names:
            self.missing(requests_path, "at least one request")
        if len(names) > MAX_REQUESTS and pairs.requests:
            self.refuse(f"{path}.pairs", f"{len(names)} requests in all", f"at most {MAX_REQUESTS} in one claim")
        devices = sum(request.least_devices for request in requests)
        if devices > MAX_DEVICES_PER_CLAIM:
            self.refuse(
                requests_path,
                f"{devices} devices in all",
                f"at most {MAX_DEVICES_PER_CLAIM} devices in one claim",
            )
        return requests, names

    def _spec_form(self, name: str, entry: Mapping[str, object], path: str) -> DeviceClaim:
        spec = read_spec(self, entry["spec"], f"{path}.spec") or {}
        self.admin_access_paths += [
            f"{path}.spec.{where}.adminAccess" for where, request in spec_requests(spec) if request.get("adminAccess")
        ]
        containers = self._containers(entry.get("containers"), f"{path}.containers", spec_request_names(spec))
        return DeviceClaim(name, containers, spec=spec)

    def _containers(
        self, value: object, path: str, requests: tuple[str, ...] | None, pairs: Pairs = _NO_PAIRS
    ) -> tuple[ContainerRequests, ...]:
        """Which container gets which requests; the requests of a claim from elsewhere are not known (``None``)."""
        if value is None:
            return ((NOTEBOOK, requests),)
        known = "the claim's requests" if requests is None else ", ".join(requests)

        def container(name: str, wanted: object, where: str) -> ContainerRequests | None:
            if rules.EVERYTHING.accepts(wanted):
                return (name, None)
            if not isinstance(wanted, list | tuple):
                self.refuse(where, wanted, f"{ALL}, or a list of requests out of {known}")
                return None
            for index, request in enumerate(wanted):
                if requests is None:
                    self.follows(rules.NAME, request, f"{where}[{index}]")
                elif not isinstance(request, str) or not (request in requests or request in pairs.names):
                    self.refuse(f"{where}[{index}]", request, f"one of the claim's requests: {known}")
                    return None
            return (name, pairs.expand(map(str, wanted)))

        return self.named(value, path, "a list of requests", MAX_CLAIMS, container)

    def _constraint(self, value: object, path: str, known: tuple[str, ...]) -> DeviceConstraint | None:
        entry = self.keyed(value, path, CONSTRAINT_KEYS, "keys of a constraint", _CONSTRAINT_EXAMPLE)
        if entry is None:
            return None
        kinds = [key for key in ("match_attribute", "distinct_attribute") if entry.get(key) is not None]
        if len(kinds) != 1:
            one = "one of match_attribute and distinct_attribute"
            self.refuse(path, kinds, one) if kinds else self.missing(path, one)
            return None
        (kind,) = kinds
        return DeviceConstraint(
            attribute=self.text(rules.ATTRIBUTE, entry[kind], f"{path}.{kind}"),
            distinct=kind == "distinct_attribute",
            requests=self.references(entry.get("requests"), f"{path}.requests", known, MAX_REQUESTS),
        )

    def _config(self, value: object, path: str, known: tuple[str, ...]) -> DeviceConfig | None:
        entry = self.keyed(value, path, CONFIG_KEYS, "keys of a configuration", _CONFIG_EXAMPLE)
        if entry is None or entry.get("driver") is None or entry.get("parameters") is None:
            return None
        where = f"{path}.parameters"
        parameters = self.mapping(entry["parameters"], where, "a mapping, as the driver's documentation says")
        before = len(self.problems)
        copied = self.json(parameters, where) if parameters is not None else None
        if isinstance(copied, dict) and len(self.problems) == before:
            # As it goes over the wire; the API server counts these bytes.
            size = len(json.dumps(copied))
            if size > MAX_PARAMETER_BYTES:
                self.refuse(where, f"{size} bytes", f"at most {MAX_PARAMETER_BYTES} bytes as JSON")
            self.problems += template_problems(copied, where)
        return DeviceConfig(
            driver=self.text(rules.DRIVER, entry["driver"], f"{path}.driver"),
            parameters=copied if isinstance(copied, dict) else {},
            requests=self.references(entry.get("requests"), f"{path}.requests", known, MAX_REQUESTS),
        )


def _reference_names(names: tuple[str, ...], requests: tuple[DeviceRequest, ...]) -> tuple[str, ...]:
    """What constraints and configurations may name; a request that could not be read still has its name."""
    alternatives = (f"{each.name}/{alternative.name}" for each in requests for alternative in each.first_available)
    return (*names, *alternatives)
