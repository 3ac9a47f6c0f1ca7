import pytest

from tuner_integration.zero_cost_filter import ZeroCostFilter


def test_about_the_share_is_skipped(rng):
    judge = ZeroCostFilter(lambda value: value, share=0.3)
    values = rng.normal(size=400)
    skipped = [judge.skips(value) for value in values]
    assert not any(skipped[:10])
    assert sum(skipped) / 400 == pytest.approx(0.3, abs=0.04)
    assert max(v for v, s in zip(values, skipped, strict=True) if s) < -0.2


@pytest.mark.parametrize("score, share", [("synflow", 0.5), (len, 1.0), (len, "0.5")])
def test_refusals(score, share):
    with pytest.raises(ValueError, match="zero_cost"):
        ZeroCostFilter(score, share)
