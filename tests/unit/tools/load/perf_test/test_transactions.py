"""Which transactions of a load test are aborted."""

from fractions import Fraction

import pytest

from pkafka.tools.load.perf_test.transactions import is_aborted


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(1)])
def test_the_share_of_aborts_is_kept_at_any_time(share: Fraction) -> None:
    aborted = 0
    for number in range(1_000):
        aborted += is_aborted(number, share)
        assert aborted == (number + 1) * share // 1


def test_the_first_transactions_are_committed() -> None:
    assert [is_aborted(number, Fraction(1, 4)) for number in range(8)] == 2 * [False, False, False, True]
