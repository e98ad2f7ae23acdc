"""Jobs of APScheduler 3 as projects declare them; parsed and never imported."""

from datetime import datetime

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

scheduler = BackgroundScheduler(timezone="Europe/Berlin", job_defaults={"coalesce": False, "max_instances": 3})

raise SystemExit("a program that is run, not read, ends the test here")


@scheduler.scheduled_job("cron", id="nightly", hour=2, minute=30, misfire_grace_time=3600)
def nightly():
    pass


@scheduler.scheduled_job(CronTrigger(minute="*/20"), name="every twenty minutes")
def twenty():
    pass


scheduler.add_job(close_books, "cron", day="last", hour=18, id="month-end", max_instances=1)
scheduler.add_job("shop.jobs:board", "cron", day="2nd tue", hour=10, id="board")
scheduler.add_job(tasks.both, "cron", day="1-7", day_of_week="mon", hour="2-3", minute="0,30", id="both")
scheduler.add_job(tasks.crontab, CronTrigger.from_crontab("0 3 * * 1", timezone="UTC"), id="from-crontab")
scheduler.add_job(tasks.every, IntervalTrigger(hours=6), args=[1, 2], id="every-six-hours")
scheduler.add_job(tasks.anchored, "interval", days=1, start_date="2026-08-03 02:30:00", id="anchored")
scheduler.add_job(tasks.once, "date", run_date=datetime(2026, 12, 24, 18, 0), id="once", kwargs={"text": "hello"})
scheduler.add_job(tasks.soon, id="at-once")
scheduler.add_job(tasks.weeks, "cron", week="*/2", day_of_week="mon", id="weeks")
scheduler.add_job(tasks.computed, "cron", hour=HOUR, id="computed")
for name in ("a", "b"):
    scheduler.add_job(tasks.looped, "cron", **settings[name])
