"""A configuration as projects have it; it is parsed and never imported."""

from datetime import timedelta

from celery import Celery
from celery.schedules import crontab, solar

raise SystemExit("a configuration that is run, not read, ends the test here")

NIGHT = 2
app = Celery("shop")
app.conf.timezone = "Europe/Berlin"
app.conf.beat_schedule = {
    "nightly-report": {
        "task": "shop.tasks.nightly_report",
        "schedule": crontab(hour=NIGHT, minute=30),
        "kwargs": {"region": "eu"},
        "options": {"queue": "reports"},
    },
    "every-quarter": {"task": "shop.tasks.poll", "schedule": crontab(minute="*/15")},
    "first-monday": {"task": "shop.tasks.board", "schedule": crontab(minute=0, hour="9,17", day_of_month="1-7", day_of_week="mon")},
    "twice-in-the-gap": {"task": "shop.tasks.twice", "schedule": crontab(hour=2, minute="0,30,45")},
    "heartbeat": {"task": "shop.tasks.heartbeat", "schedule": 30.0},
    "sync": {"task": "shop.tasks.sync", "schedule": timedelta(hours=6), "args": [16, "full"]},
    "sunset": {"task": "shop.tasks.lights", "schedule": solar("sunset", -37.81, 144.96)},
    "elsewhere": {"task": "shop.tasks.x", "schedule": schedule_from_settings()},
    "winter": {"task": "shop.tasks.winter", "schedule": crontab(minute=5, hour="22-2", month_of_year="nov-feb", day_of_week="fri-mon")},
}


@app.on_after_configure.connect
def set_up(sender, **kwargs):
    sender.add_periodic_task(crontab(hour=7, minute=30, day_of_week=1), remind.s("monday"), name="remind on mondays")
