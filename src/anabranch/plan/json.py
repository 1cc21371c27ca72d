"""A plan to and from data that JSON can hold, in the shape of the public interface."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anabranch.errors import PlanError
from anabranch.plan.plan import (
    Buffer,
    Column,
    Element,
    Kernel,
    Operator,
    Plan,
    Push,
    Queue,
    Reason,
    Region,
    Sequential,
    Subgraph,
)


def to_dict(plan: Plan) -> dict[str, Any]:
    """Return a plan as dictionaries, lists, numbers and strings.

    >>> to_dict(Plan((), (), (), (), (Element("e0", ("a",), None, 0),)))["elements"]
    [{'operators': ['a'], 'name': 'e0', 'region': None, 'level': 0}]
    """
    return {
        "operators": [_operator_to(operator) for operator in plan.operators],
        "subgraphs": [_subgraph_to(subgraph) for subgraph in plan.subgraphs],
        "regions": [_region_to(region) for region in plan.regions],
        "sequential": [
            {
                "operator": one.operator,
                "why": one.why,
                "reason": None if one.reason is None else one.reason._asdict(),
            }
            for one in plan.sequential
        ],
        "elements": [
            {
                "operators": list(element.operators),
                "name": element.name,
                "region": element.region,
                "level": element.level,
            }
            for element in plan.elements
        ],
        "queues": [queue._asdict() for queue in plan.queues],
    }


def from_dict(data: Mapping[str, Any]) -> Plan:
    """Return the plan that `to_dict` gave.

    >>> element = Element("e0", ("a",), "r0", 1)
    >>> from_dict(to_dict(Plan((), (), (), (), (element,)))).elements == (element,)
    True
    """
    try:
        return Plan(
            operators=tuple(_operator_from(one) for one in data["operators"]),
            subgraphs=tuple(_subgraph_from(one) for one in data["subgraphs"]),
            regions=tuple(_region_from(one) for one in data["regions"]),
            sequential=tuple(
                Sequential(
                    one["operator"],
                    one["why"],
                    None if one["reason"] is None else Reason(**one["reason"]),
                )
                for one in data["sequential"]
            ),
            elements=tuple(
                Element(
                    one["name"], tuple(one["operators"]), one["region"], one["level"]
                )
                for one in data["elements"]
            ),
            queues=tuple(Queue(**one) for one in data.get("queues", ())),
        )
    except (KeyError, TypeError, AttributeError) as error:
        msg = (
            f"a plan must be what to_dict gives; {type(error).__name__} at {error}; "
            "was it written by another version?"
        )
        raise PlanError(msg) from error


def to_json(plan: Plan) -> str:
    """Return a plan as JSON text."""
    return json.dumps(to_dict(plan), indent=2)


def from_json(text: str) -> Plan:
    """Return the plan that `to_json` wrote."""
    return from_dict(json.loads(text))


def _operator_to(operator: Operator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "state": operator.state,
        "key": list(operator.key),
        "pop": "*" if operator.pop is None else operator.pop,
        "push": list(operator.push),
        "forwards": "all" if operator.forwards is None else list(operator.forwards),
        "reasons": [reason._asdict() for reason in operator.reasons],
        "effects": operator.effects,
    }


def _operator_from(data: Mapping[str, Any]) -> Operator:
    return Operator(
        name=data["name"],
        state=data["state"],
        key=tuple(data["key"]),
        pop=None if data["pop"] == "*" else data["pop"],
        push=Push(*data["push"]),
        forwards=None if data["forwards"] == "all" else tuple(data["forwards"]),
        reasons=tuple(Reason(**reason) for reason in data["reasons"]),
        effects=data["effects"],
    )


def _subgraph_to(subgraph: Subgraph) -> dict[str, Any]:
    return {
        "operators": list(subgraph.operators),
        "repetitions": dict(subgraph.repetitions),
        "compiled": subgraph.compiled,
        "why": subgraph.why,
        "initial": dict(subgraph.initial),
        "buffers": [buffer._asdict() for buffer in subgraph.buffers],
        "kernels": [_kernel_to(kernel) for kernel in subgraph.kernels],
    }


def _subgraph_from(data: Mapping[str, Any]) -> Subgraph:
    return Subgraph(
        tuple(data["operators"]),
        tuple(data["repetitions"].items()),
        data["compiled"],
        data["why"],
        tuple(data["initial"].items()),
        tuple(Buffer(**buffer) for buffer in data["buffers"]),
        tuple(_kernel_from(kernel) for kernel in data["kernels"]),
    )


def _kernel_to(kernel: Kernel) -> dict[str, Any]:
    return {
        "operator": kernel.operator,
        "pop": kernel.pop,
        "push": kernel.push,
        "peek": kernel.peek,
        "takes": [list(column) for column in kernel.takes],
        "gives": [list(column) for column in kernel.gives],
        "source": kernel.source,
        "constants": list(kernel.constants),
    }


def _kernel_from(data: Mapping[str, Any]) -> Kernel:
    return Kernel(
        data["operator"],
        data["pop"],
        data["push"],
        data["peek"],
        tuple(Column(*column) for column in data["takes"]),
        tuple(Column(*column) for column in data["gives"]),
        data["source"],
        tuple(data["constants"]),
    )


def _region_to(region: Region) -> dict[str, Any]:
    return {
        "name": region.name,
        "operators": list(region.operators),
        "key": list(region.key),
        "push": list(region.push),
        "ordering": region.ordering,
        "first_joint": region.first_joint,
        "last_joint": region.last_joint,
        "why": region.why,
        "ends": region.ends,
        "period": region.period,
    }


def _region_from(data: Mapping[str, Any]) -> Region:
    return Region(
        name=data["name"],
        operators=tuple(data["operators"]),
        key=tuple(data["key"]),
        push=Push(*data["push"]),
        ordering=data["ordering"],
        first_joint=data["first_joint"],
        last_joint=data["last_joint"],
        why=data["why"],
        ends=data["ends"],
        period=data.get("period", 1),
    )
