"""Fixtures of the study client's tests."""

from collections.abc import AsyncIterator

import pytest

from countersign.study.services import Services, open_services
from tests.countersign.study.fakes import Fakes, run_fakes


@pytest.fixture
async def fakes() -> AsyncIterator[Fakes]:
    """Stand-ins for the three services."""
    async with run_fakes() as running:
        yield running


@pytest.fixture
async def services(fakes: Fakes) -> AsyncIterator[Services]:
    """Stubs of the stand-ins."""
    async with open_services(fakes.addresses) as opened:
        yield opened
