"""Conversion of a plan to and from JSON data, in the form of the public interface."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anabranch.errors import PlanError
from anabranch.graph.kind import Push
from anabranch.plan.plan import (
    ArrayColumn,
    ArrayKernel,
    Body,
    Element,
    Plan,
    PlanOperator,
    Reason,
    Region,
    Sequential,
    Subgraph,
)


def to_dict(plan: Plan) -> dict[str, Any]:
    """Return a plan as dictionaries, lists, numbers and strings.

    >>> to_dict(Plan((), (), (), (), (Element("e0", ("a",), None),)))["elements"]
    [{'operators': ['a'], 'name': 'e0', 'region': None}]
    """
    bodies = [
        {"operator": body.operator, "plan": to_dict(body.plan)} for body in plan.bodies
    ]
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
            }
            for element in plan.elements
        ],
        "together": [list(group) for group in plan.together],
        "one_thread": plan.one_thread,
        **({"one_thread_advice": advice} if (advice := plan.one_thread_advice) else {}),
        **({"bodies": bodies} if bodies else {}),
    }


def from_dict(data: Mapping[str, Any]) -> Plan:
    """Return the plan that `to_dict` returned as data.

    >>> element = Element("e0", ("a",), "r0")
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
                Element(one["name"], tuple(one["operators"]), one["region"])
                for one in data["elements"]
            ),
            together=tuple(tuple(group) for group in data.get("together", ())),
            one_thread=data.get("one_thread", ""),
            one_thread_advice=data.get("one_thread_advice", ""),
            bodies=tuple(
                Body(one["operator"], from_dict(one["plan"]))
                for one in data.get("bodies", ())
            ),
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


def _operator_to(operator: PlanOperator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "state": operator.state,
        "key": list(operator.key),
        "pop": "*" if operator.pop is None else operator.pop,
        "push": list(operator.push),
        "forwards": "all" if operator.forwards is None else list(operator.forwards),
        "reasons": [reason._asdict() for reason in operator.reasons],
        "effects": operator.effects,
        "runs": operator.runs,
        "why": operator.why,
        **({"in_parts": True} if operator.in_parts else {}),
        **(
            {"lifted": [list(one) for one in operator.lifted]}
            if operator.lifted
            else {}
        ),
    }


def _operator_from(data: Mapping[str, Any]) -> PlanOperator:
    return PlanOperator(
        name=data["name"],
        state=data["state"],
        key=tuple(data["key"]),
        pop=None if data["pop"] == "*" else data["pop"],
        push=Push(*data["push"]),
        forwards=None if data["forwards"] == "all" else tuple(data["forwards"]),
        reasons=tuple(Reason(**reason) for reason in data["reasons"]),
        effects=data["effects"],
        runs=data.get("runs", "python"),
        in_parts=data.get("in_parts", False),
        why=data.get("why", ""),
        lifted=tuple((scope, name) for scope, name in data.get("lifted", ())),
    )


def _subgraph_to(subgraph: Subgraph) -> dict[str, Any]:
    return {
        "operators": list(subgraph.operators),
        "compiled": subgraph.compiled,
        "why": subgraph.why,
        "kernels": [_kernel_to(kernel) for kernel in subgraph.kernels],
    }


def _subgraph_from(data: Mapping[str, Any]) -> Subgraph:
    return Subgraph(
        tuple(data["operators"]),
        data["why"],
        tuple(_kernel_from(kernel) for kernel in data["kernels"]),
    )


def _kernel_to(kernel: ArrayKernel) -> dict[str, Any]:
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


def _kernel_from(data: Mapping[str, Any]) -> ArrayKernel:
    return ArrayKernel(
        data["operator"],
        data["pop"],
        data["push"],
        data["peek"],
        tuple(ArrayColumn(*column) for column in data["takes"]),
        tuple(ArrayColumn(*column) for column in data["gives"]),
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
        "order": region.ordering,
        "first_joint": region.first_joint,
        "last_joint": region.last_joint,
        "why": region.why,
        "ends": region.ends,
        "period": region.period,
        "inputs": list(region.inputs),
        "outputs": list(region.outputs),
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
        inputs=tuple(data.get("inputs", ())),
        outputs=tuple(data.get("outputs", ())),
    )
