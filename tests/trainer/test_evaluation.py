"""Online evaluation slides, orders, and pools."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.control.training_quality import TrainingQuality, pooled
from services.samples.scores import auc
from services.trainer.evaluation import OnlineEvaluation


def test_old_samples_leave_the_window() -> None:
    evaluation = OnlineEvaluation(window=100)
    labels, good, bad = np.array([0.0, 1.0] * 25), np.array([0.2, 0.8] * 25), np.array([0.8, 0.2] * 25)
    evaluation.trained(labels, bad, age_s=9.0)
    assert evaluation.quality().auc == 0.0
    for _ in range(2):
        evaluation.trained(labels, good, age_s=1.0)

    quality = evaluation.quality()
    assert (quality.samples, quality.auc, quality.sample_age_s) == (100, 1.0, 1.0)
    assert quality.logloss == pytest.approx(-np.log(0.8))


def test_before_the_first_sample_there_is_nothing_to_tell_but_what_was_left_out() -> None:
    evaluation = OnlineEvaluation()
    evaluation.skipped()
    evaluation.rejected(3)

    assert evaluation.quality() == TrainingQuality(0, None, 0.0, 0.0, skipped=1, rejected=3)
    assert pooled([evaluation.quality(), None]) is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=40))
def test_auc_is_the_share_of_pairs_in_order(pairs: list[tuple[bool, int]]) -> None:
    labels = np.array([float(label) for label, _ in pairs])
    scores = np.array([score for _, score in pairs], np.float32)
    good = [score for label, score in pairs if label]
    bad = [score for label, score in pairs if not label]
    found = auc(labels, scores)

    if not good or not bad:
        assert found is None
    else:
        points = sum((g > b) + 0.5 * (g == b) for g in good for b in bad)
        assert found == pytest.approx(points / (len(good) * len(bad)))
