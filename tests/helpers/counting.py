"""Small counting jobs of many units."""

import pytest

from bpejit.counting import counting_plan

UNIT_BYTES = 20_000
GROUP_BYTES = 60_000


def small_units(patch: pytest.MonkeyPatch) -> None:
    """Have counting jobs divide small inputs into units, and write checkpoints between groups of them."""
    patch.setattr(counting_plan, "LEAST_UNIT", UNIT_BYTES)
    patch.setattr(counting_plan, "UNIT_BYTES", UNIT_BYTES)
    patch.setattr(counting_plan, "GROUP_BYTES", GROUP_BYTES)
