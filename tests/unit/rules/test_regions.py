from __future__ import annotations

import pytest

from headway.errors import RefusedError, UsageError
from headway.rules import regions


@pytest.mark.parametrize(
    ("named", "region", "allowed"),
    [
        ([], "", True),
        ([], "cn-hangzhou", True),
        (["cn-hangzhou"], "cn-hangzhou", True),
        (["cn-hangzhou", "berlin"], "berlin", True),
        (["cn-hangzhou"], "cn-shanghai", False),
        # a place that nobody said anything of is not taken for an allowed one
        (["cn-hangzhou"], "", False),
    ],
)
def test_where_data_may_lie(named: list[str], region: str, allowed: bool) -> None:
    assert regions.allowed(named, region) is allowed


def test_a_refusal_names_project_place_and_regions() -> None:
    regions.require("vision", [], "x", "the node gpu-1")
    with pytest.raises(RefusedError) as refused:
        regions.require("vision", ["berlin", "bonn"], "cn-hangzhou", "the node gpu-1")
    assert refused.value.code == "region"
    for word in ("vision", "berlin, bonn", "the node gpu-1", "cn-hangzhou"):
        assert word in refused.value.message
    with pytest.raises(RefusedError, match="no region that is known"):
        regions.require("vision", ["berlin"], "", "the node gpu-1")


@pytest.mark.parametrize("text", ["", "CN", "a b", "-a", "a-", "a_b", "x" * 65])
def test_what_names_no_region(text: str) -> None:
    with pytest.raises(UsageError):
        regions.check_region(text)
    assert regions.check_region("cn-hangzhou") == "cn-hangzhou"
