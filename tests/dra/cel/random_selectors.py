"""Random selectors, mostly well typed, for tests that compare two implementations."""

from __future__ import annotations

import random
from collections.abc import Callable

DOMAINS = ("gpu.example.com", "other.example.com", "unknown.example.com")
#: name to kind, in every domain but the unknown one; "gone" is in none.
ATTRIBUTES = {"product": "string", "index": "int", "mig": "bool", "count": "int", "uuid": "string", "gone": "int"}

_STRINGS = ('"A100"', "'H100'", '"gpu-0"', '""', '"é"', 'r"\\d"', '"a,b"', '"A"')
_INTS = ("0", "1", "2", "7", "-1", "40", "9223372036854775807", "-9223372036854775808", "0x10")
_DOUBLES = ("0.0", "1.5", "-2.25", "1e3", "7.0")


class RandomSelectors:
    """Writes expressions of a wanted type.

    Parameters
    ----------
    seed
        Makes the sequence repeatable.
    sloppiness
        How often (0 to 1) an expression of a random type stands where another type was wanted.
    plain
        Leave out functions that only Kubernetes has.
    """

    def __init__(self, seed: int, *, sloppiness: float = 0.02, plain: bool = False) -> None:
        self.random = random.Random(seed)
        self.sloppiness = sloppiness
        self.plain = plain
        self.domains = DOMAINS[:2] if plain else DOMAINS
        self.variables: list[tuple[str, str]] = []
        self.makers: dict[str, list[Callable[[int], str]]] = {
            "bool": [
                self.comparison,
                self.comparison,
                self.logic,
                self.logic,
                self.presence,
                self.text_test,
                self.quantifier,
                self.membership,
                self.bound("bool"),
                self.choice_of("bool"),
            ],
            "int": [
                self.arithmetic("int"),
                self.int_call,
                self.choice_of("int"),
                self.bound("int"),
                self.element("int"),
            ],
            "uint": [self.arithmetic("uint")],
            "double": [self.arithmetic("double"), lambda depth: f"double({self.make('int', depth)})"],
            "string": [self.text_call, self.choice_of("string"), self.bound("string"), self.element("string")],
            "list(int)": [self.list_of("int"), self.list_call("int")],
            "list(string)": [self.list_of("string"), self.list_call("string"), self.keys],
            "optional(string)": [self.optional("string")],
            "optional(int)": [self.optional("int")],
        }
        if not plain:
            self.makers["bool"] += [self.kubernetes_test] * 3
            self.makers["int"] += [self.kubernetes_int]
            self.makers["quantity"] = [self.quantity_call]
            self.makers["semver"] = [lambda depth: f"semver({self.version()})"]

    def selector(self, depth: int = 4) -> str:
        """An expression of type bool."""
        self.variables = []
        return self.make("bool", depth)

    def make(self, kind: str, depth: int) -> str:
        if self.random.random() < self.sloppiness:
            kind = self.random.choice(list(self.makers))
        if depth <= 0 or self.random.random() < 0.15:
            return self.leaf(kind)
        return self.random.choice(self.makers[kind])(depth - 1)

    def leaf(self, kind: str) -> str:
        pick = self.random.choice
        known = [name for name, of in self.variables if of == kind]
        if known and self.random.random() < 0.6:
            return pick(known)
        match kind:
            case "bool":
                return pick(["true", "false", self.attribute("bool"), "device.allowMultipleAllocations"])
            case "int":
                return pick([pick(_INTS), self.attribute("int")])
            case "uint":
                return pick(["0u", "3u", "18446744073709551615u"])
            case "double":
                return pick(_DOUBLES)
            case "string":
                return pick([pick(_STRINGS), self.attribute("string"), "device.driver"])
            case "quantity":
                return pick(
                    [f"quantity({self.amount()})", f"{self.domain_map('capacity')}.{pick(['memory', 'cores'])}"]
                )
            case "semver":
                return pick([f"semver({self.version()})", self.attribute("version")])
            case "optional(string)" | "optional(int)":
                return pick(["optional.none()", f"optional.of({self.leaf(kind[9:-1])})"])
            case _:
                return "[]" if self.random.random() < 0.2 else f"[{self.leaf(kind[5:-1])}, {self.leaf(kind[5:-1])}]"

    def domain_map(self, collection: str = "attributes") -> str:
        return f'device.{collection}["{self.random.choice(self.domains)}"]'

    def attribute(self, kind: str) -> str:
        names = [name for name, of in ATTRIBUTES.items() if of == kind] or ["driver"]
        name = self.random.choice(names)
        if self.random.random() < 0.02:
            name = self.random.choice(list(ATTRIBUTES))
        form = self.random.choice([".{}", '["{}"]'])
        return self.domain_map() + form.format(name)

    def amount(self) -> str:
        return self.random.choice(
            ['"1Gi"', '"1024Mi"', '"10Gi"', '"1500m"', '"0"', '"1.5Gi"', '"-1"', '"x"', '"1e3"', '"2k"']
        )

    def version(self) -> str:
        return self.random.choice(
            ['"1.2.3"', '"1.2.3-rc.1"', '"1.2.3+b"', '"v1.2", true', '"01.2.3", true', '"1"', '"550.54.14"']
        )

    def comparison(self, depth: int) -> str:
        kind = self.random.choice(["int", "int", "string", "string", "double", "bool", "list(int)", "uint"])
        operator = self.random.choice(["==", "!=", "==", "<", "<=", ">", ">="])
        if kind.startswith("list"):
            operator = self.random.choice(["==", "!="])
        other = self.random.choice(["int", "double", "uint"]) if kind in ("int", "double", "uint") else kind
        if operator in ("==", "!="):
            other = kind
        return f"({self.make(kind, depth)} {operator} {self.make(other, depth)})"

    def logic(self, depth: int) -> str:
        if self.random.random() < 0.2:
            return f"!({self.make('bool', depth)})"
        operator = self.random.choice([" && ", " || "])
        terms = [self.make("bool", depth) for _ in range(self.random.choice([2, 2, 2, 3]))]
        return f"({operator.join(terms)})"

    def choice_of(self, kind: str) -> Callable[[int], str]:
        def make(depth: int) -> str:
            parts = (self.make("bool", depth), self.make(kind, depth), self.make(kind, depth))
            return "({} ? {} : {})".format(*parts)

        return make

    def bound(self, kind: str) -> Callable[[int], str]:
        def make(depth: int) -> str:
            of = self.random.choice(["int", "string", "bool", "list(int)"])
            value = self.make(of, depth)
            return f"cel.bind({self.variable(of)}, {value}, {self.inside(kind, depth)})"

        return make

    def variable(self, kind: str) -> str:
        self.variables.append((f"v{len(self.variables)}", kind))
        return self.variables[-1][0]

    def inside(self, kind: str, depth: int) -> str:
        """An expression in the scope of the last variable, which ends there."""
        count = len(self.variables)
        text = self.make(kind, depth)
        del self.variables[count - 1 :]
        return text

    def presence(self, depth: int) -> str:
        name = self.random.choice(list(ATTRIBUTES))
        return self.random.choice(
            [
                f"has({self.domain_map()}.{name})",
                f'"{name}" in {self.domain_map()}',
                f'"{self.random.choice(self.domains)}" in device.attributes',
                f"{self.make('optional(int)', depth)}.hasValue()",
            ]
        )

    def text_test(self, depth: int) -> str:
        one, other = self.make("string", depth), self.make("string", depth)
        pattern = self.random.choice(['"A.*"', '"^gpu-[0-9]+$"', '"(a|b)?"', '"é"', '"(?i)a100"'])
        return self.random.choice(
            [
                f"{one}.startsWith({other})",
                f"{one}.endsWith({other})",
                f"{one}.contains({other})",
                f"{one}.matches({pattern})",
            ]
        )

    def quantifier(self, depth: int) -> str:
        kind = self.random.choice(["int", "string"])
        values = self.make(f"list({kind})", depth)
        macro = self.random.choice(["all", "exists", "exists_one"])
        return f"{values}.{macro}({self.variable(kind)}, {self.inside('bool', depth)})"

    def membership(self, depth: int) -> str:
        kind = self.random.choice(["int", "string"])
        return f"({self.make(kind, depth)} in {self.make(f'list({kind})', depth)})"

    def arithmetic(self, kind: str) -> Callable[[int], str]:
        operators = "+-*/" if kind == "double" else "+-*/%"

        def make(depth: int) -> str:
            return f"({self.make(kind, depth)} {self.random.choice(operators)} {self.make(kind, depth)})"

        return make

    def int_call(self, depth: int) -> str:
        text = self.make("string", depth)
        calls = [
            f"size({text})",
            f"{text}.size()",
            f"{self.make('list(int)', depth)}.size()",
            f"int({self.make('double', depth)})",
            f"int({text})",
            f"{self.make('optional(int)', depth)}.orValue({self.make('int', depth)})",
            f"-({self.make('int', depth)})",
        ]
        if not self.plain:
            calls += [
                f"{text}.indexOf({self.make('string', depth)})",
                f"{text}.lastIndexOf({self.make('string', depth)})",
                f"{self.make('list(int)', depth)}.{self.random.choice(['sum', 'min', 'max'])}()",
                f"{self.make('list(int)', depth)}.indexOf({self.make('int', depth)})",
            ]
        return self.random.choice(calls)

    def text_call(self, depth: int) -> str:
        text = self.make("string", depth)
        calls = [
            f"({text} + {self.make('string', depth)})",
            f"string({self.make('int', depth)})",
            f"{self.make('optional(string)', depth)}.orValue({text})",
        ]
        if not self.plain:
            number = self.make("int", depth)
            calls += [
                f"{text}.lowerAscii()",
                f"{text}.upperAscii()",
                f"{text}.trim()",
                f"{text}.charAt({number})",
                f"{text}.substring({number})",
                f"{text}.replace({self.make('string', depth)}, {self.make('string', depth)})",
                f"{self.make('list(string)', depth)}.join({text})",
                f'"%s/%d".format([{text}, {number}])',
                f'{text}.find("[A-Z]+")',
                f"strings.quote({text})",
            ]
        return self.random.choice(calls)

    def element(self, kind: str) -> Callable[[int], str]:
        return lambda depth: f"{self.make(f'list({kind})', depth)}[{self.make('int', depth)}]"

    def list_of(self, kind: str) -> Callable[[int], str]:
        def make(depth: int) -> str:
            count = self.random.randrange(4)
            return f"[{', '.join(self.make(kind, depth) for _ in range(count))}]"

        return make

    def list_call(self, kind: str) -> Callable[[int], str]:
        def make(depth: int) -> str:
            values = self.make(f"list({kind})", depth)
            calls = [lambda: f"({values} + {self.make(f'list({kind})', depth)})"]
            calls.append(lambda: f"{values}.filter({self.variable(kind)}, {self.inside('bool', depth)})")
            calls.append(lambda: f"{values}.map({self.variable(kind)}, {self.inside(kind, depth)})")
            if not self.plain:
                suffix = ["distinct()", "sort()", "reverse()", "slice(0, 1)", f"sortBy({self.variable(kind)}, "]
                chosen = self.random.choice(suffix)
                body = f"{self.inside('int', depth)})" if chosen.startswith("sortBy") else ""
                if not body:
                    self.variables.pop()
                calls.append(lambda: f"{values}.{chosen}{body}")
                if kind == "string":
                    calls.append(lambda: f'{self.make("string", depth)}.split(",")')
                else:
                    calls.append(lambda: "lists.range(3)")
            return self.random.choice(calls)()

        return make

    def keys(self, depth: int) -> str:
        return f"{self.domain_map()}.filter({self.variable('string')}, {self.inside('bool', depth)})"

    def optional(self, kind: str) -> Callable[[int], str]:
        def make(depth: int) -> str:
            name = self.random.choice([name for name, of in ATTRIBUTES.items() if of == kind])
            calls = [
                lambda: f"optional.of({self.make(kind, depth)})",
                lambda: f"{self.make(f'optional({kind})', depth)}.or({self.make(f'optional({kind})', depth)})",
                lambda: f"{self.domain_map()}.?{name}",
                lambda: f'{self.domain_map()}[?"{name}"]',
                lambda: f"{self.make(f'list({kind})', depth)}[?{self.make('int', depth)}]",
            ]
            if not self.plain:
                calls.append(lambda: f"{self.make(f'list({kind})', depth)}.{self.random.choice(['first', 'last'])}()")
                calls.append(
                    lambda: (
                        f"{self.make(f'optional({kind})', depth)}"
                        f".optMap({self.variable(kind)}, {self.inside(kind, depth)})"
                    )
                )
            return self.random.choice(calls)()

        return make

    def kubernetes_test(self, depth: int) -> str:
        kind = self.random.choice(["quantity", "semver"])
        one, other = self.make(kind, depth), self.make(kind, depth)
        method = self.random.choice(["isGreaterThan", "isLessThan"])
        values = self.make("list(int)", depth)
        return self.random.choice(
            [
                f"{one}.{method}({other})",
                f"({one}.compareTo({other}) >= {self.make('int', depth)})",
                f"({one} == {other})",
                f"isQuantity({self.make('string', depth)})",
                f"isSemver({self.make('string', depth)})",
                f"{self.make('quantity', depth)}.isInteger()",
                f"{values}.isSorted()",
                f"sets.contains({values}, {self.make('list(int)', depth)})",
                f"{self.make('int', depth)}.includes({self.make('int', depth)})",
                f"(type({one}) == type({self.make('int', depth)}))",
                f"{values}.all({self.variable('int')}, {self.variable('int')}, {self.two_inside(depth)})",
            ]
        )

    def two_inside(self, depth: int) -> str:
        text = self.inside("bool", depth)
        self.variables.pop()
        return text

    def kubernetes_int(self, depth: int) -> str:
        quantity, version = self.make("quantity", depth), self.make("semver", depth)
        part = self.random.choice(["major", "minor", "patch"])
        return self.random.choice(
            [f"{quantity}.asInteger()", f"sign({quantity})", f"{quantity}.compareTo({quantity})", f"{version}.{part}()"]
        )

    def quantity_call(self, depth: int) -> str:
        one = self.make("quantity", depth)
        other = self.make(self.random.choice(["quantity", "int"]), depth)
        return f"{one}.{self.random.choice(['add', 'sub'])}({other})"
