"""What some of these tests need, and what to install where it is missing."""

from __future__ import annotations

import sys

import pytest

from services.embedded.apache import missing

apache = pytest.mark.skipif(missing() is not None, reason=f"Apache Kafka: {missing()}")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="parent-death signals are Linux's")
