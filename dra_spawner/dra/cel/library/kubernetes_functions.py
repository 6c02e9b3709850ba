"""Quantities and versions, and the names of what Kubernetes has besides and this package has not."""

from __future__ import annotations

from typing import Final

from dra_spawner.dra.cel.errors import EvaluationError
from dra_spawner.dra.cel.library import cost as costs
from dra_spawner.dra.cel.library.functions import declare, overload
from dra_spawner.dra.cel.quantities import CelQuantity
from dra_spawner.dra.cel.semver import Semver, SemverError
from dra_spawner.dra.cel.values import INT_MAX, INT_MIN
from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity, QuantityError

#: Functions that Kubernetes knows and that are not implemented here.
UNSUPPORTED: Final = frozenset(
    [
        "url",
        "isURL",
        "getScheme",
        "getHost",
        "getHostname",
        "getPort",
        "getEscapedPath",
        "getQuery",
        "ip",
        "isIP",
        "ip.isCanonical",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "cidr",
        "isCIDR",
        "containsIP",
        "containsCIDR",
        "masked",
        "prefixLength",
        "duration",
        "timestamp",
        "getFullYear",
        "getMonth",
        "getDayOfYear",
        "getDayOfMonth",
        "getDate",
        "getDayOfWeek",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
        "format.named",
        "format.dns1123Label",
        "format.dns1123Subdomain",
        "format.dns1035Label",
        "format.qualifiedName",
        "format.dns1123LabelPrefix",
        "format.dns1123SubdomainPrefix",
        "format.dns1035LabelPrefix",
        "format.labelValue",
        "format.uri",
        "format.uuid",
        "format.byte",
        "format.date",
        "format.datetime",
        "validate",
        "path",
        "group",
        "serviceAccount",
        "resource",
        "subresource",
        "namespace",
        "name",
        "fieldSelector",
        "labelSelector",
        "check",
        "allowed",
        "reason",
        "errored",
        "error",
    ]
)


@overload("quantity(string) -> kubernetes.Quantity", cost=costs.traversal)
def _quantity(text: str) -> CelQuantity:
    try:
        return CelQuantity.parse(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


@overload("isQuantity(string) -> bool", cost=costs.traversal)
def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


@overload("sign(kubernetes.Quantity) -> int")
def _sign(quantity: CelQuantity) -> int:
    return (quantity.nano > 0) - (quantity.nano < 0)


@overload("kubernetes.Quantity . isGreaterThan(kubernetes.Quantity) -> bool")
def _quantity_is_greater(left: CelQuantity, right: CelQuantity) -> bool:
    return left.nano > right.nano


@overload("kubernetes.Quantity . isLessThan(kubernetes.Quantity) -> bool")
def _quantity_is_less(left: CelQuantity, right: CelQuantity) -> bool:
    return left.nano < right.nano


@overload("kubernetes.Quantity . compareTo(kubernetes.Quantity) -> int")
def _quantity_compare(left: CelQuantity, right: CelQuantity) -> int:
    return (left.nano > right.nano) - (left.nano < right.nano)


@overload("kubernetes.Quantity . asApproximateFloat() -> double")
def _as_float(quantity: CelQuantity) -> float:
    return quantity.as_float()


@overload("kubernetes.Quantity . asInteger() -> int")
def _as_integer(quantity: CelQuantity) -> int:
    value = quantity.as_integer()
    if value is None:
        raise EvaluationError("cannot convert value to integer")
    return value


@overload("kubernetes.Quantity . isInteger() -> bool")
def _is_integer(quantity: CelQuantity) -> bool:
    return quantity.as_integer() is not None


@overload("kubernetes.Quantity . add(kubernetes.Quantity) -> kubernetes.Quantity")
def _add(left: CelQuantity, right: CelQuantity) -> CelQuantity:
    return left.plus(right.nano, right.scale)


@overload("kubernetes.Quantity . add(int) -> kubernetes.Quantity")
def _add_int(left: CelQuantity, right: int) -> CelQuantity:
    return left.plus(right * NANO_PER_UNIT, 0)


@overload("kubernetes.Quantity . sub(kubernetes.Quantity) -> kubernetes.Quantity")
def _subtract(left: CelQuantity, right: CelQuantity) -> CelQuantity:
    return left.plus(-right.nano, right.scale)


@overload("kubernetes.Quantity . sub(int) -> kubernetes.Quantity")
def _subtract_int(left: CelQuantity, right: int) -> CelQuantity:
    if right == INT_MIN:  # its negation overflows, which goes unnoticed as long as the sum fits
        wrapped = left.plus(right * NANO_PER_UNIT, 0)
        if wrapped.scale is not None:
            return wrapped
    return left.plus(-right * NANO_PER_UNIT, 0)


@overload("semver(string) -> kubernetes.Semver", "semver(string, bool) -> kubernetes.Semver", cost=costs.traversal)
def _semver(text: str, normalize: bool = False) -> Semver:
    try:
        return Semver.parse(text, normalize=normalize)
    except SemverError as error:
        raise EvaluationError(str(error)) from None


@overload("isSemver(string) -> bool", "isSemver(string, bool) -> bool", cost=costs.traversal)
def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        Semver.parse(text, normalize=normalize)
    except SemverError:
        return False
    return True


@overload("kubernetes.Semver . isGreaterThan(kubernetes.Semver) -> bool")
def _semver_is_greater(left: Semver, right: Semver) -> bool:
    return left.key > right.key


@overload("kubernetes.Semver . isLessThan(kubernetes.Semver) -> bool")
def _semver_is_less(left: Semver, right: Semver) -> bool:
    return left.key < right.key


@overload("kubernetes.Semver . compareTo(kubernetes.Semver) -> int")
def _semver_compare(left: Semver, right: Semver) -> int:
    return (left.key > right.key) - (left.key < right.key)


def _wrapped(number: int) -> int:
    """A uint64 as the int64 with the same bits: Kubernetes does not check here."""
    return number - 2**64 if number > INT_MAX else number


declare("kubernetes.Semver . major() -> int", lambda version: _wrapped(version.key[0]))
declare("kubernetes.Semver . minor() -> int", lambda version: _wrapped(version.key[1]))
declare("kubernetes.Semver . patch() -> int", lambda version: _wrapped(version.key[2]))
