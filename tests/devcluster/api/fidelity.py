"""The same requests to the embedded API server and to a real one, and their answers without parts that must differ."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.polling import PATIENCE_SECONDS, eventually

# For scripts that leave nothing behind.
SHARED_NAMESPACE = "default"
# Set by the server, different in each run.
_DROPPED = {"managedFields", "uid", "resourceVersion", "continue", "storageVersionHash", "time", "retryAfterSeconds"}
_MOMENTS = {"creationTimestamp", "deletionTimestamp", "lastTransitionTime"}
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_REPLACED = (
    (_UID, "UID"),
    # Internals of the API server in its messages.
    (re.compile(r"StorageError: invalid object, Code: \d+, .*?AdditionalErrorMsg: "), ""),
    (re.compile(r"\n@@.*", re.DOTALL), ""),
    (re.compile(r"ResourceVersion in record \(\d+\)"), "ResourceVersion in record (N)"),
    (re.compile(r"current: \d+"), "current: N"),
    (re.compile(r"Invalid value: \{.*\}: field is immutable"), "Invalid value: ...: field is immutable"),
    (re.compile(r"Syntax error: [^\n]*"), "Syntax error"),
    (re.compile(r"\bA_[a-z0-9]{5}\b"), "A_xxxxx"),
)


PODS = "/api/v1/namespaces/{ns}/pods"
CONFIGMAPS = "/api/v1/namespaces/{ns}/configmaps"
RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCE}/namespaces/{{ns}}/resourceclaims"
TEMPLATES = f"{RESOURCE}/namespaces/{{ns}}/resourceclaimtemplates"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


def pod(name: str, /, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that no scheduler takes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i:1"}], **spec},
    }


def config_map(name: str, /, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": data or {}}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: status and body; `body` is text where it is not JSON."""

    status: int
    body: Any


def normalise(value: Any, namespace: str) -> Any:
    """The value without parts that differ from run to run; nulls are absent, as they are to the API."""
    if isinstance(value, dict):
        result = {
            key: "MOMENT" if key in _MOMENTS and item else normalise(item, namespace)
            for key, item in value.items()
            if key not in _DROPPED and item is not None
        }
        if "causes" in result:  # some are found twice, by two layers of the real one
            causes = result["causes"]
            result["causes"] = [cause for index, cause in enumerate(causes) if cause not in causes[:index]]
        if "generateName" in result and "name" in result:
            result["name"] = result["name"][:-5] + "xxxxx"
        return result
    if isinstance(value, list):
        return [normalise(item, namespace) for item in value]
    if isinstance(value, str):
        text = value.replace(namespace, "NAMESPACE")
        for pattern, replacement in _REPLACED:
            text = pattern.sub(replacement, text)
        return text
    return value


@dataclass
class Side:
    """One of the two API servers, and the record of its answers.

    Attributes
    ----------
    namespace
        Of this run alone; stands for ``{ns}`` in paths.
    record
        Labels and normalised answers, in order.
    model
        The embedded API server, for the real one: it was asked first.
    """

    url: str
    token: str
    namespace: str
    tls: ssl.SSLContext | bool = True
    record: list[tuple[str, Any]] = field(default_factory=list)
    model: Side | None = None
    _session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Side:
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {self.token}"})
        if self.namespace != SHARED_NAMESPACE:
            created = await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
            assert created.status == 201, created
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        if self.namespace != SHARED_NAMESPACE:
            await self.send("DELETE", f"/api/v1/namespaces/{self.namespace}")
        await self._session.close()

    async def send(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", accept: str = ""
    ) -> Answer:
        """A request whose answer is not recorded."""
        assert self._session is not None
        headers = {"Content-Type": content_type} | ({"Accept": accept} if accept else {})
        data = None if body is None else json.dumps(body).replace("{ns}", self.namespace)
        url = self.url + path.replace("{ns}", self.namespace)
        async with self._session.request(method, url, data=data, headers=headers, ssl=self.tls) as response:
            text = await response.text()
        try:
            return Answer(response.status, json.loads(text))
        except ValueError:
            return Answer(response.status, text)

    async def ask(self, method: str, path: str, body: Any = None, *, only: str = "", **options: Any) -> Any:
        """A request whose answer is recorded.

        Parameters
        ----------
        only
            The dotted path of the part of the body to compare; errors are compared as a whole.

        Returns
        -------
        Any
            The body as it came.
        """
        answer = await self.send(method, path, body, **options)
        compared = answer.body
        if only and answer.status < 300:
            for part in only.split("."):
                compared = compared.get(part) if isinstance(compared, dict) else None
        self.note(f"{method} {path} {json.dumps(body)[:300]}", (answer.status, compared))
        return answer.body

    def note(self, label: str, value: Any) -> None:
        """Record something."""
        self.record.append((label, normalise(_as_json(value), self.namespace)))

    async def wait_status(self, path: str, status: int) -> Answer:
        """Ask until the answer has this status."""
        return await self.wait_for(path, lambda answer: answer.status == status)

    async def wait_for(self, path: str, condition: Callable[[Answer], object]) -> Answer:
        """Ask until the answer is as expected: controllers of the real control plane take their time."""
        last: Answer | None = None

        async def expected() -> Answer | None:
            nonlocal last
            last = await self.send("GET", path)
            return last if condition(last) else None

        return await eventually(expected, f"{path} is as expected", shows=lambda: last)

    async def watch(self, path: str, query: str, expected: int) -> list[Any]:
        """The events of a watch until these many came, and of one second more; without bookmarks, which may come at any time."""
        assert self._session is not None
        url = f"{self.url}{path}?watch=True&timeoutSeconds={PATIENCE_SECONDS:.0f}&{query}".replace(
            "{ns}", self.namespace
        )
        events: list[Any] = []
        async with self._session.get(url, ssl=self.tls) as response:

            async def read(least: float) -> None:
                while len(events) < least and (line := await response.content.readline()):
                    if (event := json.loads(line)).get("type") != "BOOKMARK":
                        events.append(event)

            for least, seconds in ((expected, PATIENCE_SECONDS), (math.inf, 1)):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await read(least)
        return events

    async def ask_watches(self, path: str, *queries: str) -> None:
        """Watches of the same time whose events are recorded: the real API server may send as many as the embedded one late."""
        model = [] if self.model is None else self.model.record[len(self.record) :]
        counts = [len(events) for _, events in model[: len(queries)]] or [0] * len(queries)
        watches = (self.watch(path, query, count) for query, count in zip(queries, counts, strict=True))
        for events in await asyncio.gather(*watches):
            self.note(f"WATCH {path}", events)


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def assert_same(embedded: Side, real: Side) -> None:
    """Compare the two records, one answer after the other; all differences are shown."""
    differences = [
        f"{label}\n  embedded: {json.dumps(ours, sort_keys=True)}\n  real:     {json.dumps(theirs, sort_keys=True)}"
        for (label, ours), (_, theirs) in zip(embedded.record, real.record, strict=True)
        if ours != theirs
    ]
    assert not differences, "\n".join(differences)
