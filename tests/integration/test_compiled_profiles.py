"""A real API server takes every value that the language accepts, and typed text comes back unchanged."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.profiles import compile_device_claims, template_manifest
from tests.examples import example_count
from tests.integration.compiled_pods import allow_admin_access
from tests.profiles import strategies

EXAMPLES = example_count(300)
AT_ONCE = 20
#: Text that a user may type to break out of a literal; all of it must be printable to be a product.
HOSTILE = [
    "'",
    '"',
    "\\",
    '" || true || "',
    "') || true || ('",
    "${x}",
    "{{x}}",
    "A*\\",
    "\u2028x",
    "(?i)^(.*)$",
    "'''",
    '"""',
]


def generated(strategy, number, label):
    """Some values of a strategy, the same ones each time."""
    found = []

    @seed(label)
    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value):
        found.append(value)

    collect()
    return found


async def dry_run(cluster, values):
    """Create the templates of claims by dry run; each spec as the API server returns it, or its error message."""
    path = cluster.path("resourceclaimtemplates")
    limit = asyncio.Semaphore(AT_ONCE)

    async def create(claim):
        manifest = template_manifest(claim, name=claim.name, namespace=cluster.namespace, labels={}, annotations={})
        async with limit:
            try:
                answer = await cluster.admin.create(path, manifest, params={"dryRun": "All"})
            except KubernetesError as error:
                return claim.spec, error.message
            return claim.spec, answer["spec"]["spec"]

    plans = [compile_device_claims(value, admin_access=True) for value in values]
    claims = [claim for plan in plans for claim in plan.claims if claim.spec is not None]
    return await asyncio.gather(*map(create, claims))


def lost(sent, answer, path=""):
    """Values that were sent and do not come back; the API server may add defaults."""
    if isinstance(sent, dict) and isinstance(answer, dict):
        for key, value in sent.items():
            if key not in answer:
                # A zero value is the same as nothing.
                if value not in ("", 0, False, [], {}):
                    yield f"{path}.{key}"
            else:
                yield from lost(value, answer[key], f"{path}.{key}")
    elif isinstance(sent, list) and isinstance(answer, list) and len(sent) == len(answer):
        for index, (own, other) in enumerate(zip(sent, answer, strict=True)):
            yield from lost(own, other, f"{path}[{index}]")
    elif sent != answer:
        yield f"{path}: {sent!r} became {answer!r}"


async def test_a_real_api_server_takes_what_the_language_accepts(real_cluster):
    await allow_admin_access(real_cluster)
    values = await asyncio.to_thread(generated, strategies.device_claims, EXAMPLES, 1)
    answers = await dry_run(real_cluster, values)
    assert len(answers) > EXAMPLES
    wrong = [(spec, answer) for spec, answer in answers if isinstance(answer, str) or list(lost(spec, answer))]
    assert wrong == []


@pytest.mark.parametrize("key", ["product", "parameters"])
async def test_text_stays_inside_its_literal(real_cluster, key):
    """In words it is a literal of CEL, in parameters a text of JSON."""
    texts = HOSTILE + await asyncio.to_thread(generated, strategies.printable, 100, 2)
    texts = [text for text in texts if text.isprintable() and text.strip()]
    if key == "product":
        values = [{"g": {"device_class": "x", "product": text}} for text in texts]
    else:
        config = [{"driver": "x", "parameters": {"text": text.replace("{", "{{").replace("}", "}}")}} for text in texts]
        values = [{"g": {"requests": {"r": {"device_class": "x"}}, "config": [each]}} for each in config]
    answers = await dry_run(real_cluster, values)
    assert len(answers) == len(texts)
    assert [(spec, answer) for spec, answer in answers if isinstance(answer, str) or list(lost(spec, answer))] == []


def test_examples_are_many_kinds():
    values = generated(strategies.device_claims, 100, 1)
    text = repr(values)
    assert all(f"'{word}'" in text for word in ("product", "first_available", "config", "constraints", "count"))
