"""``dra-spawner try``: start, look inside, remove, one choice after the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TextIO
from urllib.parse import quote, urlsplit

import aiohttp

from dra_spawner import names
from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.commands.trying.findings import PHASES, ChoiceState, Tried, judged
from dra_spawner.commands.trying.hub_client import HubClient, HubError, NoNamedServers
from dra_spawner.placeholders.planner.targets.choice_names import options_of, profile_of
from dra_spawner.profiles.syntax.problems import on_one_line
from dra_spawner.user_server.shown_devices import text

_EXIT_FAILED: Final = 1
_EXIT_INPUT: Final = 2
#: A server that hangs while it stops is named, and left to the hub.
_REMOVAL_SECONDS: Final = 120.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Reasons of events that end a phase.
_ENDS: Final = {"Scheduled": "scheduling", "Started": "container"}


@dataclass(frozen=True, slots=True)
class TryOptions:
    """Options of ``dra-spawner try``.

    Attributes
    ----------
    profiles
        Names of choices; all that the service knows if empty.
    user
        Whose servers are started; empty for the token's user.
    service
        Name of the service at the hub.
    """

    hub_url: str
    token: str
    profiles: tuple[str, ...] = ()
    user: str = ""
    service: str = names.HUB_SERVICE
    timeout_seconds: float = 600.0
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class _Question:
    """What is tried."""

    choice: str
    wants_devices: bool | None
    limit_seconds: float


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose servers are started."""

    name: str
    is_new: bool


def is_url(found: str) -> bool:
    """Whether a text is an address of a hub."""
    try:
        parts = urlsplit(found)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def run_try(options: TryOptions, output: TextIO, messages: TextIO) -> int:
    """Try choices, and print what was found.

    Returns
    -------
    int
        0 if every choice works, 1 if one does not or something was left, 2 if the hub cannot be used, and 128 plus the
        signal's number where a signal ended it.
    """
    progress = Progress(messages)
    try:
        return asyncio.run(_run(options, output, messages, progress))
    except HubError as error:
        progress.clear()
        messages.write(f"dra-spawner try: {on_one_line(str(error))}\n")
        return _EXIT_INPUT


async def _run(options: TryOptions, output: TextIO, messages: TextIO, progress: Progress) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    caught: list[signal.Signals] = []
    assert task is not None

    def stop(number: signal.Signals) -> None:
        progress.clear()
        messages.write("dra-spawner try: removing the server …\n")
        # A second signal must not interrupt the removal, which has a limit of its own.
        if not caught:
            caught.append(number)
            task.cancel()

    tried: list[Tried] = []
    left: list[str] = []
    with _signals(loop, stop):
        try:
            async with aiohttp.ClientSession(trust_env=True) as session:
                client = HubClient(session, options.hub_url, options.token)
                # What was made is removed also where the output cannot be written.
                async with contextlib.aclosing(_try_all(client, options, progress, left)) as choices:
                    async for each in choices:
                        progress.clear()
                        tried.append(each)
                        if not options.as_json:
                            output.write("\n".join(tried_lines(each)) + "\n")
                            output.flush()
        except asyncio.CancelledError:
            if not caught:
                raise
    progress.clear()
    for sentence in left:
        messages.write(f"dra-spawner try: {on_one_line(sentence)}\n")
    if options.as_json:
        output.write(report_json(options.hub_url, tried, left) + "\n")
    elif tried:
        working = sum(each.works for each in tried)
        output.write(f"{working} of {len(tried)} {'choice works' if len(tried) == 1 else 'choices work'}\n")
    if caught:
        return 128 + caught[0]
    return _EXIT_FAILED if left or not all(each.works for each in tried) else 0


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Handle signals that end a program; nothing where a thread runs the loop, as in tests."""
    handled = []
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        for number in _SIGNALS:
            loop.add_signal_handler(number, stop, number)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


async def _try_all(
    client: HubClient, options: TryOptions, progress: Progress, left: list[str]
) -> AsyncGenerator[Tried, None]:
    """Try one choice after the other. What cannot be removed is added to `left`, as sentences."""
    progress.begin("asking the hub")
    caller = await client.whose_token()
    if not options.user and caller.get("kind") == "service":
        raise HubError(f"The token is that of service {text(caller['name'])}: name a user for the servers with --user.")
    known = await _known_choices(client, options.service)
    choices = options.profiles or tuple(known)
    if not choices:
        raise HubError(
            f"The service {options.service} does not say which choices the hub has. Name some, for example gpu-slice."
        )
    if known and (unknown := [each for each in choices if each not in known and "," not in each]):
        raise HubError(f"The hub publishes no choice {unknown[0]!r}. It has: {', '.join(known)}.")
    async with _owner(client, options.user or str(caller["name"]), left) as owner:
        for number, choice in enumerate(choices, 1):
            progress.begin(f"{number} of {len(choices)}: {choice}")
            yield await _try_one(client, owner, _Question(choice, known.get(choice), options.timeout_seconds), left)


async def _known_choices(client: HubClient, service: str) -> dict[str, bool | None]:
    """Choices of the hub, and whether each asks for devices; empty if the service does not say it."""
    with contextlib.suppress(HubError):
        found = await client.get(f"services/{quote(service, safe='')}/api/profiles")
        items = found.get("items") if isinstance(found, Mapping) else None
        return {
            str(each.get("name")): wants if isinstance(wants := each.get("wants_devices"), bool) else None
            for each in (items if isinstance(items, Sequence) else ())
            if isinstance(each, Mapping)
        }
    return {}


@contextlib.asynccontextmanager
async def _owner(client: HubClient, name: str, left: list[str]) -> AsyncIterator[_Owner]:
    """The user whose servers are started; one that did not exist is deleted at the end."""
    if await client.user(name) is not None:
        yield _Owner(name, is_new=False)
        return
    try:
        await client.create_user(name)
    except asyncio.CancelledError:  # the hub may have made the user
        await _removed(client.delete_user(name))
        raise
    try:
        yield _Owner(name, is_new=True)
    finally:
        if problem := await _removed(client.delete_user(name)):
            left.append(f"User {name} is not deleted: {problem}")


async def _removed(removal: Coroutine[Any, Any, None]) -> str:
    """Remove something, also in a task that is cancelled; why it could not be removed, empty if it is gone."""

    async def remove() -> str:
        try:
            async with asyncio.timeout(_REMOVAL_SECONDS):
                await removal
        except TimeoutError:
            return f"it is not gone after {_REMOVAL_SECONDS:g} s."
        except HubError as error:
            return str(error)
        return ""

    doing = asyncio.ensure_future(remove())
    while not doing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({doing})
    return doing.result()


async def _try_one(client: HubClient, owner: _Owner, question: _Question, left: list[str]) -> Tried:
    seen, choice = _Seen(), question.choice
    server = f"try-{secrets.token_hex(3)}"
    try:
        async with asyncio.timeout(question.limit_seconds):
            try:
                url = await _started(client, owner.name, server, choice, seen)
            except NoNamedServers as error:
                if not owner.is_new:
                    raise NoNamedServers(f"{error} Name a new user with --user, who is deleted at the end.") from None
                server = ""
                url = await _started(client, owner.name, server, choice, seen)
            tried = judged(choice, await _look(client, url, seen), question.wants_devices)
    except TimeoutError:
        waits = f" The last it said: {seen.said}" if seen.said else ""
        tried = Tried(choice, ChoiceState.FAILS, f"It was not done within {question.limit_seconds:g} s.{waits}")
    except NoNamedServers:
        raise
    except HubError as error:
        state = ChoiceState.UNSEEN if "server" in seen.phases else ChoiceState.FAILS
        tried = Tried(choice, state, str(error))
    finally:
        seen.restart()
        if problem := await _removed(client.remove(owner.name, server)):
            left.append(f"Server {server!r} of {owner.name} is not removed: {problem}")
        seen.end("removal")
    return replace(tried, phases=dict(seen.phases), said=seen.said)


async def _started(client: HubClient, user: str, server: str, choice: str, seen: _Seen) -> str:
    """Order a server, and wait until it is ready; its address. The hub may answer the order when all is done."""

    async def follow() -> str:
        async for event in client.progress(user, server):
            seen.end("hub")
            seen.note(event)
            if event.get("failed"):
                raise HubError(text(event.get("message")).removeprefix("Spawn failed: ") or "The start has failed.")
            if event.get("ready"):
                return str(event.get("url") or "")
        raise HubError("The progress of the start has ended.")

    options = {"profile": profile_of(choice), **options_of(choice), names.TRIAL_OPTION: "true"}
    ordering, following = asyncio.create_task(client.start(user, server, options)), asyncio.create_task(follow())
    try:
        done, _ = await asyncio.wait({ordering, following}, return_when=asyncio.FIRST_COMPLETED)
        if ordering in done:
            ordering.result()
        url = await following
    finally:
        for each in (ordering, following):
            each.cancel()
        await asyncio.gather(ordering, following, return_exceptions=True)
    seen.end("server")
    return url


async def _look(client: HubClient, server_url: str, seen: _Seen) -> Mapping[str, Any]:
    """What a server has inside."""
    kernel = await client.kernel(server_url)
    async with client.channels(kernel) as socket:
        seen.end("kernel")
        found = await client.look_inside(socket)
        seen.end("cell")
    return found


class _Seen:
    """Seconds of the phases of a try, and the last line of its progress."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self.said = ""
        self.restart()

    def restart(self) -> None:
        """Begin a phase now."""
        self._since = time.monotonic()

    def end(self, phase: str) -> None:
        """End a phase, and begin the next one; nothing for a phase that has ended."""
        if phase in self.phases:
            return
        now = time.monotonic()
        self.phases[phase] = round(now - self._since, 2)
        self._since = now

    def note(self, event: Mapping[str, Any]) -> None:
        """Take an event of the start's progress."""
        raw = event.get("raw_event")
        reason = raw.get("reason") if isinstance(raw, Mapping) else ""
        if isinstance(reason, str) and (phase := _ENDS.get(reason)) is not None:
            self.end(phase)
        if not event.get("ready"):
            self.said = text(raw.get("message") if isinstance(raw, Mapping) else event.get("message")) or self.said


_WIDTH: Final = max(map(len, ChoiceState))


def tried_lines(tried: Tried) -> Iterator[str]:
    """Lines about one choice."""
    yield f"{tried.state:{_WIDTH}}  {on_one_line(tried.choice)}: {on_one_line(tried.sentence)}"
    blank = " " * _WIDTH
    for each in tried.gpus:
        yield f"{blank}  nvidia-smi: {each}"
    phases = ", ".join(f"{name} {tried.phases[name]:.1f} s" for name in PHASES if name in tried.phases)
    if phases:
        yield f"{blank}  {phases}"


def report_json(hub_url: str, tried: Sequence[Tried], left: Sequence[str]) -> str:
    """The report as JSON.

    Parameters
    ----------
    left
        What was not removed, as sentences.
    """
    counts = {state.value: sum(each.state is state for each in tried) for state in ChoiceState}
    items = [asdict(each) for each in tried]
    return json.dumps({"hub": hub_url, **counts, "tried": items, "not_removed": list(left)}, indent=1)
