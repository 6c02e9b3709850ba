"""Code for variables, what is looked up in them, and conditions.

Kubernetes counts one step for a path and one for each look-up on it. Where a path is a key, or what a condition chooses
from, only its look-ups count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from dra_spawner.dra.cel.cel_types import DEVICE
from dra_spawner.dra.cel.checker import Checked
from dra_spawner.dra.cel.evaluation import closures, metering
from dra_spawner.dra.cel.evaluation.access import lookup, lookup_optional, present
from dra_spawner.dra.cel.evaluation.closures import Closure, Locals
from dra_spawner.dra.cel.evaluation.device import CelDevice
from dra_spawner.dra.cel.evaluation.shapes import constant_steps
from dra_spawner.dra.cel.syntax.nodes import Call, Ident, Node, Select
from dra_spawner.dra.cel.values import NONE, OptionalValue, TypeValue, Value

_DEVICE_FIELDS: Final = {
    "driver": lambda device, local: device.driver,
    "attributes": lambda device, local: device.attributes,
    "capacity": lambda device, local: device.capacity,
    "allowMultipleAllocations": lambda device, local: device.allow_multiple_allocations,
}


class PathCompiler(ABC):
    """Compiles paths and conditions; the rest of a compiler is made from it."""

    def __init__(self, checked: Checked, *, metered: bool) -> None:
        self.checked = checked
        self.metered = metered
        self.local_count = 3  # for what was used
        self.variables: dict[str, Closure] = {}

    @abstractmethod
    def compile(self, node: Node) -> Closure:
        """The code of any node."""

    def charged(self, closure: Closure, amount: int) -> Closure:
        """The closure, costing that much more where costs count."""
        return metering.charged(closure, amount) if self.metered and amount else closure

    def new_slot(self) -> int:
        """Number of one more local variable."""
        self.local_count += 1
        return self.local_count - 1

    def path(self, node: Ident | Select | Call) -> Closure:
        """The code of a path or a condition."""
        if isinstance(node, Select) and node.test_only:
            return self.presence(node)
        return self.charged(self.steps(node), self.start_cost(node))

    def start_cost(self, node: Node) -> int:
        """What a path costs besides its look-ups."""
        while True:
            match node:
                case Select(operand=operand) | Call(function="_[_]" | "_[?_]", args=(operand, _)):
                    node = operand
                case Call(function="_?_:_"):
                    return 0
                case Ident(name=name):
                    return 1 if name in self.variables or name == "device" else 0
                case _:
                    return 1

    def steps(self, node: Node) -> Closure:
        """The code of a node; if it is a path, without its first step."""
        match node:
            case Ident():
                return self.identifier(node)
            case Select(test_only=False):
                return self.select(node)
            case Call(function="_[_]" | "_[?_]"):
                return self.index(node)
            case Call(function="_?_:_", args=(condition, if_true, if_false)):
                return closures.conditional(self.compile(condition), self.steps(if_true), self.steps(if_false))
        return self.compile(node)

    def identifier(self, node: Ident) -> Closure:
        """The code of a variable or a type's name."""
        variable = self.variables.get(node.name)
        if variable is not None:
            return variable
        if node.name == "device":
            return lambda device, local: device.fields
        return closures.constant(TypeValue(node.name))

    def presence(self, node: Select) -> Closure:
        """The code of ``has()``."""
        fast = self.device_path(node)
        if fast is not None:
            return fast
        key = node.field
        operand = self.charged(self.steps(node.operand), self.start_cost(node.operand))
        return lambda device, local: present(operand(device, local), key)

    def select(self, node: Select) -> Closure:
        """The code of ``operand.field`` and ``operand.?field``."""
        fast = self.device_path(node)
        if fast is not None:
            return fast
        operand = self.steps(node.operand)
        key = node.field
        step = lookup_optional if node.optional else lookup
        if self.metered:
            return metering.metered_step(operand, closures.constant(key), step, optional=node.optional)
        return lambda device, local: step(operand(device, local), key)

    def index(self, node: Call) -> Closure:
        """The code of ``container[key]`` and ``container[?key]``."""
        fast = self.device_path(node)
        if fast is not None:
            return fast
        container, key = map(self.steps, node.args)
        step = lookup if node.function == "_[_]" else lookup_optional
        if self.metered:
            return metering.metered_step(container, key, step, optional=step is lookup_optional)

        def run(device: CelDevice, local: Locals) -> Value:
            value = container(device, local)
            if type(value) is OptionalValue and not value.present:
                return NONE  # the key is not evaluated then
            return step(value, key(device, local))

        return run

    def device_path(self, node: Select | Call) -> Closure | None:
        """Code of its own for ``device.x``, ``device.attributes["domain"].name`` and ``has()`` of the latter."""
        if isinstance(node, Select) and self.is_device(node.operand) and not (node.optional or node.test_only):
            return self.charged(_DEVICE_FIELDS[node.field], 1)
        steps = constant_steps(node)
        if steps is None or len(steps[1]) != 3 or not self.is_device(steps[0]):
            return None
        collection, domain, name = steps[1]
        attributes = collection == "attributes"
        if isinstance(node, Select) and node.test_only:
            if attributes:
                return self.charged(lambda device, local: name in device.attributes[domain], 3)
            return self.charged(lambda device, local: name in device.capacity[domain], 3)
        read = closures.device_attribute if attributes else closures.device_capacity
        return self.charged(read(domain, name), 3)

    def is_device(self, node: Node) -> bool:
        """Whether the node is the variable ``device``."""
        return isinstance(node, Ident) and self.checked.types[id(node)] == DEVICE and "device" not in self.variables
