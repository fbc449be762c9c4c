import random

import pytest

from tests.attack.bodies import list_body_routes, make_attack
from tests.attack.campaign import MANY
from tests.attack.shapes import SHAPES


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("count", [250, MANY])
@pytest.mark.parametrize("shape", SHAPES)
def test_repeated_attack_stores_something_else_when_the_first_was_stored(shape: str, count: int, method: str) -> None:
    """The same value again might change nothing, and be cheaper than the first time."""
    route = next(one for one in list_body_routes() if one.method == method and "/artifacts" in one.path)
    first = make_attack(route, "", shape, count=count, chance=random.Random(1), is_yaml=True)
    repeated = [first.repeat(number) for number in range(2)]
    assert len({first.content, *(attack.content for attack in repeated)}) == 3
    assert {attack.target for attack in repeated} == {first.target}
