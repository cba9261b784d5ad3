"""What a schedule means: weekdays, daylight saving, quiet hours, durations."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.schedule import Cron, Schedule, ScheduleError, name_weekdays, parse_duration
from reflection.settings import ScheduleSettings

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday
BERLIN = ZoneInfo("Europe/Berlin")


def read(**keys: object) -> Schedule:
    return Schedule.read(ScheduleSettings.model_validate(keys))


def fires(text: str, start: datetime, end: datetime, zone: ZoneInfo = BERLIN) -> list[datetime]:
    """All times of a cron in (start, end]."""
    cron, found, moment = Cron(text=text, zone=zone), [], start
    while (following := cron.next_after(moment)) is not None and following <= end:
        found.append(following)
        moment = following
    return found


@pytest.mark.parametrize("number", range(8))
def test_weekday_numbers_mean_what_people_mean(number: int) -> None:
    """0 and 7 are Sunday, 1 is Monday: the library on its own would count from Monday."""
    found = Cron(text=f"30 4 * * {number}", zone=ZoneInfo("UTC")).next_after(NOW)
    assert found is not None
    assert (found.isoweekday() % 7, found.hour, found.minute) == (number % 7, 4, 30)


@given(days=st.sets(st.integers(0, 6), min_size=1), hour=st.integers(0, 23))
def test_lists_of_weekdays_fire_on_each_and_on_no_other(days: set[int], hour: int) -> None:
    """Two weeks of a schedule hit exactly the days that were named."""
    cron = f"0 {hour} * * {','.join(map(str, sorted(days)))}"
    found = fires(cron, NOW, NOW + timedelta(days=14), ZoneInfo("UTC"))
    assert {moment.isoweekday() % 7 for moment in found} == days
    assert len(found) == 2 * len(days)


def test_ranges_steps_and_names_are_kept() -> None:
    """Ranges and steps are written out, names and stars stay."""
    assert name_weekdays("0 3 * * 1-5") == "0 3 * * mon,tue,wed,thu,fri"
    assert name_weekdays("0 3 * * 5-7") == "0 3 * * fri,sat,sun"
    assert name_weekdays("0 3 * * 0/2") == "0 3 * * sun,tue,thu,sat"
    assert name_weekdays("0 3 * * mon,*/2") == "0 3 * * mon,*/2"
    for wrong in ("0 3 * *", "0 3 * * 5-1"):
        with pytest.raises(ValueError, match=r"cron needs|runs backwards"):
            name_weekdays(wrong)


def test_a_time_that_spring_skips_comes_once() -> None:
    """02:30 of 29 March 2026 does not exist in Berlin: it comes at 03:30, which is as long after midnight."""
    found = fires("30 2 * * *", datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 3, 31, tzinfo=UTC))
    local = [moment.astimezone(BERLIN).strftime("%d %H:%M") for moment in found]
    assert local == ["28 02:30", "29 03:30", "30 02:30"]


def test_a_time_that_autumn_repeats_comes_once() -> None:
    """02:30 of 25 October 2026 comes twice in Berlin: the first one counts."""
    found = fires("30 2 * * *", datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 10, 27, tzinfo=UTC))
    assert [moment.strftime("%d %H:%M") for moment in found] == ["24 00:30", "25 00:30", "26 01:30"]


def test_an_hourly_cron_follows_real_time() -> None:
    """Neither a missing nor a repeated hour makes a gap or a crowd."""
    for day in (datetime(2026, 3, 28, 20, tzinfo=UTC), datetime(2026, 10, 24, 20, tzinfo=UTC)):
        found = fires("0 * * * *", day, day + timedelta(hours=10))
        assert found == [day + timedelta(hours=hour) for hour in range(1, 11)]


@given(
    cron=st.sampled_from(["30 2 * * *", "0 * * * *", "*/20 * * * *", "15 1-3 * * sun", "0 0 1 * *", "5 */6 * * 1-5"]),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kathmandu"]),
    minutes=st.integers(0, 2 * 366 * 24 * 60),
)
def test_the_next_time_is_later_and_nothing_lies_between(cron: str, zone: str, minutes: int) -> None:
    """From anywhere before it the same time is next: due times do not depend on when one asks."""
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    rule = Cron(text=cron, zone=ZoneInfo(zone))
    found = rule.next_after(start)
    assert found is not None
    assert found > start
    assert rule.next_after(start + (found - start) / 2) == found
    assert rule.next_after(found - timedelta(seconds=1)) == found


def test_durations() -> None:
    """A number and a unit; anything else says what is expected."""
    assert [parse_duration(text) for text in ("90s", "30m", "6h", "1.5d")] == [90, 1800, 21600, 129600]
    for wrong in ("", "6", "h", "0h", "-1h", "6 hours", "99999d", "9" * 400 + "d", "٣h"):
        with pytest.raises(ValueError, match="expected a duration"):
            parse_duration(wrong)


def test_quiet_hours_may_pass_midnight() -> None:
    """They are local time, and say when they end."""
    quiet = read(quiet_hours="22:00-07:00", timezone="Europe/Berlin").quiet
    assert quiet is not None
    for local, covered in (("2026-03-04 21:59", False), ("2026-03-04 22:00", True), ("2026-03-05 06:59", True)):
        moment = datetime.fromisoformat(local).replace(tzinfo=BERLIN)
        assert quiet.covers(moment) is covered
    late = datetime(2026, 3, 4, 23, 0, tzinfo=BERLIN)
    assert quiet.end_after(late) == datetime(2026, 3, 5, 7, 0, tzinfo=BERLIN)


@pytest.mark.parametrize(
    "keys",
    [
        {"every": "soon"},
        {"cron": "99 3 * * mon"},
        {"cron": "0 3 * *"},
        {"cron": "0 0 31 4 *"},
        {"when_idle": "1"},
        {"quiet_hours": "22-07"},
        {"quiet_hours": "22:00-22:00"},
        {"timezone": "Nowhere/Here"},
        {"timezone": ""},
        {"max_duration": "forever"},
    ],
)
def test_a_wrong_schedule_is_refused_when_it_is_read(keys: dict[str, str]) -> None:
    """Not when it would have fired; the message begins with the key."""
    with pytest.raises(ScheduleError, match=f"^{next(iter(keys))}: "):
        read(**keys)
