"""CEL that Kubernetes accepts and that takes minutes and gigabytes when it is evaluated naively.

The author of a ResourceClaim or a DeviceClass writes it; the service, the hub's form and ``fit`` evaluate it.
"""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.devcluster.embedded_cluster import EmbeddedCluster
from dra_spawner.dra.cel import CelCompileError, CelDevice, CelRuntimeError, compile_selector
from dra_spawner.dra.cel.evaluation.influences import attributes_that_matter
from dra_spawner.dra.cel.syntax.references import referenced_attributes
from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.dra.quantity import Quantity
from tests.adversary.cpu_limit import cpu_limit
from tests.adversary.expressions import ACCEPTED, bound, listed
from tests.all_of_them import all_of_them
from tests.commands.cluster_files.inputs import claim, device_class, fit, gpu, gpu_slice, node
from tests.dra.builders import request
from tests.oracle.binary import ask
from tests.simulator.small_cluster import cluster, template, with_template
from tests.simulator.small_cluster import gpu_slice as gpu_slice_of
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

DEVICE = CelDevice.from_device(
    "gpu.example.com",
    {"text": {"string": "x" * 64}, "index": {"int": 7}, "version": {"version": "1.2.3"}},
    {"memory": Quantity.parse("40Gi")},
)
MEGABYTES = 20


REFUSED = {
    "pairs of texts": bound("V + V", 45, 'V == ""', '"a"'),
    "loops in loops": "".join(f"{listed('1', 40)}.all(x{index}, " for index in range(5)) + "true" + ")" * 5,
    "quoted": bound("strings.quote(V)", 30, "V.size() > 0", "device.driver"),
    "many optionals": f"optional.of(1){'.optMap(x, x)' * 40}.hasValue()",
    "long range": "lists.range(9223372036854775807).size() > 0",
    "brackets": f"{'(' * 5000}true{')' * 5000}",
    "lists": f"{'[' * 5000}{']' * 5000} == []",
    "calls": f"{'!size(' * 1600}'a'{')' * 1600}",
    "sum": f"1{' + 1' * 2500} == 1",
    "path": f"device{'.a' * 5000}",
    "index": f"device{'[0]' * 3000}",
    "choices": f"{'true ? true : ' * 700}true",
    "binds": f"{'cel.bind(a, 1, ' * 600}true{')' * 600}",
}


def evaluate(expression: str) -> str:
    try:
        return str(compile_selector(expression).matches(DEVICE))
    except (CelCompileError, CelRuntimeError) as error:
        return str(error)


@all_of_them("expression", ACCEPTED)
def test_one_evaluation_is_bounded(expression: str):
    gc.collect()
    with cpu_limit():
        first = evaluate(expression)
        tracemalloc.start()
        try:
            assert evaluate(expression) == first  # the same each time, on any machine
            megabytes = tracemalloc.get_traced_memory()[1] / 1e6
        finally:
            tracemalloc.stop()
    assert first
    assert megabytes < MEGABYTES


@all_of_them("expression", REFUSED)
def test_expressions_are_refused_soon(expression: str):
    with cpu_limit():
        with pytest.raises(CelCompileError) as caught:
            compile_selector(expression)
        assert len(str(caught.value)) < 300
        for read in (attributes_that_matter, referenced_attributes):
            with suppress(CelCompileError):
                read(expression)


def test_deep_callers_get_the_same_verdicts():
    expression = f"{'(' * 49}true{')' * 49}"

    def called(depth: int) -> Any:
        return called(depth - 1) if depth else compile_selector(expression).matches(DEVICE)

    assert called(300) is True


def test_kubernetes_accepts_expressions_that_are_bounded_here(oracle: Path):
    # Its parser takes minutes for much of the rest.
    refused = ["pairs of texts", "loops in loops", "quoted", "long range"]
    expressions = [*ACCEPTED.values(), *(REFUSED[name] for name in refused)]
    question = {"expressions": expressions, "compileOnly": True, "features": {"ConsumableCapacity": True}}
    ((_, answer),) = ask(oracle, [question])
    outcomes = dict(zip([*ACCEPTED, *refused], (verdict["outcome"] for verdict in answer["selectors"]), strict=True))
    assert outcomes == dict.fromkeys(ACCEPTED, "accepted") | dict.fromkeys(refused, "too complex")


def test_fit_answers():
    for name, expression in ACCEPTED.items():
        objects = [node("n1"), gpu_slice("n1", gpu()), device_class(expression), claim(memory="1Gi")]
        with cpu_limit():
            code, output, messages = fit(stdin=json.dumps(objects))
        assert code in (0, 1), (name, messages)
        assert output.startswith("team/wanted fits "), name


@all_of_them("expression", ["device.driver ==", "true && (", "device.nothing", "\x00", "é", "1", ""])
def test_fit_and_the_service_name_the_problem_of_a_class(expression: str):
    objects = [node("n1"), gpu_slice("n1", gpu()), device_class(expression), claim(memory="1Gi")]
    code, output, messages = fit(stdin=json.dumps(objects))
    assert code in (1, 2)
    assert "CEL" in output + messages
    snapshot = cluster(DeviceClass("hostile", (expression,)), template(request(deviceClassName="hostile")))
    assert not snapshot.schedule(with_template(), "n1").fits


def test_the_service_decides_about_other_pods():
    classes = {f"class-{index}": expression for index, expression in enumerate((ACCEPTED | REFUSED).values())}
    snapshot = cluster(
        *(DeviceClass(name, (expression,)) for name, expression in classes.items()),
        *(template(request(deviceClassName=name), name=f"t-{name}") for name in classes),
        template(),
        gpu_slice_of("n2", count=1),
    )
    with cpu_limit():
        for name in classes:
            snapshot.schedule(with_template(f"p-{name}", f"t-{name}"), "n1")
        assert snapshot.schedule(with_template(), "n2").fits


async def test_the_form_opens(tmp_path):
    profiles, classes = [], []
    for index, expression in enumerate(ACCEPTED.values()):
        name = f"class-{index}"
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        metadata = {"name": name}
        classes.append({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec})
        claims = {"gpu": {"device_class": name, "capacity": {"memory": "1Gi"}}}
        options = {"memory": {"display_name": "GPU memory", "choices": "from_policy"}}
        profiles.append(
            {
                "display_name": name,
                "kubespawner_override": {"device_claims": claims},
                "profile_options": options,
            }
        )
    slices = [gpu_slice("n1", *(gpu(f"gpu-{index}", f"{index + 1}Gi", shared=True) for index in range(2)))]
    async with EmbeddedCluster(tmp_path, run_pods=False) as embedded:
        embedded.publish([*classes, *slices])
        with kubernetes_of(embedded.kubeconfig):
            hub = HubSide(embedded.kubeconfig, "jupyterhub")
            hub.spawner_config.profile_list = profiles
            with cpu_limit():
                form = await hub.user("ada").spawner.get_options_form()
            assert len(re.findall("class-[0-9]+", form)) >= len(profiles)
            await end_hub_side()
