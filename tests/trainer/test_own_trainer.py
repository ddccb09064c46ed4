"""The guide's own trainer is run as it stands in the guide: it trains everything and leaves in order."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from services.traffic.clicks import ClickMaker
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import JOB, settings_for, trained_all
from tests.trainer.learning import send_clicks

GUIDE = Path(__file__).parents[2] / "docs" / "trainer.md"


def test_the_trainer_of_the_guide_runs_in_no_more_than_30_lines(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(program.splitlines()) <= 30
    settings = settings_for(kafka.bootstrap, redis_url, kafka.new_topic(2), group)
    config, script = tmp_path / "penstock.yaml", tmp_path / "own.py"
    config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
    script.write_text(program, encoding="utf-8")
    samples = send_clicks(settings, 2_000, maker=ClickMaker())
    own = subprocess.Popen(
        [sys.executable, str(script), str(config), JOB, "own-0"], stdout=subprocess.PIPE, text=True
    )
    try:
        trained_all(settings, samples)
        own.send_signal(signal.SIGTERM)
        said, _ = own.communicate(timeout=60)
    finally:
        own.kill()
        own.wait()

    assert own.returncode == 0
    assert re.search(r"^\d{3,} weights learned", said, flags=re.MULTILINE)
