"""One rig for each test, opened, with an admin's client."""

import pytest
from fastapi.testclient import TestClient

from tests.api.sites import Rig


@pytest.fixture
async def rig() -> Rig:
    return await Rig().opened()


@pytest.fixture
async def client(rig: Rig) -> TestClient:
    return rig.client(await rig.token())
