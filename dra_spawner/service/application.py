"""``dra-spawner service``: watches the cluster, leads or stands by, and answers HTTP requests.

It runs as a service that JupyterHub manages, or as a Deployment of its own (an external service).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from jupyterhub.services.auth import HubOAuth
from tornado.netutil import bind_sockets
from traitlets import Bool, Float, Integer, TraitError, Unicode, default, validate
from traitlets.config import Application, Configurable, catch_config_error

from dra_spawner import __version__, names
from dra_spawner.common.owned_tasks import run_again
from dra_spawner.common.plain_passwords import passwords_beside
from dra_spawner.fairness.budget_settings import read_budgets
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.client.connect import ClusterNotFound, cluster_fingerprint, connect, own_namespace
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.leader import LeaderElector, LeaseTimes
from dra_spawner.placeholders.controller.round.reconciler import ReconcilerTimes
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.ahead.hub_spawns import HubSpawns
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.cluster_support import cluster_version_problem, follow_release, learn_release
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.history_recording import HistoryRecording
from dra_spawner.service.http.requests.limited_server import LimitedServer
from dra_spawner.service.http.web_application import web_application
from dra_spawner.service.idle.hub_reports import HubReports
from dra_spawner.service.idle.idle_servers import IdleServers
from dra_spawner.service.leader_label import LeaderLabel
from dra_spawner.service.log_format import ServiceLogFormatter, join_logs, log_request
from dra_spawner.service.metrics.demand_metrics import register_calendars, register_demand
from dra_spawner.service.metrics.history_metrics import register_history
from dra_spawner.service.metrics.idle_metrics import register_idle_servers
from dra_spawner.service.metrics.placeholder_metrics import register_placeholders
from dra_spawner.service.metrics.wait_metrics import register_tickets, register_times, register_waits
from dra_spawner.service.self_examination import SelfExamination, questions_of_service
from dra_spawner.service.start_answer import StartAnswer, interface_of
from dra_spawner.service.tickets.ticket_service import TicketService
from dra_spawner.service.traits.class_traits import ClassTraits
from dra_spawner.service.traits.cluster_traits import ClusterTraits
from dra_spawner.service.traits.demand_traits import DemandTraits
from dra_spawner.service.traits.history_traits import HistoryTraits
from dra_spawner.service.traits.hub_traits import HubTraits
from dra_spawner.service.traits.idle_traits import IdleTraits
from dra_spawner.service.traits.limit_traits import LimitTraits
from dra_spawner.service.traits.node_kind_settings import read_node_kinds
from dra_spawner.service.traits.placeholder_traits import PlaceholderTraits
from dra_spawner.service.traits.unknown_settings import unknown_settings
from dra_spawner.service.wait_learning import WaitLearning
from dra_spawner.service.web_settings import cookie_secret
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.versions import installed_problems

_RETRY_SECONDS: Final = 15.0
_CLOSE_SECONDS: Final = 5.0


class DRASpawnerService(
    HubTraits,
    ClassTraits,
    ClusterTraits,
    DemandTraits,
    HistoryTraits,
    IdleTraits,
    LimitTraits,
    PlaceholderTraits,
    Application,
):
    """The service beside the hub."""

    name = names.SERVICE
    version = __version__
    description = (
        "Watches the devices of a JupyterHub's cluster, shows their use, and creates placeholders for its users."
    )
    examples = """
    dra-spawner service --generate-config > dra_spawner_service_config.py
    dra-spawner service --config dra_spawner_service_config.py
    """
    aliases = {  # noqa: RUF012 (as traitlets wants it)
        ("f", "config"): "DRASpawnerService.config_file",
        "kubeconfig": "DRASpawnerService.kubeconfig",
        "url": "DRASpawnerService.url",
        "log-level": "Application.log_level",
    }
    flags = {  # noqa: RUF012
        "debug": ({"Application": {"log_level": logging.DEBUG}}, "Log more."),
        "generate-config": (
            {"DRASpawnerService": {"generate_config": True}},
            "Print a configuration file with every setting and its default, and exit.",
        ),
    }
    classes = [HubOAuth]  # noqa: RUF012
    start_answer: StartAnswer | None = None
    unknown: tuple[str, ...] = ()
    """Unknown settings of the configuration file, as sentences."""
    unsupported: tuple[str, ...] = ()
    """Unsupported versions of what is installed, as sentences."""

    @property
    def _all_classes(self) -> tuple[type[Configurable], ...]:
        return (type(self), *self.classes)

    @default("log_level")
    def _default_log_level(self) -> int:
        return logging.INFO

    log_format = Unicode(
        "%(color)s[%(levelname)1.1s %(asctime)s.%(msecs).03d %(name)s]%(end_color)s %(message)s",
        help="Format of the log: `json` for one JSON object a line, or a format of Python's `logging`.",
    ).tag(config=True)

    _log_formatter_cls = ServiceLogFormatter

    generate_config = Bool(False, help="Print a configuration file and exit.").tag(config=True)

    config_file = Unicode(
        "dra_spawner_service_config.py",
        help="Configuration file to load; the default one may be missing.",
    ).tag(config=True)

    url = Unicode(
        help="""
        Where to listen: `http://<address>:<port>`. By default `$JUPYTERHUB_SERVICE_URL`, which the hub sets, else port
        8181 of the loopback interface.

        With a host name other than `localhost` (zero-to-jupyterhub: `http://hub:8181`) it listens on all interfaces.
        """
    ).tag(config=True)

    @default("url")
    def _default_url(self) -> str:
        return os.environ.get("JUPYTERHUB_SERVICE_URL") or "http://127.0.0.1:8181"

    @validate("url")
    def _validate_url(self, proposal: Any) -> str:
        value: str = proposal["value"]
        try:
            parts = urlsplit(value)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme != "http" or not parts.hostname or port is None:
            raise TraitError(f"url must be like http://127.0.0.1:8181, with a port, not {value!r}")
        return value

    prefix = Unicode(
        help="Path of all addresses. By default `$JUPYTERHUB_SERVICE_PREFIX`, which the hub sets, else `/`."
    ).tag(config=True)

    @default("prefix")
    def _default_prefix(self) -> str:
        return os.environ.get("JUPYTERHUB_SERVICE_PREFIX") or "/"

    @validate("prefix")
    def _validate_prefix(self, proposal: Any) -> str:
        return f"/{proposal['value'].strip('/')}/".replace("//", "/")

    namespace = Unicode(help="Namespace of the Lease; by default the pod's own (`$POD_NAMESPACE`).").tag(config=True)

    @default("namespace")
    def _default_namespace(self) -> str:
        return own_namespace()

    lease_name = Unicode(
        names.LEASE, help="The Lease by which replicas elect their leader. Two hubs in a namespace need two names."
    ).tag(config=True)
    lease_seconds = Float(
        15.0,
        min=2.0,
        help="""
        Seconds without a renewal of the Lease after which another replica leads. Without an answer of the API server
        the leader stops after two thirds of this time, so that two replicas never lead at once.
        """,
    ).tag(config=True)

    pod_name = Unicode(
        help="""
        This replica's own pod, in `namespace`. It has the label `hub.jupyter.org/dra-spawner-leader: "true"` while this
        replica leads, so that a Service can select the leader. The account needs the right to patch pods there. By
        default `$POD_NAME`; empty sets no label, as for a service that the hub manages.
        """
    ).tag(config=True)

    @default("pod_name")
    def _default_pod_name(self) -> str:
        return os.environ.get("POD_NAME", "")

    max_staleness_seconds = Float(
        60.0,
        min=1.0,
        help="""
        Greatest age of the data about the cluster, in seconds. With older data nothing is decided, and `readyz` answers
        503. In a quiet cluster the data get 10 s old.
        """,
    ).tag(config=True)
    decisions_kept = Integer(
        1000, min=1, help="How many decisions `api/decisions` can show; each takes about half a kilobyte."
    ).tag(config=True)

    @catch_config_error
    def initialize(self, argv: Sequence[str] | None = None) -> None:
        """Read the command line and the configuration file; the command line overrides the file."""
        self.parse_command_line(list(argv) if argv is not None else None)
        wrong = (*unknown_settings(self.cli_config, self._all_classes), *map(_unexpected, self.extra_args))
        if wrong:
            raise TraitError(" ".join(wrong))
        if self.generate_config:
            return
        from_command_line = self.cli_config.copy()
        is_default = self.config_file == self.traits()["config_file"].default_value
        path = Path(self.config_file)
        if path.exists():
            if plain := " ".join(passwords_beside(path)):
                raise TraitError(plain)
            self.load_config_file(path.name, path=str(path.absolute().parent))
        elif not is_default:
            raise TraitError(f"there is no configuration file {self.config_file}")
        self.update_config(from_command_line)
        # A typing error must not stop the service, and with it all placeholders; the page names it.
        self.unknown = unknown_settings(self.config, self._all_classes)
        self.unsupported = installed_problems()
        for problem in (*self.unknown, *self.unsupported):
            self.log.warning("%s", problem)

    def start(self) -> None:
        """Run until SIGTERM, SIGINT or a failure, and exit with the code."""
        if self.generate_config:
            print(self.generate_config_file())  # noqa: T201 (the output of the command)
            return
        join_logs(self.log)
        self.exit(asyncio.run(self.run()))

    async def run(self) -> int:
        """Run until SIGTERM, SIGINT or a failure; returns the exit code."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        context = self.new_context()
        try:
            server = self._listen(context)
        except OSError as error:
            self.log.critical("Cannot listen: url=%s error=%s", self.url, error)
            return 1
        work = asyncio.create_task(self.work(context), name="service")
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((work, stopping), return_when=asyncio.FIRST_COMPLETED)
        code = 0
        if work.done():
            failure = work.exception()
            if isinstance(failure, ClusterNotFound):
                self.log.critical("%s", failure)
                code = 2
            else:
                self.log.critical("The service has failed.", exc_info=failure)
                code = 1
        else:
            self.log.info("Stopping.")
        for task in (work, stopping):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        server.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await server.close_all_connections()
        return code

    def new_context(self) -> ServiceContext:
        """The context of the handlers, before the cluster is found."""
        token = os.environ.get("JUPYTERHUB_API_TOKEN", "")
        if not token:
            self.log.warning("There is no JupyterHub ($JUPYTERHUB_API_TOKEN is empty): only healthz and readyz answer.")
        return ServiceContext(
            web=self.web_settings(token),
            decisions=DecisionLog(self.decisions_kept),
            max_staleness_seconds=self.max_staleness_seconds,
            node_pool_labels=tuple(self.node_pool_labels),
            budgets=read_budgets(self.budgets),
            enforces_budgets=self.enforce_budgets,
            class_limits=self.limits_of_classes(),
            settings_problems=(*self.unknown, *self.unsupported),
        )

    async def work(self, context: ServiceContext) -> None:
        """Watch the cluster and take part in the election, until cancelled."""
        async with await self._connected(context) as api:
            watch = self.new_watch(api)
            if problem := await learn_release(api, watch, self.kubernetes_feature_gates):
                context.settings_problems += (problem,)
            controller = self.new_controller(api, watch, context.decisions)
            tickets = context.tickets = TicketService(api, controller, context.is_over_budget)
            context.follow(watch, controller, read_node_kinds(self.node_kinds))
            register_placeholders(context.registry, controller)
            register_times(context.registry, controller)
            register_tickets(context.registry, tickets.followed)
            hub_api = context.web.hub_auth.api_url if context.web.hub_auth is not None else ""
            gates, idle_settings = self.kubernetes_feature_gates, self.idle_settings()
            questions = questions_of_service(
                controller.settings, self.lease_name, hub_api, gates, stops_idle_servers=bool(idle_settings.policies)
            )
            context.examination = SelfExamination(
                api,
                questions,
                refused=lambda: controller.published.refused,
                problems=context.problems_of_settings,
            )
            elector = context.elector = self.new_elector(api)
            if self.pod_name:
                pod = ObjectKey(self.namespace, self.pod_name)
                context.leader_label = LeaderLabel(api, watch, elector, pod)
            history = context.history = HistoryRecording(
                self.history_settings(), controller, context.decisions, cluster=cluster_fingerprint(api)
            )
            register_history(context.registry, history)
            register_demand(context.registry, controller.scale_ahead)
            assert context.rehearsals is not None  # `follow` has set it
            spawns = HubSpawns.of(context.web.hub_auth, controller) if context.web.hub_auth is not None else None
            scale_ahead = context.scale_ahead = ScaleAheadRunner(
                controller, history, context.rehearsals, spawns, self.message_target()
            )
            scale_ahead.samples.on_add = lambda: context.feed.note(("placeholders", "timeline"))
            register_calendars(context.registry, controller, scale_ahead.rehearsed)
            assert context.availability is not None  # `follow` has set it
            waits = context.waits = WaitLearning(controller, context.availability, history)
            register_waits(context.registry, waits.calibration)
            hub = HubReports.of(context.web.hub_auth)
            idle = IdleServers(idle_settings, controller, api, context.decisions, hub, elector.require, tickets)
            context.idle = idle
            register_idle_servers(context.registry, idle)
            # The watch begins when all that follows it is there. The history ends last: a database that hangs must not
            # delay the release of the Lease.
            async with history, watch, controller, tickets, asyncio.TaskGroup() as tasks:
                # An error of one task ends the process: a leader whose watch has ended would do nothing.
                tasks.create_task(watch.wait_ended())
                tasks.create_task(controller.wait_ended())
                tasks.create_task(follow_release(api, watch, self.kubernetes_feature_gates))
                tasks.create_task(run_again(context.budget_use.run, "budgets"))
                tasks.create_task(_freeze_garbage_collection(watch))
                if context.leader_label is not None:
                    tasks.create_task(context.leader_label.run())
                parts = (scale_ahead.leading, history.leading, waits.leading, tickets.leading, idle.leading)
                tasks.create_task(elector.run(lambda: self._lead(controller, elector, parts)))

    async def _lead(
        self,
        controller: ScaleAheadController,
        elector: LeaderElector,
        parts: Sequence[Callable[[], AbstractAsyncContextManager[None]]],
    ) -> None:
        """Record, forecast and decide while this replica leads; the parts end in the reverse order."""
        async with contextlib.AsyncExitStack() as stack:
            for leading in parts:
                await stack.enter_async_context(leading())
            await controller.lead(elector.require)

    def new_watch(self, api: KubernetesApi) -> ClusterWatch:
        return ClusterWatch(api)

    def new_controller(self, api: KubernetesApi, watch: ClusterWatch, decisions: DecisionLog) -> ScaleAheadController:
        settings, scale_ahead = self.controller_settings(), self.new_scale_ahead()
        return ScaleAheadController(
            api, watch, decisions, settings, scale_ahead=scale_ahead, times=self.reconciler_times()
        )

    def reconciler_times(self) -> ReconcilerTimes:
        return ReconcilerTimes()

    def new_elector(self, api: KubernetesApi) -> LeaderElector:
        seconds = self.lease_seconds
        times = LeaseTimes(seconds, seconds * 2 / 3, max(1.0, seconds * 2 / 15))
        return LeaderElector(api, self.namespace, self.lease_name, times=times)

    async def _connected(self, context: ServiceContext) -> KubernetesApi:
        """Connect as soon as the cluster is found. The hub would restart a managed service that exits."""
        while True:
            try:
                api = await connect(self.cluster_address())
                break
            except ClusterNotFound as error:
                if self.kubeconfig:
                    raise  # a file that somebody named; without one, an account may be mounted later
                if str(error) != context.startup_problem:
                    self.log.error("%s", error)
                context.startup_problem = str(error)
            await asyncio.sleep(_RETRY_SECONDS)
        if problem := await cluster_version_problem(api):
            self.log.warning("%s", problem)
            context.settings_problems += (problem,)
        return api

    def _listen(self, context: ServiceContext) -> LimitedServer:
        secret = cookie_secret(os.environ.get("JUPYTERHUB_API_TOKEN", ""))
        application = web_application(context, cookie_secret=secret, log_function=log_request)
        server = LimitedServer(application, limits=self.server_limits())
        parts = urlsplit(self.url)
        assert parts.port is not None
        address = interface_of(parts.hostname or "")
        sockets = self.start_answer.hand_over(parts.port, address) if self.start_answer is not None else []
        server.add_sockets(sockets or bind_sockets(parts.port, address))
        self.log.info("Listening: address=%s port=%s prefix=%s", address or "all", parts.port, self.prefix)
        return server


async def _freeze_garbage_collection(watch: ClusterWatch) -> None:
    """Exempt the data about the cluster from garbage collection; each collection would take half a second."""
    await watch.wait_synced()
    gc.collect()
    gc.freeze()


def _unexpected(argument: str) -> str:
    return f"{argument} is unknown. Write settings as --DRASpawnerService.<setting>=<value>; see --help-all."


def run_service(arguments: Sequence[str] | None = None, start_answer: StartAnswer | None = None) -> int:
    """Run the service; returns the exit code.

    Parameters
    ----------
    start_answer
        The answer that the hub gets until the service listens itself.
    """
    application = DRASpawnerService()
    application.start_answer = start_answer
    try:
        application.initialize(sys.argv[1:] if arguments is None else arguments)
        application.start()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(bool(error.code))
    return 0
