"""Seconds by stage."""

from updater.stage_times import StageTimes


def test_each_stage_counts_until_the_next_and_progress_is_passed_on() -> None:
    now = [0.0]
    seen: list[tuple[str, int, int]] = []
    times = StageTimes(lambda *report: seen.append(report), clock=lambda: now[0])
    for at, stage in ((0.0, "plan"), (2.0, "train"), (3.0, "train"), (10.0, "gate")):
        now[0] = at
        times(stage, 0, 1)
    now[0] = 11.5
    assert times.seconds() == {"plan": 2.0, "train": 8.0, "gate": 1.5}
    assert [stage for stage, _, _ in seen] == ["plan", "train", "train", "gate"]
