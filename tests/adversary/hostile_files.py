"""Files that are to cost a command its memory, its time or its temper; each is made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.commands.cluster_files.inputs import api_list, claim, device_class, gpu, gpu_slice, node

Content = Callable[[], str | bytes]


def _nested(levels: int, value: Any = 1) -> Any:
    for _ in range(levels):
        value = {"a": value}
    return value


def _deep_json(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def _alias_bomb(merge: bool) -> str:
    lines = ["a0: &a0 {x: lol}"]
    for level in range(1, 30):
        before = f"*a{level - 1}"
        inner = f"{{k1: {before}, k2: {before}, k3: {before}}}"
        if merge:
            inner = "{" + ", ".join(f"k{level}{at}: {{<<: {before}}}" for at in range(9)) + "}"
        lines.append(f"a{level}: &a{level} {inner}")
    return "\n".join(lines) + "\n"


def _long_merge() -> str:
    many = ", ".join(f"k{at}: {at}" for at in range(2_000))
    return f"a: &a {{{many}}}\n" + "".join(f"b{at}: {{<<: *a}}\n" for at in range(20_000))


def _long_text_repeated() -> str:
    return "a: &a " + "x" * 100_000 + "\nb: [" + ", ".join(["*a"] * 100_000) + "]\n"


def _alias_ladder() -> str:
    return "".join(f"- &a{level} [{f'*a{level - 1}' if level else ''}]\n" for level in range(5_000))


ANY_COMMAND: Mapping[str, Content] = {
    "yaml of 100,000 levels": lambda: "[" * 100_000 + "]" * 100_000,
    "yaml mapping of 100,000 levels": lambda: "{a: " * 100_000 + "}" * 100_000,
    "yaml block of 3,000 levels": lambda: "".join(f"{' ' * at}a:\n" for at in range(3_000)),
    "yaml block sequence of 100,000 levels": lambda: "- " * 100_000 + "a",
    "yaml of many complex keys": lambda: "? " * 100_000 + "a",
    "yaml of 900 levels": lambda: "a: " + "{a: " * 900 + "1" + "}" * 900,
    "json of 100,000 levels": lambda: _deep_json(100_000),
    "json list of 1,000,000 levels": lambda: "[" * 1_000_000,
    "json of 900 levels": lambda: _deep_json(900),
    "json of 900 levels, cut off": lambda: '{"a":' * 900 + "1," * 500_000,
    "alias bomb": lambda: _alias_bomb(merge=False),
    "merge bomb": lambda: _alias_bomb(merge=True),
    "long merges": _long_merge,
    "long text by many aliases": _long_text_repeated,
    "aliases one in the other": _alias_ladder,
    "value in itself": lambda: "&a [*a]\n",
    "mapping in itself": lambda: "a: &a\n  b: *a\n",
    "merge of itself": lambda: "&a {<<: *a}\n",
    "merge of a number": lambda: "<<: 1\n",
    "alias of nothing": lambda: "a: *b\n",
    "lone surrogate in JSON": lambda: '{"kind": "Node", "metadata": {"name": "\\ud800"}}',
    "lone surrogate as a key": lambda: '{"\\uDC00": 1}',
    "lone surrogate in YAML": lambda: 'a: "\\ud800"\n',
    "lone surrogate as bytes": lambda: b'{"a": "\xed\xa0\x80"}',
    "not UTF-8": lambda: b"a: \xff\xfe\n",
    "UTF-16": lambda: "kind: Node\n".encode("utf-16"),
    "NUL": lambda: b"kind: Node\n\0",
    "control characters": lambda: "kind: \x07\x1b[2J\n",
    "only a BOM": lambda: b"\xef\xbb\xbf",
    "tabs": lambda: "a:\n\tb: 1\n",
    "integer of 100,000 digits in YAML": lambda: "a: " + "9" * 100_000 + "\n",
    "integer of 100,000 digits, base 16": lambda: "a: 0x" + "f" * 100_000 + "\n",
    "integer of 100,000 digits in JSON": lambda: '{"a": ' + "9" * 100_000 + "}",
    "infinity": lambda: "a: .inf\n",
    "infinity in JSON": lambda: '{"a": 1e999}',
    "NaN": lambda: "a: .nan\n",
    "repeated key": lambda: "kind: Node\nkind: Pod\n",
    "repeated key in JSON": lambda: '{"kind": "Node", "kind": "Pod"}',
    "key that is a list": lambda: "? [a]\n: b\n",
    "key that is a number": lambda: "1: b\n",
    "python object": lambda: '!!python/object/apply:os.system ["true"]\n',
    "own tag": lambda: "a: !secret b\n",
    "binary": lambda: "a: !!binary aGVsbG8=\n",
    "set": lambda: "!!set {a, b}\n",
    "many tag directives": lambda: "".join(f"%TAG !a{at}! tag:x,{at}:\n" for at in range(50_000)) + "--- a\n",
    "many empty documents": lambda: "---\n" * 50_000,
    "many documents": lambda: "--- a\n" * 10_000,
    "many values": lambda: "1 " * 200_000,
    "text of 3 MB": lambda: '"' + "x" * 3_000_000,
}
"""Name -> what no command takes: each refuses it with one sentence."""


def _capacity(**policy: Any) -> Any:
    return api_list(node("n1"), gpu_slice("n1", gpu(shared=True, **policy)), device_class(), claim(memory="1Gi"))


def _slice_of(change: Callable[[Any], None]) -> Any:
    item = gpu_slice("n1", gpu(shared=True))
    change(item["spec"])
    return api_list(node("n1"), item, device_class(), claim(memory="1Gi"))


def _claim_of(change: Callable[[Any], None]) -> Any:
    item = claim()
    change(item["spec"]["devices"])
    return api_list(node("n1"), gpu_slice("n1", gpu()), device_class(), item)


def _parameters(levels: int) -> Any:
    opaque = {"driver": "gpu.example.com", "parameters": _nested(levels)}
    return _claim_of(lambda spec: spec.update(config=[{"opaque": opaque}]))


def _broken_nodes() -> Any:
    broken = [{"kind": "Node", "metadata": {"name": f"n{at}", "labels": 1}} for at in range(5_000)]
    return api_list(*broken, claim())


OBJECTS: Mapping[str, Callable[[], Any]] = {
    "100,000 valid values": lambda: _capacity(default="1Gi", validValues=[f"{at}Mi" for at in range(1, 100_001)]),
    "step of 0": lambda: _capacity(default="1Gi", validRange={"min": "1Gi", "step": "0"}),
    "minimum above maximum": lambda: _capacity(default="1Gi", validRange={"min": "2Gi", "max": "1Gi"}),
    "100,000 devices": lambda: _slice_of(
        lambda spec: spec.update(devices=[{"name": f"g{at}"} for at in range(100_000)])
    ),
    "10,000 attributes": lambda: _slice_of(
        lambda spec: spec["devices"][0].update(attributes={f"a{at}": {"int": at} for at in range(10_000)})
    ),
    "10,000 taints": lambda: _slice_of(
        lambda spec: spec["devices"][0].update(
            taints=[{"key": f"k{at}", "effect": "NoSchedule"} for at in range(10_000)]
        )
    ),
    "10,000 counter sets": lambda: _slice_of(
        lambda spec: spec.update(
            devices=[], sharedCounters=[{"name": f"c{at}", "counters": {"a": {"value": "1"}}} for at in range(10_000)]
        )
    ),
    "10,000 requests": lambda: _claim_of(
        lambda spec: spec.update(
            requests=[{"name": f"r{at}", "exactly": {"deviceClassName": "gpu"}} for at in range(10_000)]
        )
    ),
    "10,000 alternatives": lambda: _claim_of(
        lambda spec: spec.update(
            requests=[
                {"name": "r", "firstAvailable": [{"name": f"s{at}", "deviceClassName": "gpu"} for at in range(10_000)]}
            ]
        )
    ),
    "10,000 constraints": lambda: _claim_of(
        lambda spec: spec.update(constraints=[{"matchAttribute": "a.example.com/b"} for _ in range(10_000)])
    ),
    "parameters of 900 levels": lambda: _parameters(900),
    "class with a syntax error in its CEL": lambda: api_list(
        node("n1"), gpu_slice("n1", gpu()), device_class("device.driver == "), claim()
    ),
    "class with a CEL of 1 MB": lambda: api_list(
        node("n1"), gpu_slice("n1", gpu()), device_class("true" + " && true" * 100_000), claim()
    ),
    "5,000 broken nodes": _broken_nodes,
}
"""Name -> objects that the API server would refuse, all of which matter for the answer of ``fit``."""


def profile(claims: Any, name: str = "gpu", **more: Any) -> Any:
    """A profile with claims."""
    return {"display_name": name, "slug": name, "kubespawner_override": {"device_claims": claims}, **more}


_CONFIG = {"driver": "gpu.example.com"}
_GPU = {"device_class": "gpu"}


def _with_parameters(parameters: Any) -> Any:
    return {"requests": {"gpu": _GPU}, "config": [{**_CONFIG, "parameters": parameters}]}


def _choices(count: int, claims: Callable[[int], Any]) -> Any:
    return {
        f"c{at}": {"display_name": f"c{at}", "kubespawner_override": {"device_claims": claims(at)}}
        for at in range(count)
    }


def _many_options(options: int, choices: int) -> Any:
    made = {
        f"o{at}": {"display_name": f"o{at}", "choices": _choices(choices, lambda number: {"gpu": {"count": number}})}
        for at in range(options)
    }
    return [profile({"gpu": _GPU}, profile_options=made)]


_REQUESTS = {
    "gpu": {"requests": {f"r{at}": {**_GPU, "where": f"device.driver == 'a{at}'"} for at in range(30)}},
}


def _different(choices: int) -> Any:
    """Choices whose claims differ, so that each is read by itself."""
    made = _choices(choices, lambda at: {"gpu": {"requests": {"r0": {"where": f"device.driver == 'b{at}'"}}}})
    return {"o": {"display_name": "o", "choices": made}}


PROFILES: Mapping[str, Callable[[], Any]] = {
    "100,000 profiles": lambda: [{"display_name": str(at)} for at in range(100_000)],
    "100,000 choices": lambda: _many_options(1, 50_000),
    "choices of many options": lambda: _many_options(200, 200),
    "choices that differ, just within the limit of check": lambda: [
        profile(_REQUESTS, profile_options=_different(1_700))
    ],
    "choices that differ, just within the limit of render": lambda: [
        profile(_REQUESTS, profile_options=_different(430))
    ],
    "10,000 hubs": lambda: {f"h{at}": {"singleuser": {"profileList": [profile({})]}} for at in range(10_000)},
    "a hub below 90 charts": lambda: _nested(90, {"singleuser": {"profileList": [profile({"gpu": {"count": 0}})]}}),
    "count of a billion": lambda: [profile({"gpu": {**_GPU, "count": 10**9}})],
    "pairs of a billion": lambda: [
        profile({"gpu": {"pairs": {"count": 10**9, "match_attribute": "a.example.com/b", "requests": {"g": _GPU}}}})
    ],
    "parameters of 90 levels": lambda: [profile({"gpu": _with_parameters(_nested(80))})],
    "text of 3 MB as a name": lambda: [profile({"gpu": _GPU}, "x" * 3_000_000, profile_options=7)],
    "placeholders": lambda: [profile({"gpu": _with_parameters({"a": "{user}" * 400_000})})],
    "product of 1 MB": lambda: [profile({"gpu": {**_GPU, "product": "*" * 1_000_000}})],
    "where of 1 MB": lambda: [profile({"gpu": {**_GPU, "where": "(" * 1_000_000}})],
    "10,000 claims": lambda: [profile({f"c{at}": _GPU for at in range(10_000)})],
    "10,000 requests": lambda: [profile({"gpu": {"requests": {f"c{at}": _GPU for at in range(10_000)}}})],
    "many wrong values": lambda: [profile({f"c{at}": {"a" * 50: at} for at in range(5_000)})],
    "claims that are a huge list": lambda: [
        profile(list(range(300_000)), profile_options={"o": {"choices": _choices(400, lambda at: {"gpu": at})}})
    ],
}
"""Name -> profiles that no hub could offer, or hardly."""
