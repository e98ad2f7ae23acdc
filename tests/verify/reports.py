"""Reports to render: made up, but shaped like those of real runs."""

from __future__ import annotations

import random

from duly.verify.report import Band, Finding, Lane, Report, Verdict, spread_of

SECOND = 1_000_000
MINUTE = 60 * SECOND
START = 20_515 * 86_400 * SECOND + 9 * 3600 * SECOND

TITLES = {
    "I0": "The history is whole and can be judged",
    "I1": "No job that was acknowledged is lost",
    "I2": "Every target fires once, and nothing else does",
    "I3": "One accepted outcome per execution",
    "I4": "One live lease per execution",
    "I5": "Only the current holder of a lease may write",
    "I6": "Nothing starts before its time",
    "I7": "Everything starts in time, also after faults",
    "I8": "Another scheduler takes over in time",
    "I9": "Epochs only grow",
    "I10": "Retries are counted rightly",
    "I11": "Overlap policies hold",
    "I12": "Catch-up policies hold",
    "I13": "What was cancelled does not start",
    "I14": "Children wait for their parents",
    "I15": "Checkpoints only grow",
    "I16": "Tenants are apart",
    "I17": "The same key submits once",
    "I18": "States follow the published graph",
    "I19": "Hints may be lost",
    "I20": "A drained worker takes nothing new",
    "I21": "Everything created is somewhere",
    "I22": "A local time fires once",
    "I23": "Every change has an actor, no secret leaks",
    "I24": "Resources stay bounded",
}
UNJUDGED = {"I14": "no workflows in this run", "I16": "one tenant", "I24": "no samples: see the soak"}
KINDS = {
    "kill": (52, 3),
    "pause": (21, 9),
    "cut": (18, 7),
    "latency": (9, 20),
    "restart": (5, 4),
    "failover": (1, 6),
    "clock step": (6, 1),
    "snapshot": (1, 300),
}
STATES = (
    "stale completion refused",
    "two believing leaders",
    "commit unknown",
    "sweeper raced a completion",
    "catch-up of more than ten",
    "zombie overlap",
)


def job_id(n: int) -> str:
    return f"job_{n:032x}"


def run_id(n: int) -> str:
    return f"run_{n:032x}"


def bands_of(chance: random.Random, until: int) -> list[Band]:
    """Faults in the middle of the run: the beginning and the end are calm."""
    found = []
    for kind, (times, seconds) in KINDS.items():
        for _ in range(times):
            since = chance.randrange(START + MINUTE, until - 2 * MINUTE)
            length = round(chance.uniform(0.4, 1.8) * seconds * SECOND)
            found.append(Band(kind=kind, since=since, until=min(since + length, until), nodes=[f"worker-{chance.randrange(6)}"]))
    return found


def lane_of(chance: random.Random, n: int, bands: list[Band], until: int) -> tuple[Lane, list[int], list[int]]:
    """A job with its delays, calm and faulty."""
    period, lasts, name = chance.choice(
        [(1, 0.2, "every-second"), (5, 3, "import"), (10, 6, "report"), (15, 14, "long"), (30, 4, "half-minute"), (60, 2, "cron")]
    )
    targets = list(range(START + n * 100_000, until - 40 * SECOND, period * SECOND))
    optional = list(range(until - 40 * SECOND, until, period * SECOND))
    lane = Lane(job=job_id(n), name=f"{name}-{n}", targets=targets, optional=optional)
    calm: list[int] = []
    faulty: list[int] = []
    hit = [band for band in bands if band.kind in ("kill", "pause", "cut", "restart", "failover") and chance.random() < 0.12]
    for at in targets:
        fault = next((band for band in hit if band.since <= at <= band.until), None)
        delay = round(chance.lognormvariate(-4.4, 0.7) * SECOND)
        if fault:
            delay += fault.until - at + round(chance.uniform(0.5, 6) * SECOND)
        (faulty if fault else calm).append(delay)
        if fault and chance.random() < 0.2 and period > 1:
            lane.skipped.append(at)
            continue
        start = at + delay
        end = start + round(lasts * chance.uniform(0.5, 1.2) * SECOND)
        if fault and fault.kind == "pause" and chance.random() < 0.4:
            lane.runs.append((at, at + 200_000, end + 8 * SECOND, False))
        lane.runs.append((at, start, end, True))
    return lane, calm, faulty


def good(minutes: int = 15, jobs: int = 60, seed: int = 7) -> Report:
    """A run in which everything held."""
    chance = random.Random(seed)
    until = START + minutes * MINUTE
    bands = bands_of(chance, until)
    made = [lane_of(chance, n, bands, until) for n in range(jobs)]
    lanes = [lane for lane, _, _ in made]
    fires = sum(len(lane.targets) for lane in lanes)
    refused = sum(not accepted for lane in lanes for *_, accepted in lane.runs)
    recovered = {kind: [round(chance.uniform(0.3, 9) * SECOND) for _ in range(12)] for kind in KINDS}
    return Report(
        started_at=START,
        ended_at=until,
        verdicts=[
            Verdict(invariant=key, title=title, status="not judged", judged=0, why=UNJUDGED[key])
            if key in UNJUDGED
            else Verdict(invariant=key, title=title, status="held", judged=chance.randrange(40, 3 * fires))
            for key, title in TITLES.items()
        ],
        counts={
            "jobs": jobs,
            "targets": fires,
            "optional": sum(len(lane.optional) for lane in lanes),
            "fires": fires,
            "runs": fires,
            "attempts": fires + refused,
            "lost": 0,
            "twice": 0,
            "early": 0,
            "staleAccepted": 0,
            "staleRefused": refused,
            "zombies": refused,
        },
        delays={
            "calm": spread_of(delay for _, calm, _ in made for delay in calm),
            "faulty": spread_of(delay for _, _, faulty in made for delay in faulty),
        },
        recovery=spread_of(delay for delays in recovered.values() for delay in delays),
        recoveries={kind: spread_of(delays) for kind, delays in recovered.items()},
        recovery_bound=30 * SECOND,
        faults={kind: times for kind, (times, _) in KINDS.items()},
        reached={state: chance.randrange(3, 90) for state in STATES},
        lanes=lanes,
        bands=bands,
        about={
            "store": "PostgreSQL 16.4, primary and synchronous standby",
            "seed": seed,
            "command": f"duly verify --minutes {minutes} --store postgres --seed {seed}",
            "versions": {"duly": "0.3.0", "python": "3.12.4", "tzdata": "2026.1"},
            "hardware": "2 cores, 8 GiB",
        },
    )


def broken() -> Report:
    """A run that lost a fire, doubled another, and let two hold a lease."""
    report = good(seed=11)
    lanes = report.lanes
    lost, doubled = lanes[3], lanes[8]
    gone = [entry for entry in lost.runs if entry[0] in lost.targets[len(lost.targets) // 2 :][:2]]
    for entry in gone:
        lost.runs.remove(entry)
        lost.missing.append(entry[0])
    again = doubled.runs[len(doubled.runs) // 3]
    doubled.runs.append((again[0], again[1] + 2 * SECOND, again[1] + 3 * SECOND, True))
    doubled.extra.append(again[1] + 2 * SECOND)
    findings = {
        "I2": [
            Finding(invariant="I2", says=f"{lost.name}: the target has neither a fire nor a skip", at=at, job=lost.job)
            for at in lost.missing
        ],
        "I3": [
            Finding(
                invariant="I3",
                says="two accepted outcomes: succeeded, then succeeded again",
                at=again[1] + 2 * SECOND,
                job=doubled.job,
                run=run_id(77),
                seqs=[20_417, 20_431],
            )
        ],
        "I4": [
            Finding(
                invariant="I4",
                says=f"fence {n + 9} was granted while fence {n + 8} was live",
                at=START + (n + 200) * SECOND,
                job=doubled.job,
                run=run_id(n),
                seqs=[n, n + 40],
            )
            for n in range(27)
        ],
    }
    for verdict in report.verdicts:
        if verdict.invariant in findings:
            verdict.status, verdict.findings = "broken", findings[verdict.invariant]
    report.counts |= {"lost": 2, "twice": 1}
    return report


def long(fires: int = 50_000) -> Report:
    """Half an hour of every-second jobs and others: more marks than pixels."""
    report = good(minutes=30, jobs=70, seed=3)
    n = len(report.lanes)
    chance = random.Random(3)
    while sum(len(lane.targets) for lane in report.lanes) < fires:
        targets = list(range(START, report.ended_at, SECOND))
        runs = [(at, at + chance.randrange(SECOND), at + chance.randrange(SECOND, 2 * SECOND), chance.random() > 0.01) for at in targets]
        report.lanes.append(Lane(job=job_id(n), name=f"second-{n}", targets=targets, runs=runs))
        n += 1
    return report
