"""The command line of ``dra-spawner replay``."""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta

from dra_spawner.common.command_options import options_of, whole_number

_POLICIES = ("none", "forecast", "fixed:equal")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``replay`` to the commands of ``dra-spawner``."""
    command = commands.add_parser(
        "replay",
        help="compare placeholder policies on recorded launches",
        description="Replay recorded launches in virtual time, once for each policy, through the code that the\n"
        "service runs, and compare: how many users would have found a warm placeholder, how many placeholders\n"
        "would have been idle, how many nodes would have been started. It needs no cluster.",
        epilog="examples:\n"
        "  dra-spawner replay launches.csv cluster.yaml\n"
        "  dra-spawner replay launches.csv.gz cluster.yaml --policy fixed:20 --policy z2jh:20 --policy forecast\n"
        "  dra-spawner replay launches.csv cluster.yaml --policy forecast:hit_rate=0.98 --learn-days 28\n"
        "  dra-spawner replay launches.csv cluster.yaml --calendar courses.ics\n"
        "  dra-spawner replay launches.csv cluster.yaml --learn-days 28 --report report.html\n"
        "\n"
        "trace (CSV, its first row names the columns; or an export of dra-spawner history):\n"
        "  time        with a time zone, like 2026-11-24T17:00:31+01:00; or minute_utc\n"
        "  profile     may be left out if there is one kind of node\n"
        "  launches    number in that minute; without the column each row is one launch\n"
        "  seconds     duration of the server, if known\n"
        "  user        finds duplicate rows\n"
        "\n"
        "cluster (YAML):\n"
        "  nodes:\n"
        "    - {name: gpu, profiles: [gpu-slice], slots: 8, lead_minutes: [6, 8, 9], image_minutes: 2,\n"
        "       max_nodes: 40, starts_per_minute: 5, unneeded_minutes: 10, price: 3.2}\n"
        "  servers: {median_minutes: 45, sigma: 1.0}    durations of servers, if the trace has none\n"
        "  classes:                                     added to the trace, and announced by the calendar\n"
        '    - {profile: gpu-slice, users: 180, weekday: tuesday, at: "17:00", ramp_minutes: 15, absent: 0.1}\n'
        "  calendar:\n"
        '    - {profile: gpu-slice, users: 350, begins: "2026-11-24T17:00:00+01:00",\n'
        '       ends: "2026-11-24T18:30:00+01:00", counts: additional}      or "in total"\n'
        "  floor: 2\n"
        "  zone: Europe/Berlin\n"
        "\n"
        "policies:\n"
        "  none                 nodes are ordered only for waiting users\n"
        "  fixed:NUMBER         always the same number of placeholders\n"
        "  fixed:equal          the smallest fixed number with the hit rate of the policy before it\n"
        "  z2jh:NUMBER          placeholders of zero-to-jupyterhub: they follow neither images nor launches\n"
        "  calendar             calendar entries and the floor only\n"
        "  forecast             the service's policy; forecast:hit_rate=0.98,hold=2 changes settings\n"
        "\n"
        "output:\n"
        "  hits: launches that found a warm placeholder on a node with the image. idle h/day: hours of warm\n"
        "  placeholders without a server. node-h/day includes servers. --report adds the curve of fixed\n"
        "  numbers, a timeline, and the effect of calendar entries for the largest misses; it replays more, so it\n"
        "  takes several times as long.\n"
        "\n"
        "exit code:\n"
        "  0 done, 2 the input cannot be read or is invalid, or the report cannot be written",
    )
    command.add_argument("trace", metavar="TRACE", help="CSV file with launches; it may be compressed by gzip")
    command.add_argument("cluster", metavar="CLUSTER", help="YAML file that describes the cluster")
    command.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="POLICY",
        dest="policies",
        help=f"a policy to replay; may be repeated ({', '.join(_POLICIES)})",
    )
    command.add_argument("--format", choices=("table", "json"), default="table", help="output format (%(default)s)")
    command.add_argument(
        "--report",
        default="",
        metavar="FILE",
        help="also write a page with plots (.html)",
    )
    command.add_argument(
        "--learn-days",
        type=whole_number,
        default=0,
        metavar="DAYS",
        help="first days, on which policies only learn and nothing counts (%(default)s)",
    )
    command.add_argument("--seed", type=whole_number, default=1, help="seed of random numbers (%(default)s)")
    command.add_argument("--skip-bad", action="store_true", help="skip invalid rows, and accept gaps")
    command.add_argument(
        "--longest-gap",
        type=whole_number,
        default=4,
        metavar="DAYS",
        help="limit of a time without rows; a longer one is a gap in the record (%(default)s)",
    )
    command.add_argument(
        "--calendar",
        action="append",
        default=[],
        metavar="FILE",
        dest="calendars",
        help="an iCal file (.ics) with events that have lines like '200 of gpu-slice'; may be repeated",
    )
    command.add_argument(
        "--unannounced", action="store_true", help="keep the classes of the description out of the calendar"
    )
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from dra_spawner.commands.replaying.replay_command import ReplayOptions, run_replay

    asked = options_of(
        ReplayOptions,
        options,
        policies=tuple(options.policies) or _POLICIES,
        longest_gap=timedelta(days=options.longest_gap),
        without_classes=options.unannounced,
    )
    return run_replay(asked, sys.stdout, sys.stderr)
