"""When passes are due."""

from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import given
from hypothesis import strategies as st

from agent.clock import Alarm, Clock, Schedule, first_due, name_weekdays, parse_duration

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize("number", range(8))
def test_weekday_numbers_mean_what_people_mean(number: int) -> None:
    """0 and 7 are Sunday, 1 is Monday: the library on its own would count from Monday."""
    fires = CronTrigger.from_crontab(name_weekdays(f"30 4 * * {number}"), timezone=UTC).get_next_fire_time(None, NOW)
    assert fires is not None
    assert (fires.isoweekday() % 7, fires.hour, fires.minute) == (number % 7, 4, 30)


@given(days=st.sets(st.integers(0, 6), min_size=1), hour=st.integers(0, 23))
def test_lists_of_weekdays_fire_on_each_and_on_no_other(days: set[int], hour: int) -> None:
    """Two weeks of a schedule hit exactly the days that were named."""
    cron = name_weekdays(f"0 {hour} * * {','.join(map(str, sorted(days)))}")
    trigger = CronTrigger.from_crontab(cron, timezone=UTC)
    fired, moment = set(), NOW
    for _ in range(14):
        moment = trigger.get_next_fire_time(moment, moment + timedelta(microseconds=1))
        fired.add(moment.isoweekday() % 7)
    assert fired == days


def test_ranges_steps_and_names_are_kept() -> None:
    """Ranges and steps are written out, names and stars stay."""
    assert name_weekdays("0 3 * * 1-5") == "0 3 * * mon,tue,wed,thu,fri"
    assert name_weekdays("0 3 * * 5-7") == "0 3 * * fri,sat,sun"
    assert name_weekdays("0 3 * * 0/2") == "0 3 * * sun,tue,thu,sat"
    assert name_weekdays("0 3 * * mon,*/2") == "0 3 * * mon,*/2"
    for wrong in ("0 3 * *", "0 3 * * 5-1"):
        with pytest.raises(ValueError, match=r"cron needs|runs backwards"):
            name_weekdays(wrong)


def test_durations() -> None:
    """A number and a unit; anything else says what is expected."""
    assert [parse_duration(text) for text in ("90s", "30m", "6h", "1.5d")] == [90, 1800, 21600, 129600]
    for wrong in ("", "6", "h", "0h", "-1h", "6 hours"):
        with pytest.raises(ValueError, match="expected a duration"):
            parse_duration(wrong)


def test_a_missed_run_is_caught_up_once_and_soon() -> None:
    """Counting starts at the last run; what is overdue waits only until start-up is over."""
    hour = 3600.0
    assert first_due(hour, last_run_at=None, now=NOW) == NOW + timedelta(hours=1)
    assert first_due(hour, last_run_at=NOW - timedelta(minutes=20), now=NOW) == NOW + timedelta(minutes=40)
    overdue = first_due(hour, last_run_at=NOW - timedelta(days=9), now=NOW)
    assert NOW < overdue <= NOW + timedelta(minutes=1)


async def test_enough_interactions_ring_once_per_run() -> None:
    """The alarm rings at the threshold and counts anew once it is taken."""
    alarm = Alarm("reflect", Schedule.parse(every="", cron="", after_interactions=3))
    alarm.count_interactions(2)
    assert not alarm.is_due
    alarm.count_interactions(1)
    assert await alarm.due() == "after_interactions"
    alarm.count_interactions(2)
    assert not alarm.is_due


async def test_the_clock_rings_alarms_and_says_when() -> None:
    """`every` fires by itself; next_due tells the nearest time; no schedule means no time."""
    ringing = Alarm("update", Schedule.parse(every="1s", cron="0 0 1 1 *", after_interactions=0))
    silent = Alarm("reflect", Schedule.parse(every="", cron="", after_interactions=0))
    with Clock(lambda: datetime.now(UTC)) as clock:
        for alarm in (ringing, silent):
            clock.add(alarm, last_run_at=datetime.now(UTC) - timedelta(days=1))
        assert clock.next_due(ringing) is not None
        assert clock.next_due(silent) is None
        assert await ringing.due() == "every"


def test_a_wrong_schedule_is_refused_at_once() -> None:
    """A cron that means nothing is an error when it is read, not when it would have fired."""
    with pytest.raises(ValueError, match=r"range|expression|field|Unrecognized"):
        Schedule.parse(every="", cron="99 3 * * mon", after_interactions=0)
