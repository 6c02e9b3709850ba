"""Allowed requests to the service of a real hub, and hostile requests: strange bytes, other sites, many at once."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Final
from urllib.parse import parse_qs, urlsplit

import aiohttp

from tests.adversary.hostile_requests import PARAMETERS
from tests.adversary.raw_client import Answer, RawClient, request
from tests.api_table import TABLE
from tests.cluster.under_test import ClusterUnderTest
from tests.examples import example_count
from tests.integration.hub_with_service import TOKEN, Service, hub_with_service, log_in
from tests.polling import eventually
from tests.service.http.caller_table import ALLOWED

PREFIX: Final = "/services/dra-spawner/"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
CALLERS: Final = {
    "nobody": "nobody",
    "wrong": "expired token",
    "expired": "expired token",
    "user": "user",
    "other": "other user",
    "prometheus": "prometheus",
    "hub": "hub",
    "teacher": "teacher",
    "reader": "reader",
    "operator": "operator",
    "manager": "admin",
    "admin": "admin",
    "browser": "nobody",
}
"""Who asks, and its column in docs/reference/api.md: without a token, with one that nobody has or that is over, and those whom the
hub knows; `user` and `other` ask about the server of `user`; `manager` has the scope of administrators, `admin` administers the hub; `browser` has the login of an
administrator, and asks from another site."""

ADDRESSES: Final = sorted({address for _, address in TABLE})
STATIC: Final = "static/style.css"
STREAM: Final = "api/events"
"""It is answered for 45 s."""
DONE: Final = {
    ("GET", "oauth_callback"): 400,
    ("POST", "api/placements"): 404,
    ("POST", "api/placeholders/resume"): 404,
    ("GET", "api/calendar-entries/{id}"): 404,
    ("GET", "api/classes/{id}"): 404,
    ("GET", "api/class-requests/{id}"): 404,
    ("GET", "classes.ics"): 404,
    **{("DELETE", f"api/{each}"): 409 for each in ("classes/{id}", "classes/{id}/max", "class-requests/{id}")},
    ("DELETE", "api/calendar-entries/{id}"): 409,
    ("POST", "api/idle-servers/keep"): 409,
    ("DELETE", "api/tickets/{id}"): 404,
    ("DELETE", "api/placeholders/{name}"): 404,
    ("DELETE", "api/placeholders/{name}/reservation"): 404,
    ("DELETE", "api/servers/{user}"): 409,
    ("GET", "api/devices/{device}/drain"): 404,
    **{(method, "api/devices/{device}/drain"): 409 for method in ("PUT", "DELETE")},
    **{("GET", each): 404 for each in ADDRESSES if each.startswith("api/settings/")},
    **{("DELETE", each): 409 for each in ADDRESSES if each.startswith("api/settings/")},
}
"""What callers are answered who may do it, where nothing is published or known; 400 to other changes, 200 to readers."""
POSTS: Final = [address for method, address in TABLE if method == "POST"]
QUESTION: Final = json.dumps({"shape": "0" * 16, "pod": "jupyter-ada", "namespace": "hub"}).encode()
RESUMING: Final = json.dumps({"profile": "gpu-slice"}).encode()
PROBLEM: Final = "application/problem+json"
SECRETS: Final = ("n1", "gpu-0", "gpu.example.com", "a100", "jupyter-ada")
"""Of the cluster: none of it is told to who may not know."""


def path_of(address: str) -> str:
    return PREFIX + re.sub(r"{\w+}", "x", address.replace("{user}", "user"))


class Callers:
    """Sends requests to where the service listens itself, as each of `CALLERS`."""

    def __init__(self, service: Service, headers: dict[str, tuple[str, ...]]) -> None:
        self.service = service
        self.headers = headers

    async def send(self, caller: str, method: str, target: str, *headers: str, body: bytes = b"") -> Answer:
        length = (f"Content-Length: {len(body)}",) if body else ()
        wanted = request(method, target, *self.headers[caller], *headers, *length, "Connection: close", body=body)
        return await self.send_bytes(wanted)

    async def send_bytes(self, data: bytes) -> Answer:
        """The answer; of a service that waits in vain for the hub, or for its cluster, the next one."""

        async def answer() -> Answer | None:
            async with RawClient(self.service.own_url) as client:
                await client.send(data)
                found = Answer(await client.until_closed(60))
                return None if found.status in (502, 503) else found

        found: Answer = await eventually(answer, "it is answered")
        return found


async def test_requests_at_the_service_of_a_hub(embedded_cluster: ClusterUnderTest) -> None:
    """One hub for all of them: it takes longer to start than they do."""
    # The leader of a busy machine leads to the end.
    async with hub_with_service(embedded_cluster, "c.DRASpawnerService.lease_seconds = 60\n") as service:
        await service.ready()
        callers = await all_callers(service)
        await history_is_open(callers)
        await check_allowed_requests(callers)
        await check_other_sites(callers)
        await check_redirects(callers)
        await check_secrets_are_not_logged(callers)
        await check_strange_text(callers)
        found = await fuzz(callers, example_count(1_220))
        assert found[200]
        assert "Traceback" not in service.hub.log.read_text()
        assert "Uncaught exception" not in service.hub.log.read_text()


async def all_callers(service: Service) -> Callers:
    tokens = {"wrong": "f" * 32, "prometheus": f"{TOKEN}prometheus", "hub": f"{TOKEN}service"}
    for caller, user in (
        ("user", "user"),
        ("other", "other"),
        ("teacher", "teacher"),
        ("reader", "watcher"),
        ("operator", "operator"),
        ("manager", "manager"),
        ("admin", "admin"),
    ):
        tokens[caller] = await service.token(user)
    _, made = await service.hub.request("POST", "/users/admin/tokens", {"expires_in": 1})
    tokens["expired"] = made["token"]

    async def is_over() -> bool:
        headers = {"Authorization": f"token {made['token']}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{service.hub.url}/hub/api/user") as answer,
        ):
            return answer.status == 403

    await eventually(is_over, "the token is over")
    headers = {caller: (f"Authorization: token {token}",) for caller, token in tokens.items()}
    cookies = await cookies_of(service, "admin")
    other_site = ("Origin: http://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors")
    return Callers(service, {**headers, "nobody": (), "browser": (f"Cookie: {cookies}", *other_site)})


async def history_is_open(callers: Callers) -> None:
    """The leader opens it in a thread."""

    async def is_open() -> bool:
        return (await callers.send("admin", "GET", f"{PREFIX}api/misses")).status == 200

    await eventually(is_open, "the history is open")


async def cookies_of(service: Service, user: str) -> str:
    """Of a browser that is logged in at the service."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        await log_in(session, service.hub.url, user)
        async with session.get(service.url, headers={"Sec-Fetch-Mode": "navigate"}) as page:
            assert page.status == 200
    return "; ".join(f"{each.key}={each.value}" for each in jar if each["path"] in ("/", PREFIX))


async def check_allowed_requests(callers: Callers) -> None:
    """Each address, each caller, each method, as docs/reference/api.md has it."""
    for caller, column in CALLERS.items():
        for address in (*ADDRESSES, STATIC):
            allowed = {method for method, known in TABLE if known == address} or {"GET"}
            for method in METHODS:
                if (method, address) == ("GET", STREAM) and TABLE["GET", STREAM][column] == ALLOWED:
                    continue  # HEAD is answered at once
                body = RESUMING if address == "api/placeholders/resume" else QUESTION
                answer = await callers.send(
                    caller, method, path_of(address), body=body if method in ("POST", "PUT") else b""
                )
                declared = "GET" if method == "HEAD" else method
                if declared not in allowed:
                    assert answer.status == 405, (caller, method, address, answer.raw)
                    assert set(answer.headers["allow"].split(", ")) == allowed | (
                        {"HEAD"} if "GET" in allowed else set()
                    )
                    check_answer(answer, address)
                    continue
                cell = TABLE.get((declared, address), {}).get(column, ALLOWED)
                done = DONE.get((declared, address), 200 if declared == "GET" else 400)
                assert answer.status != 401 or "www-authenticate" in answer.headers
                assert answer.status == (done if cell == ALLOWED else int(cell)), (caller, method, address, answer.raw)
                check_answer(answer, address)
                if answer.status >= 400:
                    assert "json" not in answer.headers["content-type"] or answer.headers["content-type"] == PROBLEM


def check_answer(answer: Answer, row: str) -> None:
    """A refusal contains nothing of the cluster; every answer has the headers that protect browsers."""
    if answer.status != 200:
        assert not [each for each in SECRETS if each in answer.body.decode()], answer.raw
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers
    if not row.startswith("static"):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"


async def check_other_sites(callers: Callers) -> None:
    """A page of another site has an administrator's cookies, and can do nothing with them."""
    (cookie, *_) = callers.headers["browser"]
    xsrf = re.findall(r"_xsrf=([^;]+)", cookie)
    question = QUESTION.decode()
    forms = (
        ("Content-Type: text/plain",),
        ("Content-Type: application/x-www-form-urlencoded",),
        ("Content-Type: application/json", "Sec-Fetch-Site: same-site"),
        ("Content-Type: application/json", "Sec-Fetch-Site: same-origin"),
    )
    for headers in forms:
        for address in POSTS:
            answer = await callers.send("nobody", "POST", path_of(address), cookie, *headers, body=question.encode())
            assert answer.status == 401, answer.raw
    # With the page's own token an administrator's login is let in, and has no right to change anything.
    own_page = ("Content-Type: application/json", "Sec-Fetch-Site: same-origin")
    for address in POSTS:
        answers = [
            await callers.send(
                "nobody", "POST", f"{path_of(address)}?_xsrf={each}", cookie, *own_page, body=question.encode()
            )
            for each in xsrf
        ]
        # Everybody may ask for a class, if the request makes sense.
        of_the_hub = dict.fromkeys(("api/placements", "api/standing", "api/idle-servers/keep"), 401)
        expected = {**of_the_hub, "api/class-requests": 400}.get(address, 403)
        assert expected in [each.status for each in answers], [each.raw for each in answers]
        assert {each.status for each in answers} <= {401, expected}
    await check_actions(callers)
    # From the page itself the same cookies do, for reading.
    same = ("Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
    assert (await callers.send("nobody", "GET", PREFIX, cookie, *same)).status == 200


async def check_actions(callers: Callers) -> None:
    """The page's button resumes placeholders; a page of another site lacks the token that only the page has."""
    target, question = f"{PREFIX}api/placeholders/resume", b'{"profile": "gpu-slice"}'
    kind = "Content-Type: application/json"
    modes = ("Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty")
    # Nothing is published, so there is no such choice. An administrator's login has no right to change servers.
    for user, expected in (("operator", 404), ("manager", 404), ("admin", 403), ("watcher", 403)):
        cookie = f"Cookie: {await cookies_of(callers.service, user)}"
        tokens = re.findall(r"_xsrf=([^;]+)", cookie)
        for site in ("cross-site", "same-site", "same-origin"):
            for query in ("", "?_xsrf=", "?_xsrf=x", f"?_xsrf={tokens[0][:-2]}"):
                headers = (cookie, kind, f"Sec-Fetch-Site: {site}", *modes)
                answer = await callers.send("nobody", "POST", target + query, *headers, body=question)
                assert answer.status == 401, answer.raw
        headers = (cookie, kind, "Sec-Fetch-Site: same-origin", *modes)
        answers = [
            await callers.send("nobody", "POST", f"{target}?_xsrf={each}", *headers, body=question) for each in tokens
        ]
        # One of these cookies is for the service.
        assert expected in [each.status for each in answers], [each.raw for each in answers]
    for body in (
        b"",
        b"profile=gpu-slice",
        b"\xff",
        b"[]",
        b"1" * 100_000,
        b"[" * 100_000,
        b'{"profile": 1}',
        b'{"profile": ""}',
        b'{"profile": "\\u0000"}',
        b'{"shape": "x"}',
        b'{"profile": "\\ud800"}',
    ):
        answer = await callers.send("admin", "POST", target, body=body)
        assert answer.status in (400, 404), (body[:50], answer.raw)
        assert answer.message.endswith(".")


async def check_redirects(callers: Callers) -> None:
    """A user who follows a link to the service reaches the service, or the hub."""
    targets = ["", "?next=//evil.example", "?next=https://evil.example/", "?after=//evil.example/"]
    for target in targets:
        for headers in ((), ("X-Forwarded-Host: evil.example",), ("Referer: http://evil.example/",)):
            answer = await callers.send("nobody", "GET", PREFIX + target, *headers)
            assert answer.status == 302
            where = urlsplit(answer.headers["location"])
            assert (where.scheme, where.netloc, where.path) == ("", "", "/hub/api/oauth2/authorize")
            assert parse_qs(where.query)["redirect_uri"] == [f"{PREFIX}oauth_callback"]
    for target in (
        f"http://evil.example{PREFIX}",
        f"//evil.example{PREFIX}",
        f"{PREFIX}/evil.example",
        "//evil.example/%2f..",
        f"{PREFIX}static//evil.example/",
        f"{PREFIX}static/..",
        f"{PREFIX}static/../web_application.py",
        f"{PREFIX}static/%2e%2e/web_application.py",
        f"{PREFIX}static/",
    ):
        answer = await callers.send("nobody", "GET", target)
        assert answer.status in (400, 403, 404), answer.raw
        assert "location" not in answer.headers
        assert b"import" not in answer.body
    refused = await callers.send(
        "nobody", "GET", f"{PREFIX}oauth_callback?error=x&error_description=<script>alert(1)</script>"
    )
    assert refused.status == 400
    assert b"&lt;script&gt;" in refused.body
    assert b"<script>" not in refused.body
    forged = f"{PREFIX}oauth_callback?code=x&state=forged&next=//evil.example"
    for cookies in ((), ("Cookie: service-dra-spawner-oauth-state=forged",)):
        answer = await callers.send("nobody", "GET", forged, *cookies)
        assert answer.status == 403
        assert "location" not in answer.headers


async def check_secrets_are_not_logged(callers: Callers) -> None:
    """A code or a token in an address is in nobody's log, be it refused or not; straight, and by the hub's proxy."""
    service = callers.service
    secrets = ("secret-code-1", "secret-state-2", "secret-token-3")
    query = f"code={secrets[0]}&state={secrets[1]}&token={secrets[2]}"
    for path in ("oauth_callback", "api/nodes", *POSTS, "", "nothing", "static/style.css", "static/nothing"):
        for target in (f"{PREFIX}{path}?{query}", f"{PREFIX}{path}?{query}&after=%ff&limit=x"):
            for caller in ("nobody", "reader"):
                await callers.send(caller, "GET", target)
                await callers.send(caller, "POST", target)
        await service.get(f"{path}?{query}", allow="")
    log = service.hub.log.read_text()
    assert "GET /services/dra-spawner/oauth_callback" in log
    for secret in secrets:
        assert secret not in log
    for headers in callers.headers.values():
        for header in headers:
            assert header.split()[-1] not in log or "Authorization" not in header


async def check_strange_text(callers: Callers) -> None:
    """Text that is none is refused with a sentence, or is nobody's name."""
    half = b'"\\ud800"'
    for target in (
        "api/nodes?name=%s",
        "api/nodes?continue=%s",
        "api/profiles?name=%s",
        "api/decisions?kind=%s",
        "?after=%s",
    ):
        for text in ("%00", "a%00b", "%ed%a0%80", "%ff", "%c0%80", "%1f", "%ud800", "%", "%0d%0aX:y"):
            answer = await callers.send("admin", "GET", PREFIX + target % text)
            assert answer.status in (200, 400, 404), (target, text, answer.raw)
            if answer.status == 400 and target[0] != "?":
                assert "allowed: " in answer.message
            assert "x" not in answer.headers
    for target in ("static/%00", "static/%ed%a0%80", "static/a%00.css", "api/%00", "%00", "static/" + "a" * 5_000):
        assert (await callers.send("nobody", "GET", PREFIX + target)).status in (400, 403, 404), target
    bodies = [b'{"shape": %s}' % half, b"{%s: 1}" % half, half, b"\xff", b"\x00", b'{"shape": "\x00"}', b"[" * 100_000]
    bodies += [QUESTION[:-1] + b', "definition": %s}' % half, b"1" * 100_000, b'{"shape": NaN}', b"\xef\xbb\xbf{}", b""]
    bodies += [b'{"line": %s}' % half, b'{"line": "1 of \\u0000 now"}', b'{"line": "%s of a now"}' % (b"9" * 5_000)]
    for body in bodies:
        for row in POSTS:
            answer = await callers.send("manager", "POST", f"{PREFIX}{row}", body=body)
            # An empty object approves a request as it is; there are no placeholders to be set. A hub's question may have
            # more than the service knows, and idle servers are not looked for here.
            is_valid = body == b"\xef\xbb\xbf{}" and row.endswith("/approval")
            is_valid |= body.startswith(QUESTION[:-1]) and row.endswith("/keep")
            assert answer.status in (400, 404, 409 if is_valid else 400), (body[:50], answer.raw)
            assert answer.message.endswith(".")
    for header in ("\x00", "\x01", "\xff", "a\x00b", "token \x00", "token \xff", "token", "Bearer a b", "Basic YTpi"):
        answer = await callers.send("nobody", "GET", f"{PREFIX}api/nodes", f"Authorization: {header}")
        assert answer.status in (400, 401), (header, answer.raw)
        answer = await callers.send("nobody", "GET", PREFIX, f"Cookie: jupyterhub-session-id={header}; a={header}")
        assert answer.status in (302, 400), (header, answer.raw)


async def fuzz(callers: Callers, count: int) -> Counter[int]:
    """Random requests, the same each time; how often each status was answered."""
    random = Random(20261122)
    found: Counter[int] = Counter()
    limit = asyncio.Semaphore(8)

    async def one(caller: str, data: bytes) -> None:
        async with limit:
            answer = await callers.send_bytes(data)
        found[answer.status] += 1
        assert answer.status in (0, 200, 302, 304, 400, 401, 403, 404, 405, 409, 431), (data, answer.raw)
        if answer.status == 302:
            # To the hub's login, or to the page of people without rights.
            to = ("/hub/api/oauth2/authorize?", f"{PREFIX}classes")
            assert answer.headers["location"].startswith(to), (data, answer.raw)
        if caller in ("nobody", "wrong", "expired", "user", "browser"):
            assert not [each for each in SECRETS if each in answer.body.decode("latin-1")], (data, answer.raw)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            caller = random.choice(list(CALLERS))
            tasks.create_task(one(caller, random_request(random, callers.headers[caller])))
    return found


_TEXTS: Final = (
    "", "x", "0", "-1", "9" * 30, "%00", "%ed%a0%80", "%ff", "<script>", "..", "%2e%2e%2f", "'\"", "a" * 2_000,
)  # fmt: skip
_HEADERS: Final = (
    "Accept: */*", "Cookie: x", "Cookie: service-dra-spawner=x", "Content-Type: multipart/form-data; boundary=x",
    "Content-Encoding: gzip", "X-Forwarded-For: ::1", "X-HTTP-Method-Override: POST", "Upgrade: websocket",
    "Sec-Fetch-Mode: websocket", "If-None-Match: *", "Range: bytes=0-", "Range: bytes=-1,5-", "Origin: null",
    "Authorization: DRA-Spawner-Replica 1.2.3.4", "Host: evil.example", "Expect: 100-continue", "X: \xff", "TE: trailers",
)  # fmt: skip
_BODIES: Final = (b"", b"{}", b"[]", b"null", QUESTION, b'"\\ud800"', b"\xff\x00", b"--x--", b"[" * 5_000, b"a=b&c=d")


def random_request(random: Random, credentials: Iterable[str]) -> bytes:
    path = path_of(random.choice((*sorted({*ADDRESSES} - {STREAM}), STATIC)))
    match random.randrange(8):
        case 0:
            index = random.randrange(len(path) + 1)
            path = path[:index] + random.choice(_TEXTS) + path[index:]
        case 1:
            path += random.choice(("/", "//", "/..", ";x", "%20", "/x", "?", "#x"))
        case 2:
            path = path.removeprefix(random.choice((PREFIX[:-1], "/services", "/")))
    query = "&".join(f"{random.choice(PARAMETERS)}={random.choice(_TEXTS)}" for _ in range(random.randrange(3)))
    body = random.choice(_BODIES)
    headers = [*credentials, *random.sample(_HEADERS, random.randrange(3)), "Connection: close"]
    if body:
        headers.append(f"Content-Length: {len(body)}")
    method = random.choice((*METHODS, "GET", "GET", "POST", "TRACE", "CONNECT", "get", "PROPFIND"))
    return request(method, (path or "*").replace(" ", "") + (f"?{query}" if query else ""), *headers, body=body)
